/** An account's API keys: making one for it, its budgets, revoking it. */
import { Button, SimpleGrid } from '@mantine/core';
import { useState } from 'react';

import type { Schemas } from '../../../api/client';
import { Amount } from '../../../parts/Amount';
import { Confirm } from '../../../parts/Confirm';
import { type Decision, Dialog, DialogForm } from '../../../parts/Dialog';
import { Section } from '../../../parts/Page';
import { SecretOnce } from '../../../parts/SecretOnce';
import { Empty, Loaded } from '../../../parts/states';
import { KeyDialog, KeysView } from '../../keys/view';
import { type Draft, draftLike, type Key, NO_DRAFT } from '../../keys/wire';
import { useAccountKeys, useCreateAccountKey, useKeyBudgets, useRevokeAccountKey } from './load';

export function Keys(props: { accountId: string; active: boolean }) {
  const keys = useAccountKeys(props.accountId);
  const create = useCreateAccountKey(props.accountId);
  const revoke = useRevokeAccountKey();
  const budgets = useKeyBudgets();
  const [draft, setDraft] = useState<Draft | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const [doomed, setDoomed] = useState<Key | null>(null);
  const [bounded, setBounded] = useState<Key | null>(null);
  const close = () => {
    setDraft(null);
    setDoomed(null);
    setBounded(null);
    for (const command of [create, revoke, budgets]) command.reset();
  };
  const made = (key: Key) => {
    close();
    setSecret(key.key);
  };
  return (
    <Section
      title="API keys"
      aside={
        props.active && (
          <Button size="xs" variant="default" onClick={() => setDraft(NO_DRAFT)}>
            New key
          </Button>
        )
      }
    >
      <Loaded query={keys} rows={2}>
        {(page) =>
          page.data.length === 0 ? (
            <Empty title="No keys">Programs cannot use this account.</Empty>
          ) : (
            <KeysView keys={page.data} sessionKey={null} commands={{ rotate: (key) => setDraft(draftLike(key)), revoke: setDoomed, budgets: setBounded }} />
          )
        }
      </Loaded>
      <KeyDialog start={draft} title="New key" busy={create.isPending} error={create.error} onClose={close} onSubmit={(wanted) => create.mutate(wanted, { onSuccess: made })} />
      <SecretOnce title="The new key" secret={secret} onClose={() => setSecret(null)}>
        Hand it over safely: it is shown this once, and only its digest is kept.
      </SecretOnce>
      <Confirm
        ask={
          doomed === null
            ? null
            : {
                title: `Revoke ${doomed.name || doomed.prefix}?`,
                children: 'Programs that use it are refused at once, and unfinished requests of its batches fail. This cannot be undone.',
                action: 'Revoke the key',
                danger: true,
              }
        }
        busy={revoke.isPending}
        error={revoke.error}
        onClose={close}
        onConfirm={() => doomed !== null && revoke.mutate(doomed.id, { onSuccess: close })}
      />
      <Dialog about={bounded} title={({ name, prefix }) => `Budgets of ${name || prefix}`} onClose={close}>
        {(key) => <BudgetForm bounded={key} busy={budgets.isPending} error={budgets.error} onClose={close} onSave={(wanted) => budgets.mutate({ key: key.id, budgets: wanted }, { onSuccess: close })} />}
      </Dialog>
    </Section>
  );
}

type BudgetProps = Decision & { bounded: Key; onSave: (budgets: Schemas['Budgets']) => void };

function BudgetForm({ bounded, onSave, ...decision }: BudgetProps) {
  const [daily, setDaily] = useState(String(bounded.daily_budget_usd ?? ''));
  const [monthly, setMonthly] = useState(String(bounded.monthly_budget_usd ?? ''));
  return (
    <DialogForm {...decision} action="Save" onSubmit={() => onSave({ daily_budget_usd: daily || null, monthly_budget_usd: monthly || null })}>
      <SimpleGrid cols={2}>
        <Amount label="Daily budget" description="USD; empty: none" value={daily} onChange={setDaily} data-autofocus />
        <Amount label="Monthly budget" description="USD; empty: none" value={monthly} onChange={setMonthly} />
      </SimpleGrid>
    </DialogForm>
  );
}
