/** Everyone's batches: each with its owner, cached tokens, and whether it ends in time; and their sums. */
import type { Schemas } from '../../../api/client';
import { compact } from '../../../parts/format';
import type { Outcome } from '../../../parts/OutcomeBar';
import { type Batch, outcomesOf, toBatch } from '../../batches/wire';

export type BatchJob = Schemas['BatchJob'];
export type Summary = Schemas['BatchSummary'];
export type Sums = Schemas['BatchSums'];
export type UserSums = Schemas['UserSums'];

export interface OwnedBatch extends Batch {
  accountId: string;
  owner: string;
  email: string | null;
  cachedTokens: number | null;
  eta: string | null;
  misses: boolean;
}

export const STATUSES = [
  { value: 'validating', label: 'Validating' },
  { value: 'in_progress', label: 'In progress' },
  { value: 'finalizing', label: 'Finalizing' },
  { value: 'cancelling', label: 'Cancelling' },
  { value: 'completed', label: 'Completed' },
  { value: 'failed', label: 'Failed' },
  { value: 'expired', label: 'Expired' },
  { value: 'cancelled', label: 'Cancelled' },
] as const;

export function toOwned(job: BatchJob): OwnedBatch {
  return {
    ...toBatch({ ...job, id: job.batch.id, own: false, content_shown: false }),
    accountId: job.account_id,
    owner: job.user_name,
    email: job.email,
    cachedTokens: job.cached_tokens,
    eta: job.estimated_completion_at,
    misses: job.misses_window,
  };
}

export function outcomesOfSums(sums: Sums): Outcome[] {
  return outcomesOf({ ...sums, completed: sums.succeeded });
}

/** How much of the input came from a prompt cache, in words. */
export function cachedWords(input: number, cached: number | null): string | null {
  if (cached === null) return 'cache not recorded';
  if (cached === 0 || input === 0) return null;
  return `${compact(cached)} cached (${Math.round((100 * cached) / input)} %)`;
}
