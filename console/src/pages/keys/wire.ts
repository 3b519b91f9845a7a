/** API keys: what they are called, how they stand, what they may spend. */
import type { Schemas } from '../../api/client';
import type { Tone } from '../../parts/states';

export type Key = Schemas['KeyObject'];

export const STATES: Record<Key['state'], { word: string; tone: Tone }> = {
  active: { word: 'Active', tone: 'good' },
  expired: { word: 'Expired', tone: 'warn' },
  revoked: { word: 'Revoked', tone: 'quiet' },
};

export interface Draft {
  name: string;
  /** Days until it expires; empty: never. */
  days: string;
  daily: string;
  monthly: string;
}

export const NO_DRAFT: Draft = { name: '', days: '', daily: '', monthly: '' };

/** A key that is to stand in for another. */
export function draftLike(key: Key): Draft {
  const words = (amount: number | null) => (amount === null ? '' : String(amount));
  return { name: key.name, days: '', daily: words(key.daily_budget_usd), monthly: words(key.monthly_budget_usd) };
}

/** The body that makes it. A budget that is left empty is that of the key which asks. */
export function bodyOf(draft: Draft, now: Date): Schemas['KeyDraft'] {
  const days = Number(draft.days);
  return {
    name: draft.name.trim(),
    expires_at: draft.days === '' ? null : new Date(now.getTime() + days * 86_400_000).toISOString(),
    ...(draft.daily === '' ? {} : { daily_budget_usd: draft.daily }),
    ...(draft.monthly === '' ? {} : { monthly_budget_usd: draft.monthly }),
  };
}
