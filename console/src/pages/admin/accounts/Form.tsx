/** The form that makes an account or changes one. */
import { Button, Group, Modal, NumberInput, Select, SimpleGrid, Stack, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';

import { Note } from '../../../parts/states';
import { type Draft, type Role, ROLES } from './wire';

export function AccountForm(props: {
  start: Draft;
  title: string;
  action: string;
  /** Caps are set once the account is there. */
  withCaps: boolean;
  busy: boolean;
  error: Error | null;
  onSubmit: (draft: Draft) => void;
  onClose: () => void;
}) {
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
          <TextInput label="Name" description="People sign in with it" required withAsterisk={false} data-autofocus value={draft.name} onChange={(event) => set({ name: event.currentTarget.value })} />
          <TextInput label="E-mail" description="Optional" value={draft.email} onChange={(event) => set({ email: event.currentTarget.value })} />
          <Select label="Role" data={[...ROLES]} value={draft.role} allowDeselect={false} onChange={(role) => set({ role: (role ?? draft.role) as Role })} />
          <SimpleGrid cols={2}>
            <Amount label="Daily quota" value={draft.daily} onChange={(daily) => set({ daily })} />
            <Amount label="Monthly quota" value={draft.monthly} onChange={(monthly) => set({ monthly })} />
          </SimpleGrid>
          {props.withCaps && (
            <SimpleGrid cols={2}>
              <Cap label="Interactive at once" value={draft.concurrency} onChange={(concurrency) => set({ concurrency })} />
              <Cap label="Batch at once" value={draft.batchConcurrency} onChange={(batchConcurrency) => set({ batchConcurrency })} />
            </SimpleGrid>
          )}
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
              {props.action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

function Amount(props: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <NumberInput label={props.label} description="USD; empty: its role’s" min={0} decimalScale={6} prefix="$" hideControls value={props.value} onChange={(value) => props.onChange(value === '' ? '' : String(value))} />
  );
}

function Cap(props: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <NumberInput label={props.label} description="Empty: its role’s; 0: no cap" min={0} allowDecimal={false} hideControls value={props.value} onChange={(value) => props.onChange(value === '' ? '' : String(value))} />
  );
}
