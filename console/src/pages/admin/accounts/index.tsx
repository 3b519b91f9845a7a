/** /admin/accounts: everybody's accounts, and making one. */
import { Button } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { Page } from '../../../parts/Page';
import { Loaded } from '../../../parts/states';
import { useUrlState } from '../../../parts/useUrlState';
import { AccountDialog } from './Form';
import { useAccounts, useCreateAccount, usePurges } from './load';
import { AccountsView, PurgesView } from './view';
import { NO_DRAFT } from './wire';

export function Component() {
  const url = useUrlState();
  const accounts = useAccounts({ search: url.get('search'), role: url.get('role'), state: url.get('state'), after: url.after });
  const purges = usePurges();
  const create = useCreateAccount();
  const navigate = useNavigate();
  const [making, setMaking] = useState(false);
  return (
    <Page
      title="Accounts"
      lead="Who may use this gateway, as what, and how much of it."
      actions={
        <Button leftSection={<IconPlus size={15} />} onClick={() => setMaking(true)}>
          New account
        </Button>
      }
    >
      <Loaded query={accounts}>{(page) => <AccountsView page={page} url={url} stale={accounts.isPlaceholderData} />}</Loaded>
      <PurgesView purges={purges.data?.data ?? []} />
      <AccountDialog
        start={making ? NO_DRAFT : null}
        title="New account"
        action="Make the account"
        withCaps={false}
        busy={create.isPending}
        error={create.error}
        onClose={() => {
          setMaking(false);
          create.reset();
        }}
        onSubmit={(draft) => create.mutate(draft, { onSuccess: (made) => void navigate(`/admin/accounts/${made.id}`) })}
      />
    </Page>
  );
}
