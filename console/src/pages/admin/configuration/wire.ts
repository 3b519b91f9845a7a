/** Run-time settings as a form: in groups, what is typed, and the change that it makes. */
import type { Schemas } from '../../../api/client';
import { count } from '../../../parts/format';

export type Setting = Schemas['ConfigEntry'];
export type Value = boolean | number | string | null;
export type Draft = Readonly<Record<string, Value>>;

const GROUPS: readonly { name: string; of: RegExp }[] = [
  { name: 'Batch inference', of: /^BATCH_/ },
  { name: 'Quotas and concurrency', of: /QUOTA|^USER_CONCURRENCY/ },
  { name: 'Routing', of: /^ROUTING_/ },
  { name: 'Request log and content', of: /^(REQUEST_LOG|DB_)/ },
  { name: 'Limits of a request', of: /^(REQUEST_MAX|REQUEST_TIMEOUT|STREAM_)/ },
  { name: 'Console sessions', of: /^SESSION_/ },
];

export interface Group {
  name: string;
  settings: Setting[];
}

/** In groups by name; a setting that fits none is in the last one, so that none is left out. */
export function groupsOf(settings: readonly Setting[]): Group[] {
  const groups = [...GROUPS.map(({ name }) => ({ name, settings: [] as Setting[] })), { name: 'Other', settings: [] as Setting[] }];
  for (const setting of settings) {
    const at = GROUPS.findIndex((group) => group.of.test(setting.name));
    groups[at === -1 ? groups.length - 1 : at]?.settings.push(setting);
  }
  return groups.filter((group) => group.settings.length > 0);
}

export function matches(setting: Setting, search: string): boolean {
  const words = `${setting.name} ${setting.description}`.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => words.includes(word));
}

export const SOURCES: Record<Setting['source'], string> = {
  stored: 'Set here',
  environment: 'From the environment',
  default: 'Default',
};

export function wordsOf(setting: Setting, value: Value): string {
  if (value === null || value === '') return 'nothing';
  if (setting.type === 'boolean') return value === true ? 'on' : 'off';
  const shown = typeof value === 'number' ? count(value) : value;
  return setting.unit === null || setting.unit === 'USD' ? String(shown) : `${shown} ${setting.unit}`;
}

/** The draft with one more choice; what equals the value in force is no change. */
export function withChoice(draft: Draft, setting: Setting, value: Value): Draft {
  const { [setting.name]: _, ...others } = draft;
  return value === setting.value && !setting.secret ? others : { ...others, [setting.name]: value };
}
