/** /keys: the account's API keys. */
import { Button } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useState } from 'react';

import { Confirm } from '../../parts/Confirm';
import { Pager } from '../../parts/DataTable';
import { Page } from '../../parts/Page';
import { SecretOnce } from '../../parts/SecretOnce';
import { Empty, Loaded } from '../../parts/states';
import { useUrlState } from '../../parts/useUrlState';
import { useCreateKey, useKeys, useRevokeKey, useUser } from './load';
import { KeyDialog, KeysView } from './view';
import { type Draft, draftLike, type Key, NO_DRAFT } from './wire';

export function Component() {
  const url = useUrlState();
  const keys = useKeys(url.after);
  const user = useUser();
  const create = useCreateKey();
  const revoke = useRevokeKey();
  const [draft, setDraft] = useState<Draft | null>(null);
  const [doomed, setDoomed] = useState<Key | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const closeForm = () => {
    setDraft(null);
    create.reset();
  };
  const closeAsk = () => {
    setDoomed(null);
    revoke.reset();
  };
  const made = (key: Key) => {
    closeForm();
    setSecret(key.key);
  };
  return (
    <Page
      title="API keys"
      lead="Programs use these. Each may have a budget of its own; what bounds the account is its quota."
      actions={
        <Button leftSection={<IconPlus size={15} />} onClick={() => setDraft(NO_DRAFT)}>
          New key
        </Button>
      }
    >
      <Loaded query={keys}>
        {(page) =>
          page.data.length === 0 ? (
            <Empty title="No keys yet" action={<Button onClick={() => setDraft(NO_DRAFT)}>Make the first one</Button>}>
              A program needs one to use this gateway.
            </Empty>
          ) : (
            <>
              <KeysView
                keys={page.data}
                sessionKey={user.data?.key_id ?? null}
                commands={{ rotate: (key) => setDraft(draftLike(key)), revoke: setDoomed }}
              />
              <Pager
                shown={`${page.data.length} shown, oldest first`}
                onBack={url.goBack}
                onNext={page.has_more && page.last_id !== null ? () => url.goAfter(page.last_id as string) : null}
              />
            </>
          )
        }
      </Loaded>
      <KeyDialog
        start={draft}
        title={draft === NO_DRAFT ? 'New key' : 'Replacement key'}
        busy={create.isPending}
        error={create.error}
        onClose={closeForm}
        onSubmit={(wanted) => create.mutate(wanted, { onSuccess: made })}
      />
      <SecretOnce title="Your new key" secret={secret} onClose={() => setSecret(null)}>
        Copy it now: it is shown this once, and only its digest is kept. A key that it replaces goes on working until you
        revoke that.
      </SecretOnce>
      <Confirm
        ask={doomed === null ? null : revokeAsk(doomed, doomed.id === user.data?.key_id)}
        busy={revoke.isPending}
        error={revoke.error}
        onClose={closeAsk}
        onConfirm={() => doomed !== null && revoke.mutate(doomed.id, { onSuccess: closeAsk })}
      />
    </Page>
  );
}

function revokeAsk(key: Key, ofSession: boolean) {
  return {
    title: `Revoke ${key.name || key.prefix}?`,
    children: ofSession
      ? 'This ends your sessions in the console, and unfinished requests of batches that were made here fail. Signing in again makes another.'
      : 'Programs that use it are refused at once, and unfinished requests of its batches fail. This cannot be undone.',
    action: 'Revoke the key',
    danger: true,
  };
}
