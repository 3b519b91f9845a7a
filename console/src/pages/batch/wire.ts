/** A batch's details: its timeline, its progress as streamed, its requests and errors. */
import type { Schemas } from '../../api/client';
import type { Batch, BatchObject, Counts } from '../batches/wire';

export type BatchRequest = Schemas['BatchRequest'];
export type ErrorGroup = Schemas['BatchErrorGroup'];
export type OutcomeFilter = 'succeeded' | 'failed' | 'expired' | 'cancelled' | 'unfinished';

/** The data of an event `batch` of the stream. */
export interface Progress {
  status: BatchObject['status'];
  request_counts: Counts;
  rate: number | null;
  expires_at: number | null;
  estimated_completion_at: number | null;
  finishes_in_time: boolean | null;
  blocked_reason: BatchObject['blocked_reason'];
}

export const OUTCOMES: readonly { value: OutcomeFilter | ''; label: string }[] = [
  { value: '', label: 'All' },
  { value: 'succeeded', label: 'Succeeded' },
  { value: 'failed', label: 'Failed' },
  { value: 'expired', label: 'Expired' },
  { value: 'cancelled', label: 'Cancelled' },
  { value: 'unfinished', label: 'Not finished' },
];

export interface Step {
  name: string;
  at: number | null;
  tone: 'done' | 'next' | 'bad';
}

/** What happened to a batch, in order, and what comes next. */
export function timelineOf({ object }: Batch): Step[] {
  const steps: (Step | null)[] = [
    { name: 'Submitted', at: object.created_at, tone: 'done' },
    reached('First request started', object.in_progress_at),
    reached('Cancelled by hand', object.cancelling_at),
    reached('Every request has an outcome', object.finalizing_at),
    reached('Completed', object.completed_at),
    reached('Failed', object.failed_at, 'bad'),
    reached('Expired', object.expired_at, 'bad'),
    reached('Cancelled', object.cancelled_at),
  ];
  const known = steps.filter((step) => step !== null);
  const next = object.estimated_completion_at;
  if (next !== null && next !== undefined) known.push({ name: 'Estimated completion', at: next, tone: 'next' });
  if (object.results_expires_at !== null && object.results_expires_at !== undefined)
    known.push({ name: 'Removed with its results', at: object.results_expires_at, tone: 'next' });
  else if (object.expires_at !== null && object.expires_at !== undefined)
    known.push({ name: 'Window closes', at: object.expires_at, tone: 'next' });
  return known;
}

function reached(name: string, at: number | null | undefined, tone: Step['tone'] = 'done'): Step | null {
  return at === null || at === undefined ? null : { name, at, tone };
}

/** A batch with what the stream told since it was read. */
export function withProgress(batch: BatchObject, progress: Progress | null): BatchObject {
  if (progress === null) return batch;
  return {
    ...batch,
    status: progress.status,
    request_counts: progress.request_counts,
    expires_at: progress.expires_at,
    estimated_completion_at: progress.estimated_completion_at,
    finishes_in_time: progress.finishes_in_time,
    blocked_reason: progress.blocked_reason,
  };
}

/** A request or an answer as text to be read. */
export function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

/** The answers of the four targets that say something, as far as that is looked for in them. */
interface Answer {
  choices?: { message?: { content?: unknown } }[];
  content?: unknown;
  candidates?: { content?: { parts?: unknown } }[];
  output?: { content?: unknown }[];
}

/** What a model said; the rest is in the whole of the answer. */
export function spoken(body: unknown): string | null {
  const answer = (body ?? {}) as Answer;
  const said = [answer.choices?.[0]?.message?.content, answer.content, answer.candidates?.[0]?.content?.parts, ...(answer.output ?? []).map((one) => one.content)];
  return said.map(textIn).join('') || null;
}

/** Of a text, or of parts some of which are text. */
function textIn(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map(({ text }: { text?: unknown }) => (typeof text === 'string' ? text : '')).join('');
}
