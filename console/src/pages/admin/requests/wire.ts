/** The request log: rows as they are shown, volume in windows, and the stretch of one bar. */
import type { Schemas } from '../../../api/client';
import type { Bar } from '../../../parts/Bars';
import { count, dayOfUtc, hourOf, minuteOf, moment, usd } from '../../../parts/format';
import type { Tone } from '../../../parts/states';

export type LogRow = Schemas['LogObject'];
export type Window = Schemas['WindowObject'];
export type Source = 'interactive' | 'batch';

export const WINDOWS: readonly { value: string; label: string; hours: number; barSeconds: number }[] = [
  { value: '1h', label: 'Last hour', hours: 1, barSeconds: 60 },
  { value: '6h', label: '6 hours', hours: 6, barSeconds: 300 },
  { value: '24h', label: '24 hours', hours: 24, barSeconds: 3_600 },
  { value: '7d', label: '7 days', hours: 168, barSeconds: 3_600 },
  { value: '30d', label: '30 days', hours: 720, barSeconds: 86_400 },
  { value: '90d', label: '90 days', hours: 2_160, barSeconds: 86_400 },
];

function labelOf(window: Window, start: string): string {
  const at = new Date(start);
  if (window.bar_seconds >= 86_400) return `${dayOfUtc.format(at)} (UTC)`;
  return (window.bar_seconds >= 3_600 ? hourOf : minuteOf).format(at);
}

/** Bars of what callers asked directly, with the batch worker's requests on top; a bar's key is its start. */
export function volumeBars(window: Window): Bar[] {
  return window.bars.map((bar) => ({
    key: bar.start_time,
    label: labelOf(window, bar.start_time),
    values: [bar.request_count, bar.batch_request_count],
  }));
}

export interface Stretch {
  from: string;
  to: string;
}

/** The stretch of the bar that begins at `start`, also when the window has gone on; null where that is no time. */
export function stretchOf(barSeconds: number, start: string): Stretch | null {
  const from = Date.parse(start);
  return Number.isNaN(from) ? null : { from: new Date(from).toISOString(), to: new Date(from + barSeconds * 1_000).toISOString() };
}

export function stretchWords(stretch: Stretch): string {
  return moment.formatRange(new Date(stretch.from), new Date(stretch.to));
}

export function outcomeOf(row: LogRow): { tone: Tone; word: string; note: string | null } {
  const status = row.status === null ? null : String(row.status);
  if (row.error === null) return { tone: 'good', word: status ?? 'Done', note: null };
  const tone = row.outcome === 'retried' ? 'warn' : 'bad';
  return { tone, word: status ?? 'No answer', note: row.error };
}

export function tokensOf(row: LogRow): string {
  if (row.prompt_tokens === null && row.completion_tokens === null) return '–';
  return `${count(row.prompt_tokens ?? 0)} → ${count(row.completion_tokens ?? 0)}`;
}

export function costOf(row: LogRow): string {
  return row.cost_usd === null ? 'Unknown' : usd(row.cost_usd);
}
