/** The account's keys, and the form that makes one. */
import { ActionIcon, Button, Group, Menu, Modal, NumberInput, Select, SimpleGrid, Stack, TextInput } from '@mantine/core';
import { IconDots } from '@tabler/icons-react';
import { type FormEvent, useState } from 'react';

import { type Column, DataTable } from '../../parts/DataTable';
import { usd } from '../../parts/format';
import css from '../../parts/parts.module.css';
import { Note } from '../../parts/states';
import { Status } from '../../parts/Status';
import { Time } from '../../parts/Time';
import { type Draft, type Key, STATES } from './wire';

export interface KeyCommands {
  rotate: (key: Key) => void;
  revoke: (key: Key) => void;
  budgets?: (key: Key) => void;
}

export function KeysView(props: { keys: readonly Key[]; sessionKey: string | null; commands: KeyCommands }) {
  return <DataTable label="API keys" columns={columnsOf(props.sessionKey, props.commands)} rows={props.keys} rowKey={(key) => key.id} />;
}

function columnsOf(sessionKey: string | null, commands: KeyCommands): readonly Column<Key>[] {
  return [
    {
      name: 'Key',
      cell: (key) => (
        <div>
          <div style={{ fontWeight: 500 }}>{key.name || 'Without a name'}</div>
          <div className={css.sub}>
            {key.id === sessionKey ? 'What you do in this console is done with it' : <span className={css.mono}>{key.prefix}…</span>}
          </div>
        </div>
      ),
    },
    { name: 'State', cell: (key) => <Status {...STATES[key.state]} note={key.revoked_at === null ? null : undefined} /> },
    { name: 'Last used', wide: true, cell: (key) => (key.last_used_at === null ? 'Never' : <Time at={key.last_used_at} ago />) },
    { name: 'Made', wide: true, cell: (key) => <Time at={key.created_at} ago /> },
    { name: 'Expires', wide: true, cell: (key) => (key.expires_at === null ? 'Never' : <Time at={key.expires_at} />) },
    { name: 'Budget', right: true, wide: true, cell: budgetOf },
    { name: '', right: true, width: 52, cell: (key) => key.state === 'active' && <KeyMenu rotatable={key.id !== sessionKey} keyObject={key} commands={commands} /> },
  ];
}

function budgetOf(key: Key): string {
  const parts = [
    key.daily_budget_usd === null ? null : `${usd(key.daily_budget_usd)} a day`,
    key.monthly_budget_usd === null ? null : `${usd(key.monthly_budget_usd)} a month`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? 'None' : parts.join(', ');
}

function KeyMenu(props: { keyObject: Key; rotatable: boolean; commands: KeyCommands }) {
  const { keyObject, commands } = props;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={`What to do with the key ${keyObject.name}`}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {props.rotatable && <Menu.Item onClick={() => commands.rotate(keyObject)}>Make a replacement</Menu.Item>}
        {commands.budgets !== undefined && <Menu.Item onClick={() => commands.budgets?.(keyObject)}>Change its budgets</Menu.Item>}
        <Menu.Item color="red" onClick={() => commands.revoke(keyObject)}>
          Revoke
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

const EXPIRIES = [
  { value: '', label: 'Never' },
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In a year' },
];

export function KeyForm(props: { start: Draft; title: string; busy: boolean; error: Error | null; onSubmit: (draft: Draft) => void; onClose: () => void }) {
  const [draft, setDraft] = useState(props.start);
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    props.onSubmit(draft);
  };
  return (
    <Modal opened onClose={props.onClose} title={props.title} closeButtonProps={{ 'aria-label': 'Close' }}>
      <form onSubmit={submit}>
        <Stack gap="md">
          <TextInput label="Name" placeholder="nightly-summaries" description="What uses it" required withAsterisk={false} data-autofocus value={draft.name} onChange={(event) => set({ name: event.currentTarget.value })} />
          <Select label="Expires" data={EXPIRIES} value={draft.days} onChange={(days) => set({ days: days ?? '' })} allowDeselect={false} />
          <SimpleGrid cols={2}>
            <Budget label="Daily budget" value={draft.daily} onChange={(daily) => set({ daily })} />
            <Budget label="Monthly budget" value={draft.monthly} onChange={(monthly) => set({ monthly })} />
          </SimpleGrid>
          {props.error !== null && (
            <Note tone="bad" role="alert">
              {props.error.message}
            </Note>
          )}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={props.onClose}>
              Not now
            </Button>
            <Button type="submit" loading={props.busy}>
              Make the key
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

function Budget(props: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <NumberInput label={props.label} description="USD, optional" min={0} decimalScale={6} prefix="$" hideControls value={props.value} onChange={(value) => props.onChange(value === '' ? '' : String(value))} />
  );
}
