/** The account's keys, and the form that makes one. */
import { ActionIcon, Menu, Select, SimpleGrid, TextInput } from '@mantine/core';
import { IconDots } from '@tabler/icons-react';
import { useState } from 'react';

import { Amount } from '../../parts/Amount';
import { type Column, DataTable } from '../../parts/DataTable';
import { type Decision, Dialog, DialogForm } from '../../parts/Dialog';
import { usd } from '../../parts/format';
import css from '../../parts/parts.module.css';
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

type KeyFormProps = Decision & { start: Draft; onSubmit: (draft: Draft) => void };

/** `start` is what the form begins with; null: no key is being made. */
export function KeyDialog({ start, title, ...form }: Omit<KeyFormProps, 'start'> & { start: Draft | null; title: string }) {
  return (
    <Dialog about={start} title={() => title} onClose={form.onClose}>
      {(draft) => <KeyForm {...form} start={draft} />}
    </Dialog>
  );
}

function KeyForm({ start, onSubmit, ...decision }: KeyFormProps) {
  const [draft, setDraft] = useState(start);
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change });
  return (
    <DialogForm {...decision} action="Make the key" onSubmit={() => onSubmit(draft)}>
      <TextInput label="Name" placeholder="nightly-summaries" description="What uses it" required withAsterisk={false} data-autofocus value={draft.name} onChange={(event) => set({ name: event.currentTarget.value })} />
      <Select label="Expires" data={EXPIRIES} value={draft.days} onChange={(days) => set({ days: days ?? '' })} allowDeselect={false} />
      <SimpleGrid cols={2}>
        <Amount label="Daily budget" description="USD, optional" value={draft.daily} onChange={(daily) => set({ daily })} />
        <Amount label="Monthly budget" description="USD, optional" value={draft.monthly} onChange={(monthly) => set({ monthly })} />
      </SimpleGrid>
    </DialogForm>
  );
}
