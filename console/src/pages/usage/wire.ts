/** An account's use by day, by model and by key. */
import type { Schemas } from '../../api/client';
import type { Bar } from '../../parts/Bars';
import { dayOfUtc } from '../../parts/format';

export type Usage = Schemas['Usage'];
export type Measure = 'cost' | 'requests' | 'tokens';

export interface Line {
  name: string;
  requests: number;
  errors: number | null;
  input: number;
  cached: number | null;
  output: number;
  cost: number;
  unknown: number;
}

/** One bar for every day, the oldest first, days without use included; batch lies on top. */
export function barsOf(usage: Usage, measure: Measure): Bar[] {
  const sums = new Map<string, [number, number]>();
  const add = (date: string, source: string, value: number) => {
    const values = sums.get(date) ?? [0, 0];
    values[source === 'batch' ? 1 : 0] += value;
    sums.set(date, values);
  };
  if (measure === 'cost') for (const use of usage.keys) add(use.day, use.source, use.cost_usd);
  else
    for (const use of usage.models)
      add(use.day, use.source, measure === 'requests' ? use.requests : use.prompt_tokens + use.completion_tokens);
  return daysBetween(usage.first_day, usage.last_day).map((date) => ({
    key: date,
    label: dayOfUtc.format(new Date(`${date}T00:00:00Z`)),
    values: sums.get(date) ?? [0, 0],
  }));
}

function daysBetween(first: string, last: string): string[] {
  const days: string[] = [];
  for (let at = Date.parse(`${first}T00:00:00Z`); at <= Date.parse(`${last}T00:00:00Z`); at += 86_400_000)
    days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

/** What each model used, on the day that was picked or on all of them; what cost most comes first. */
export function modelLines(usage: Usage, picked: string | null): Line[] {
  const lines = new Map<string, Line>();
  for (const use of usage.models) {
    if (picked !== null && use.day !== picked) continue;
    const line = lineOf(lines, use.model);
    line.requests += use.requests;
    line.errors = (line.errors ?? 0) + use.error_requests;
    line.input += use.prompt_tokens;
    line.cached = (line.cached ?? 0) + use.cached_tokens;
    line.output += use.completion_tokens;
    line.cost += use.cost_usd;
    line.unknown += use.cost_unknown_requests;
  }
  return sorted(lines);
}

/** The same by key. */
export function keyLines(usage: Usage, picked: string | null): Line[] {
  const lines = new Map<string, Line>();
  for (const use of usage.keys) {
    if (picked !== null && use.day !== picked) continue;
    const line = lineOf(lines, use.key_name || use.key_id);
    line.requests += use.requests;
    line.input += use.prompt_tokens;
    line.output += use.completion_tokens;
    line.cost += use.cost_usd;
  }
  return sorted(lines);
}

function lineOf(lines: Map<string, Line>, name: string): Line {
  const found = lines.get(name);
  if (found !== undefined) return found;
  const line: Line = { name, requests: 0, errors: null, input: 0, cached: null, output: 0, cost: 0, unknown: 0 };
  lines.set(name, line);
  return line;
}

function sorted(lines: Map<string, Line>): Line[] {
  return [...lines.values()].sort((one, other) => other.cost - one.cost || other.requests - one.requests);
}
