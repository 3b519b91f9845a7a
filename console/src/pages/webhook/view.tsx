/** The webhook's form and standing, and the list of what was sent. */
import { Button, Group, Stack, Switch, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { Link } from 'react-router';

import { type Column, DataTable } from '../../parts/DataTable';
import { count } from '../../parts/format';
import css from '../../parts/parts.module.css';
import { Note } from '../../parts/states';
import { Status } from '../../parts/Status';
import { Time } from '../../parts/Time';
import { type Delivery, STATES, type Webhook } from './wire';

export function WebhookForm(props: { webhook: Webhook | null; mayChange: boolean; busy: boolean; error: Error | null; onSave: (url: string) => void }) {
  const [address, setAddress] = useState(props.webhook?.url ?? '');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    props.onSave(address.trim());
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="sm" maw={620}>
        <Group align="flex-end" gap="xs" wrap="nowrap">
          <TextInput label="Address" placeholder="https://hooks.example.com/batches" type="url" required withAsterisk={false} disabled={!props.mayChange} value={address} onChange={(event) => setAddress(event.currentTarget.value)} style={{ flex: 1 }} />
          <Button type="submit" loading={props.busy} disabled={!props.mayChange || address.trim() === (props.webhook?.url ?? '')}>
            {props.webhook === null ? 'Set up' : 'Save'}
          </Button>
        </Group>
        {props.error !== null && (
          <Note tone="bad" role="alert">
            {props.error.message}
          </Note>
        )}
      </Stack>
    </form>
  );
}

export function Standing(props: { webhook: Webhook; mayChange: boolean; onEnable: (enabled: boolean) => void; onRotate: () => void; onRemove: () => void }) {
  const { webhook } = props;
  return (
    <Stack gap="md" mt="lg" maw={620}>
      <Switch label="Send events" description="Off: batches that end make no event, and those that wait go on waiting." checked={webhook.enabled} disabled={!props.mayChange} onChange={(event) => props.onEnable(event.currentTarget.checked)} />
      {webhook.paused_until !== null && webhook.paused_until !== undefined && (
        <Note tone="warn">
          The endpoint timed out several times. Nothing is sent until <Time at={webhook.paused_until} />; saving the address
          again ends this.
        </Note>
      )}
      <Group gap="xs">
        <Button variant="default" disabled={!props.mayChange} onClick={props.onRotate}>
          New signing secret
        </Button>
        <Button variant="default" onClick={props.onRemove}>
          Remove the webhook
        </Button>
      </Group>
    </Stack>
  );
}

const COLUMNS: readonly Column<Delivery>[] = [
  {
    name: 'Event',
    cell: (event) => (
      <div>
        <div style={{ fontWeight: 500 }}>{event.type}</div>
        <div className={css.sub}>
          <Time at={event.created_at} ago /> · <span className={css.mono}>{event.id.slice(0, 12)}…</span>
        </div>
      </div>
    ),
  },
  {
    name: 'Batch',
    wide: true,
    cell: (event) => (
      <Link to={`/batches/${event.batch_id}`} className={css.rowLink}>
        <span className={css.mono}>{event.batch_id.slice(0, 14)}…</span>
      </Link>
    ),
  },
  { name: 'State', cell: (event) => <Status {...STATES[event.state]} note={event.last_error} /> },
  { name: 'Tries', right: true, cell: (event) => count(event.attempts) },
  { name: 'Answer', right: true, wide: true, cell: (event) => event.last_status ?? '–' },
  { name: 'Next or last', wide: true, cell: (event) => <Time at={event.delivered_at ?? event.next_attempt_at} ago /> },
];

export function DeliveriesView(props: { deliveries: readonly Delivery[] }) {
  return <DataTable label="Deliveries" columns={COLUMNS} rows={props.deliveries} rowKey={(event) => event.id} />;
}
