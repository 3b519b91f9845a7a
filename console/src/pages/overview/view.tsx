/** What a user looks for first: what runs, what was spent, what came last. */
import { Anchor, Button, Group } from '@mantine/core';
import { Link } from 'react-router';

import type { Schemas } from '../../api/client';
import { DataTable } from '../../parts/DataTable';
import { compact, count } from '../../parts/format';
import { Cards, FigureCard, SpendMeter } from '../../parts/Meter';
import { Section } from '../../parts/Page';
import { Empty } from '../../parts/states';
import { COLUMNS } from '../batches/view';
import type { Batch } from '../batches/wire';
import type { Usage } from '../usage/wire';

export function Figures(props: { user: Schemas['User']; usage: Usage | undefined; running: number | null }) {
  const { user, usage } = props;
  const requests = usage?.models.reduce((sum, use) => sum + use.requests, 0);
  const tokens = usage?.models.reduce((sum, use) => sum + use.prompt_tokens + use.completion_tokens, 0);
  const errors = usage?.models.reduce((sum, use) => sum + use.error_requests, 0) ?? 0;
  return (
    <Cards>
      <SpendMeter name="Spent today" spent={user.spent_today_usd} limit={user.account.daily_quota_usd} />
      <SpendMeter name="Spent this month" spent={user.spent_this_month_usd} limit={user.account.monthly_quota_usd} />
      {props.running !== null && <FigureCard name="Batches running" value={count(props.running)} note={props.running === 0 ? 'Nothing waits' : 'not finished yet'} />}
      <FigureCard
        name="Requests, last 7 days"
        value={requests === undefined ? '–' : compact(requests)}
        note={`${compact(tokens ?? 0)} tokens${errors > 0 ? `, ${count(errors)} failed` : ''}`}
      />
    </Cards>
  );
}

export function Latest({ batches }: { batches: readonly Batch[] }) {
  return (
    <Section
      title="Latest batches"
      aside={
        <Anchor component={Link} to="/batches" size="sm">
          All batches
        </Anchor>
      }
    >
      <DataTable label="Newest batches" columns={COLUMNS} rows={batches.slice(0, 6)} rowKey={(batch) => batch.id} rowTo={(batch) => `/batches/${batch.id}`} />
    </Section>
  );
}

export function FirstSteps({ batches }: { batches: boolean }) {
  return (
    <Section title="First steps">
      <Empty
        title={batches ? 'Nothing was submitted yet' : 'Ask a model'}
        action={
          <Group justify="center" gap="xs">
            <Button component={Link} to="/keys">
              Make an API key
            </Button>
            <Button component={Link} to="/quickstart" variant="default">
              Copy a snippet
            </Button>
          </Group>
        }
      >
        Make a key, then run one of the snippets with it.
      </Empty>
    </Section>
  );
}
