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

/** What changed, a line each: `old → new` where both are told. */
export function linesOf(entry: Entry): string[] {
  const detail = entry.detail as Record<string, unknown>;
  const names = Object.keys(detail);
  if (names.length > 0 && names.every((name) => name === 'old' || name === 'new')) return [`${word(detail['old'])} → ${word(detail['new'])}`];
  return names.map((name) => `${name}: ${word(detail[name])}`);
}

function word(value: unknown): string {
  if (value === null || value === undefined || value === '') return 'nothing';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
