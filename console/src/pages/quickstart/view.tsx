/** Snippets to choose from by task, tool and model. */
import { Anchor, SegmentedControl, Select, Stack, Tabs } from '@mantine/core';
import { Link } from 'react-router';

import { Code } from '../../parts/Copy';
import css from '../../parts/parts.module.css';
import { snippetsFor, type Task } from './wire';

const TASKS: readonly { value: Task; label: string }[] = [
  { value: 'ask', label: 'Ask a model' },
  { value: 'batch', label: 'Submit a batch' },
];

export function QuickstartView(props: { models: readonly string[]; model: string; task: Task; url: string; onModel: (model: string) => void; onTask: (task: string) => void }) {
  const snippets = snippetsFor(props.task, { url: props.url, model: props.model });
  return (
    <Stack gap="lg" maw={860}>
      <div className={css.filters}>
        <SegmentedControl aria-label="What to do" data={[...TASKS]} value={props.task} onChange={props.onTask} />
        <Select aria-label="Model" data={[...props.models]} value={props.model} onChange={(model) => props.onModel(model ?? '')} allowDeselect={false} searchable w={260} />
      </div>
      <Tabs key={props.task} defaultValue={snippets[0]?.name ?? ''} keepMounted={false}>
        <Tabs.List mb="md">
          {snippets.map((snippet) => (
            <Tabs.Tab key={snippet.name} value={snippet.name}>
              {snippet.name}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {snippets.map((snippet) => (
          <Tabs.Panel key={snippet.name} value={snippet.name}>
            <Code text={snippet.text} label={snippet.name} />
          </Tabs.Panel>
        ))}
      </Tabs>
      <p className={css.lead}>
        A key comes from{' '}
        <Anchor component={Link} to="/keys" fz="inherit" underline="always">
          API keys
        </Anchor>
        . The same keys work for every dialect, as <code>Authorization: Bearer</code>, as{' '}
        <code>X-API-Key</code>, or as an SDK sends them; everything that this gateway answers is described at{' '}
        <Anchor href="/openapi.json" fz="inherit" underline="always">
          /openapi.json
        </Anchor>
        .
      </p>
    </Stack>
  );
}
