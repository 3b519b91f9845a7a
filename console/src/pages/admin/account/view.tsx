/** What an account is, how people sign in as it, and where its traces are. */
import { Link } from 'react-router';

import type { Schemas } from '../../../api/client';
import { Facts, Section } from '../../../parts/Page';
import css from '../../../parts/parts.module.css';
import { Note } from '../../../parts/states';
import { Status } from '../../../parts/Status';
import { Time } from '../../../parts/Time';
import { capWords, type Purge, purgeWords, quotaWords, STATES } from '../accounts/wire';
import admin from '../admin.module.css';

type Account = Schemas['AccountDetail'];

/** How far the removal is, where somebody asked for one. */
export function PurgeNote({ purge }: { purge: Purge | null }) {
  if (purge === null) return null;
  return (
    <div style={{ marginBottom: 16 }}>
      <Note tone={purge.state === 'purged' ? 'quiet' : 'active'} role="status">
        {purgeWords(purge)}. Asked for <Time at={purge.asked_at} ago />.
      </Note>
    </div>
  );
}

export function AccountView({ account }: { account: Account }) {
  return (
    <>
      <div className={css.card}>
        <Facts
          facts={[
            ['State', <Status {...(STATES[account.state] ?? { tone: 'quiet', word: account.state })} />],
            ['Role', account.role],
            ['E-mail', account.email],
            ['Daily quota', quotaWords(account.daily_quota_usd)],
            ['Monthly quota', quotaWords(account.monthly_quota_usd)],
            ['Interactive at once', capWords(account.max_concurrency, account.role_max_concurrency)],
            ['Batch at once', capWords(account.batch_max_concurrency, account.role_batch_max_concurrency)],
            ['Signs in with', signsInWith(account)],
            ['Made', <Time at={account.created_at} />],
          ]}
        />
      </div>
      <Section title="Look further">
        <div className={admin.links}>
          <Link className={admin.link} to={`/admin/batches?account=${account.id}`}>
            Its batches
          </Link>
          <Link className={admin.link} to={`/admin/requests?account=${account.id}`}>
            Its requests
          </Link>
          <Link className={admin.link} to={`/admin/batch-requests?account=${account.id}`}>
            Its batch requests
          </Link>
          <Link className={admin.link} to={`/admin/audit?account=${account.id}`}>
            What was done to it
          </Link>
          <Link className={admin.link} to={`/admin/audit?actor=${account.id}`}>
            What it did
          </Link>
        </div>
      </Section>
    </>
  );
}

function signsInWith({ sign_in }: Account): string {
  const ways = [sign_in.password ? 'a password' : null, ...sign_in.identities.map((identity) => identity.issuer)].filter((way) => way !== null);
  return ways.length === 0 ? 'API keys only' : ways.join(', ');
}
