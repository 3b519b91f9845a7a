/** Entries of the audit log: kinds of deeds, and what they changed in words. */
import type { Schemas } from '../../../api/client';

export type Entry = Schemas['AuditObject'];

/** The first part of an action is its kind. */
export const KINDS: readonly { value: string; label: string }[] = [
  { value: 'account', label: 'Accounts' },
  { value: 'key', label: 'API keys' },
  { value: 'setting', label: 'Settings' },
  { value: 'model', label: 'Models' },
  { value: 'route', label: 'Routes' },
  { value: 'batch', label: 'Batches' },
  { value: 'request', label: 'Request content' },
  { value: 'session', label: 'Sign-ins' },
  { value: 'password', label: 'Passwords' },
  { value: 'oidc', label: 'Identities' },
  { value: 'setup', label: 'Set-up' },
];

/** What changed, a line each: `old → new` where both are told, field by field where they have fields. */
export function linesOf(entry: Entry): string[] {
  const detail = entry.detail as Record<string, unknown>;
  const { old, new: now, ...others } = detail;
  const lines = Object.entries(others).map(([name, value]) => `${name}: ${word(value)}`);
  if (!('old' in detail || 'new' in detail)) return lines;
  if (!isFields(old) && !isFields(now)) return [`${word(old)} → ${word(now)}`, ...lines];
  const before = isFields(old) ? old : {};
  const after = isFields(now) ? now : {};
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return [...names.map((name) => `${name}: ${word(before[name])} → ${word(after[name])}`), ...lines];
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What the accounts are called that the entries name. */
export function namesIn(entries: readonly Entry[]): ReadonlyMap<string, string> {
  const named = entries.flatMap((entry): [string | null | undefined, string | null][] => [
    [entry.actor.split('/')[0], entry.actor_name],
    [entry.subject, entry.subject_name],
    [entry.account_id, entry.account_name],
  ]);
  return new Map(named.filter((pair): pair is [string, string] => typeof pair[0] === 'string' && pair[1] !== null));
}

/** An id without most of its digits; other subjects whole. */
export function shortSubject(subject: string): string {
  return /^[a-z]+_[0-9a-f_]{20,}$/.test(subject) ? `${subject.slice(0, 14)}…` : subject;
}

function word(value: unknown): string {
  if (value === null || value === undefined || value === '') return 'nothing';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
