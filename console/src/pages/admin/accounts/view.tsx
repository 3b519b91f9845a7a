/** The list of accounts, and the removals that go on. */
import { Select } from '@mantine/core';
import { Link } from 'react-router';

import { type Column, DataTable, nextOf, Pager } from '../../../parts/DataTable';
import { FilterBar } from '../../../parts/FilterBar';
import { Section } from '../../../parts/Page';
import css from '../../../parts/parts.module.css';
import { Empty } from '../../../parts/states';
import { Status } from '../../../parts/Status';
import { Time } from '../../../parts/Time';
import type { UrlState } from '../../../parts/useUrlState';
import { type Account, capWords, type Purge, purgeWords, quotaWords, ROLES, STATES } from './wire';

const COLUMNS: readonly Column<Account>[] = [
  {
    name: 'Account',
    cell: (account) => (
      <div>
        <Link to={`/admin/accounts/${account.id}`} className={css.rowLink} style={{ overflowWrap: 'anywhere' }}>
          {account.name}
        </Link>
        {account.email !== null && <div className={css.sub}>{account.email}</div>}
      </div>
    ),
  },
  { name: 'Role', cell: (account) => account.role },
  { name: 'State', cell: (account) => <Status {...(STATES[account.state] ?? { tone: 'quiet', word: account.state })} /> },
  { name: 'Daily quota', right: true, wide: true, cell: (account) => quotaWords(account.daily_quota_usd) },
  { name: 'Monthly quota', right: true, wide: true, cell: (account) => quotaWords(account.monthly_quota_usd) },
  { name: 'Interactive at once', right: true, wide: true, cell: (account) => capWords(account.max_concurrency, account.role_max_concurrency) },
  { name: 'Batch at once', right: true, wide: true, cell: (account) => capWords(account.batch_max_concurrency, account.role_batch_max_concurrency) },
  { name: 'Made', wide: true, cell: (account) => <Time at={account.created_at} ago /> },
];

export function AccountsView(props: { page: { data: Account[]; has_more: boolean; last_id: string | null }; url: UrlState; stale: boolean }) {
  const { page, url } = props;
  return (
    <>
      <FilterBar
        url={url}
        search="Search by name, e-mail or id"
        choices={[
          {
            name: 'state',
            label: 'State',
            options: [
              { value: '', label: 'All' },
              { value: 'active', label: 'Active' },
              { value: 'suspended', label: 'Suspended' },
              { value: 'deleted', label: 'Deleted' },
            ],
          },
        ]}
      >
        <Select aria-label="Role" placeholder="Any role" w={130} clearable data={[...ROLES]} value={url.get('role') || null} onChange={(role) => url.set({ role: role ?? '' })} />
      </FilterBar>
      {page.data.length === 0 ? (
        <Empty title="No account fits">Look for another part of the name, or take a filter away.</Empty>
      ) : (
        <DataTable label="Accounts" columns={COLUMNS} rows={page.data} rowKey={(account) => account.id} rowTo={(account) => `/admin/accounts/${account.id}`} stale={props.stale} />
      )}
      <Pager url={url} shown={page.data.length} order="oldest first" next={nextOf(page)} />
    </>
  );
}

const PURGES: readonly Column<Purge>[] = [
  {
    name: 'Account',
    cell: (purge) => (
      <Link to={`/admin/accounts/${purge.id}`} className={`${css.rowLink} ${css.mono}`}>
        {purge.id.slice(0, 14)}…
      </Link>
    ),
  },
  { name: 'State', cell: (purge) => <Status tone={purge.state === 'purged' ? 'good' : 'active'} word={purge.state === 'purged' ? 'Done' : 'Going on'} note={purgeWords(purge)} live={purge.state !== 'purged'} /> },
  { name: 'Asked for', wide: true, cell: (purge) => <Time at={purge.asked_at} ago /> },
];

export function PurgesView({ purges }: { purges: readonly Purge[] }) {
  if (purges.length === 0) return null;
  return (
    <Section title="Removed for good">
      <DataTable label="Removals" columns={PURGES} rows={purges} rowKey={(purge) => purge.id} />
    </Section>
  );
}
