/** An account's API keys: making one for it, its budgets, revoking it. */
import { Button, Group, Modal, NumberInput, SimpleGrid, Stack } from '@mantine/core';
import { type FormEvent, useState } from 'react';

import { Confirm } from '../../../parts/Confirm';
import { Section } from '../../../parts/Page';
import { SecretOnce } from '../../../parts/SecretOnce';
import { Empty, Loaded, Note } from '../../../parts/states';
import { KeyForm, KeysView } from '../../keys/view';
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
      {draft !== null && (
        <KeyForm start={draft} title="New key" busy={create.isPending} error={create.error} onClose={close} onSubmit={(wanted) => create.mutate(wanted, { onSuccess: made })} />
      )}
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
      {bounded !== null && (
        <BudgetForm
          keyObject={bounded}
          busy={budgets.isPending}
          error={budgets.error}
          onClose={close}
          onSave={(daily, monthly) =>
            budgets.mutate({ key: bounded.id, budgets: { daily_budget_usd: daily, monthly_budget_usd: monthly } }, { onSuccess: close })
          }
        />
      )}
    </Section>
  );
}

function BudgetForm(props: { keyObject: Key; busy: boolean; error: Error | null; onSave: (daily: string | null, monthly: string | null) => void; onClose: () => void }) {
  const { keyObject } = props;
  const [daily, setDaily] = useState<string | number>(keyObject.daily_budget_usd ?? '');
  const [monthly, setMonthly] = useState<string | number>(keyObject.monthly_budget_usd ?? '');
  const amount = (value: string | number) => (value === '' ? null : String(value));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    props.onSave(amount(daily), amount(monthly));
  };
  return (
    <Modal opened onClose={props.onClose} title={`Budgets of ${keyObject.name || keyObject.prefix}`} closeButtonProps={{ 'aria-label': 'Close' }}>
      <form onSubmit={submit}>
        <Stack gap="md">
          <SimpleGrid cols={2}>
            <NumberInput label="Daily budget" description="USD; empty: none" min={0} decimalScale={6} prefix="$" hideControls value={daily} onChange={setDaily} data-autofocus />
            <NumberInput label="Monthly budget" description="USD; empty: none" min={0} decimalScale={6} prefix="$" hideControls value={monthly} onChange={setMonthly} />
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
              Save
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
