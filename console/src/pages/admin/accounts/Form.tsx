/** The form that makes an account or changes one. */
import { NumberInput, Select, SimpleGrid, TextInput } from '@mantine/core';
import { useState } from 'react';

import { Amount } from '../../../parts/Amount';
import { type Decision, Dialog, DialogForm } from '../../../parts/Dialog';
import { type Draft, type Role, ROLES } from './wire';

interface AccountFormProps extends Decision {
  start: Draft;
  action: string;
  /** Caps are set once the account is there. */
  withCaps: boolean;
  onSubmit: (draft: Draft) => void;
}

/** `start` is what the form begins with; null: none is being made or changed. */
export function AccountDialog({ start, title, ...form }: Omit<AccountFormProps, 'start'> & { start: Draft | null; title: string }) {
  return (
    <Dialog about={start} title={() => title} onClose={form.onClose}>
      {(draft) => <AccountForm {...form} start={draft} />}
    </Dialog>
  );
}

function AccountForm({ start, action, withCaps, onSubmit, ...decision }: AccountFormProps) {
  const [draft, setDraft] = useState(start);
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change });
  return (
    <DialogForm {...decision} action={action} onSubmit={() => onSubmit(draft)}>
      <TextInput label="Name" description="People sign in with it" required withAsterisk={false} data-autofocus value={draft.name} onChange={(event) => set({ name: event.currentTarget.value })} />
      <TextInput label="E-mail" description="Optional" value={draft.email} onChange={(event) => set({ email: event.currentTarget.value })} />
      <Select label="Role" data={[...ROLES]} value={draft.role} allowDeselect={false} onChange={(role) => set({ role: (role ?? draft.role) as Role })} />
      <SimpleGrid cols={2}>
        <Amount label="Daily quota" description="USD; empty: its role’s" value={draft.daily} onChange={(daily) => set({ daily })} />
        <Amount label="Monthly quota" description="USD; empty: its role’s" value={draft.monthly} onChange={(monthly) => set({ monthly })} />
      </SimpleGrid>
      {withCaps && (
        <SimpleGrid cols={2}>
          <Cap label="Interactive at once" value={draft.concurrency} onChange={(concurrency) => set({ concurrency })} />
          <Cap label="Batch at once" value={draft.batchConcurrency} onChange={(batchConcurrency) => set({ batchConcurrency })} />
        </SimpleGrid>
      )}
    </DialogForm>
  );
}

function Cap(props: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <NumberInput label={props.label} description="Empty: its role’s; 0: no cap" min={0} allowDecimal={false} hideControls value={props.value} onChange={(value) => props.onChange(String(value))} />
  );
}
