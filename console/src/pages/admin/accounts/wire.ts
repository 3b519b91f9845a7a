/** Accounts: roles, states, and the form that makes or changes one. */
import type { Schemas } from '../../../api/client';
import { count, counted, usd } from '../../../parts/format';
import type { Tone } from '../../../parts/states';

export type Account = Schemas['AccountObject'];
export type Purge = Schemas['AccountPurge'];
export type Role = Account['role'];

export const ROLES: readonly Role[] = ['free', 'pro', 'internal', 'admin'];

export const STATES: Record<string, { tone: Tone; word: string }> = {
  active: { tone: 'good', word: 'Active' },
  suspended: { tone: 'warn', word: 'Suspended' },
  deleted: { tone: 'quiet', word: 'Deleted' },
};

/** What is typed; an empty amount or cap leaves it to the role. */
export interface Draft {
  name: string;
  email: string;
  role: Role;
  daily: string;
  monthly: string;
  concurrency: string;
  batchConcurrency: string;
}

export const NO_DRAFT: Draft = { name: '', email: '', role: 'free', daily: '', monthly: '', concurrency: '', batchConcurrency: '' };

export function draftOf(account: Account): Draft {
  return {
    name: account.name,
    email: account.email ?? '',
    role: account.role,
    daily: text(account.daily_quota_usd),
    monthly: text(account.monthly_quota_usd),
    concurrency: text(account.max_concurrency),
    batchConcurrency: text(account.batch_max_concurrency),
  };
}

function text(value: number | null): string {
  return value === null ? '' : String(value);
}

export function newAccountOf(draft: Draft): Schemas['AccountDraft'] {
  return {
    name: draft.name.trim(),
    email: draft.email.trim() || null,
    role: draft.role,
    daily_quota_usd: draft.daily || null,
    monthly_quota_usd: draft.monthly || null,
  };
}

/** Only what was changed, so that the audit log tells just that. */
export function changeOf(before: Draft, draft: Draft): Schemas['AccountChange'] {
  const change: Schemas['AccountChange'] = {};
  if (draft.name.trim() !== before.name) change.name = draft.name.trim();
  if (draft.email.trim() !== before.email) change.email = draft.email.trim() || null;
  if (draft.role !== before.role) change.role = draft.role;
  if (draft.daily !== before.daily) change.daily_quota_usd = draft.daily || null;
  if (draft.monthly !== before.monthly) change.monthly_quota_usd = draft.monthly || null;
  if (draft.concurrency !== before.concurrency) change.max_concurrency = draft.concurrency === '' ? null : Number(draft.concurrency);
  if (draft.batchConcurrency !== before.batchConcurrency) change.batch_max_concurrency = draft.batchConcurrency === '' ? null : Number(draft.batchConcurrency);
  return change;
}

export function quotaWords(amount: number | null): string {
  return amount === null ? 'as its role' : usd(amount);
}

export function capWords(own: number | null, ofRole: number): string {
  const cap = own ?? ofRole;
  return `${cap === 0 ? 'no cap' : count(cap)}${own === null ? ' (role)' : ''}`;
}

const WAITS: Record<string, string> = {
  running_requests: 'running batch requests',
  sealing: 'result files being written',
  readers: 'downloads',
  webhook_delivery: 'a webhook event being sent',
  interactive_requests: 'interactive requests',
  newer_release: 'workers of a newer release',
  last_minute: 'what began just before, which has a minute to end',
};

export function purgeWords(purge: Purge): string {
  if (purge.state === 'purged') return `Removed for good: ${counted(purge.rows_removed, 'row')}`;
  const waits = purge.waits_for.map((what) => WAITS[what] ?? what).join(', ');
  if (waits !== '') return `Waits for ${waits}`;
  if (purge.batches_left + purge.files_left + purge.rows_removed === 0) return 'Begins in a moment';
  return `${counted(purge.batches_left, 'batch', 'batches')} and ${counted(purge.files_left, 'file')} left, ${counted(purge.rows_removed, 'row')} removed`;
}
