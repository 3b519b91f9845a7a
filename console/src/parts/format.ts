/** Figures, spans and moments in words, each form in this one place; moments in the viewer's zone unless they say UTC. */

const whole = new Intl.NumberFormat('en-US');
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

export function count(value: number): string {
  return whole.format(value);
}

/** 1 request, 2 requests; 1 batch, 2 batches. */
export function counted(value: number, one: string, several: string = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : several}`;
}

/** 12,345 as 12.3K. */
export function compact(value: number): string {
  return value < 10_000 ? whole.format(value) : short.format(value);
}

/** USD with as many digits as say something: $12.35, $0.0421, $0.00013. */
export function usd(value: number): string {
  if (value === 0) return '$0';
  if (Math.abs(value) >= 1) return `$${value.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return `$${value.toLocaleString('en-US', { maximumSignificantDigits: 3, maximumFractionDigits: 12 })}`;
}

/** Seconds as the two largest units: 2 d 4 h, 3 min 12 s. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const units: [number, string][] = [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  const first = units.findIndex(([size]) => whole >= size);
  if (first === -1) return '0 s';
  const [size, word] = units[first] as [number, string];
  const next = units[first + 1];
  const rest = next === undefined ? 0 : Math.floor((whole % size) / next[0]);
  return `${Math.floor(whole / size)} ${word}${next !== undefined && rest > 0 ? ` ${rest} ${next[1]}` : ''}`;
}

/** 12 s ago, 3 h ago; in 5 min. */
export function relative(at: Date, now: Date): string {
  const seconds = (now.getTime() - at.getTime()) / 1000;
  if (Math.abs(seconds) < 5) return 'just now';
  const words = span(Math.abs(seconds)).split(' ').slice(0, 2).join(' ');
  return seconds > 0 ? `${words} ago` : `in ${words}`;
}

/** Milliseconds as they are read: 840 ms, 1.84 s, 2.1 min. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  return ms < 59_995 ? `${(ms / 1_000).toFixed(2)} s` : `${(ms / 60_000).toFixed(1)} min`;
}

export const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
export const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
export const hourOf = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' });
export const minuteOf = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
export const dayOfUtc = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', timeZone: 'UTC' });

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  if (value < 1024 ** 2) return `${(value / 1024).toFixed(1)} KiB`;
  return `${(value / 1024 ** 2).toFixed(1)} MiB`;
}
