/** /admin/configuration: every run-time setting. Changes are gathered and saved together. */
import { Button, Group as Row } from '@mantine/core';
import { useState } from 'react';

import { Confirm } from '../../../parts/Confirm';
import { FilterBar } from '../../../parts/FilterBar';
import { counted } from '../../../parts/format';
import { Page } from '../../../parts/Page';
import { Empty, Loaded, Note } from '../../../parts/states';
import { useUrlState } from '../../../parts/useUrlState';
import admin from '../admin.module.css';
import { useChangeSettings, useResetSetting, useSettings } from './load';
import { SettingsView } from './view';
import { type Draft, groupsOf, matches, type Setting, withChoice, wordsOf } from './wire';

export function Component() {
  const url = useUrlState();
  const settings = useSettings(true);
  const change = useChangeSettings();
  const reset = useResetSetting();
  const [draft, setDraft] = useState<Draft>({});
  const [resetting, setResetting] = useState<Setting | null>(null);
  const changes = Object.keys(draft).length;
  const only = url.get('show');
  const drop = () => {
    setDraft({});
    change.reset();
  };
  const close = () => {
    setResetting(null);
    reset.reset();
  };
  const shown = (found: readonly Setting[]) =>
    groupsOf(found.filter((setting) => matches(setting, url.get('search')) && (only !== 'changed' || setting.source !== 'default')));
  return (
    <Page title="Configuration" lead="Run-time settings. A change is in force here at once, in every process within ten seconds, and noted in the audit log.">
      <FilterBar
        url={url}
        search="Search the settings"
        choices={[{ name: 'show', label: 'Which settings', options: [{ value: '', label: 'All' }, { value: 'changed', label: 'Not the default' }] }]}
      />
      <Loaded query={settings} rows={8}>
        {(list) => (
          <>
            {list.unknown.length > 0 && <Note tone="warn">Stored, but not known to this release: {list.unknown.join(', ')}. They are kept until they are reset.</Note>}
            {shown(list.data).length === 0 ? (
              <Empty title="No setting fits">Look for another part of its name or of what it does.</Empty>
            ) : (
              <SettingsView groups={shown(list.data)} draft={draft} commands={{ choose: (setting, value) => setDraft(withChoice(draft, setting, value)), reset: setResetting }} />
            )}
          </>
        )}
      </Loaded>
      {changes > 0 && (
        <div className={admin.saveBar} role="region" aria-label="Changes that are not saved">
          <div style={{ flex: '1 1 260px' }}>
            {change.error === null ? (
              `${counted(changes, 'change is', 'changes are')} not saved`
            ) : (
              <Note tone="bad" role="alert">
                {change.error.message}
              </Note>
            )}
          </div>
          <Row gap="xs">
            <Button variant="default" onClick={drop}>
              Drop them
            </Button>
            <Button loading={change.isPending} onClick={() => change.mutate(draft, { onSuccess: drop })}>
              Save
            </Button>
          </Row>
        </div>
      )}
      <Confirm
        ask={
          resetting === null
            ? null
            : {
                title: `Reset ${resetting.name}?`,
                children: `The value set here is removed; the environment’s value holds again, or the default, ${wordsOf(resetting, resetting.default)}.`,
                action: 'Reset it',
              }
        }
        busy={reset.isPending}
        error={reset.error}
        onClose={close}
        onConfirm={() => resetting !== null && reset.mutate(resetting.name, { onSuccess: close })}
      />
    </Page>
  );
}
