/** /admin/accounts/:id: one account, its keys, and what can be done with it. */
import { useParams } from 'react-router';

import { Id } from '../../../parts/Copy';
import { Page } from '../../../parts/Page';
import { Empty, Loaded } from '../../../parts/states';
import { Actions } from './Actions';
import { Keys } from './Keys';
import { useAccount, usePurge } from './load';
import { AccountView, PurgeNote } from './view';

export function Component() {
  const { id } = useParams() as { id: string };
  const purge = usePurge(id);
  const removed = purge.data !== null && purge.data !== undefined;
  const account = useAccount(id, removed);
  return (
    <Page title={account.data?.name ?? 'Account'} lead={<Id id={id} long />} actions={account.data != null && <Actions account={account.data} removed={removed} />}>
      <Loaded query={account}>
        {(found) => (
          <>
            <PurgeNote purge={purge.data ?? null} />
            {found === null && <Empty title="There is no such account">{removed ? 'It was removed for good.' : 'The address may be mistyped.'}</Empty>}
            {found !== null && <AccountView account={found} />}
            {found !== null && found.state !== 'deleted' && <Keys accountId={id} active={found.state === 'active'} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}
