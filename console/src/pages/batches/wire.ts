/** Batches as the console words them: four groups of statuses, each with a note; requests by outcome. */
import type { Schemas } from '../../api/client';
import type { Outcome } from '../../parts/OutcomeBar';
import type { Tone } from '../../parts/states';

export type WireBatch = Schemas['UserBatch'];
export type BatchObject = Schemas['BatchObject'];
export type Counts = Schemas['RequestCounts'];
export type Group = 'processing' | 'completed' | 'with_issues' | 'cancelled';

export const GROUPS: Record<Group, { word: string; tone: Tone }> = {
  processing: { word: 'Processing', tone: 'active' },
  completed: { word: 'Completed', tone: 'good' },
  with_issues: { word: 'With issues', tone: 'warn' },
  cancelled: { word: 'Cancelled', tone: 'quiet' },
};

const TARGETS: Record<string, string> = {
  chat: 'Chat',
  embeddings: 'Embeddings',
  responses: 'Responses',
  messages: 'Messages',
  gemini: 'Gemini',
};

const METHODS: Record<WireBatch['input_method'], string> = {
  requests: 'Direct requests',
  file: 'File',
  message_batches: 'Message Batches',
};

const STAGES: Partial<Record<BatchObject['status'], string>> = {
  validating: 'Checking the requests',
  in_progress: 'Running',
  finalizing: 'Writing the results',
  cancelling: 'Cancelling: running requests still finish',
};

const REASONS: Record<NonNullable<BatchObject['blocked_reason']>, string> = {
  model_queued: 'Paused: the model waits for its hardware',
  model_paused: 'Paused: the model failed several times in a row and rests',
  yielding: 'Paused: interactive requests use the model',
  daily_quota: 'Paused: today’s quota is used up',
  monthly_quota: 'Paused: this month’s quota is used up',
  key_budget: 'Paused: its API key has spent its budget',
  role: 'Paused: your role is below the one that batches need',
  no_route_up: 'Paused: no server of the model is up',
  model_cap: 'Waiting: the model runs as many batch requests as it may',
  account_cap: 'Waiting: your account runs as many batch requests as it may',
  load_unknown: 'Paused: how busy the model is cannot be read',
};

export interface Batch {
  id: string;
  title: string;
  named: boolean;
  target: string;
  model: string;
  method: string;
  group: Group;
  note: string | null;
  ended: boolean;
  own: boolean;
  contentShown: boolean;
  copyable: boolean;
  exportable: boolean;
  counts: Counts;
  waiting: number;
  outcomes: Outcome[];
  object: BatchObject;
}

const FINAL = new Set<BatchObject['status']>(['completed', 'failed', 'expired', 'cancelled']);

export function isFinal(status: BatchObject['status']): boolean {
  return FINAL.has(status);
}

/** The group of a status; the same rule as the gateway's, so that an older gateway's batches are shown too. */
function groupOf(status: BatchObject['status'], counts: Counts): Group {
  if (status === 'cancelled') return 'cancelled';
  if (status === 'failed' || status === 'expired') return 'with_issues';
  if (status !== 'completed') return 'processing';
  return counts.completed === counts.total ? 'completed' : 'with_issues';
}

function noteOf(status: BatchObject['status'], counts: Counts, reason: BatchObject['blocked_reason']): string | null {
  if (reason !== null && reason !== undefined && !isFinal(status)) return REASONS[reason] ?? 'Paused';
  if (status === 'failed') return 'Failed as a whole';
  if (status === 'expired') return 'The window closed before every request had started';
  if (status === 'completed') return counts.completed === counts.total ? null : 'Some requests did not succeed';
  return STAGES[status] ?? null;
}

/** `failed` of the wire includes the expired ones; here each request is in one outcome. */
export function outcomesOf(counts: Counts): Outcome[] {
  const expired = counts.expired ?? 0;
  return [
    { word: 'succeeded', tone: 'good', requests: counts.completed },
    { word: 'failed', tone: 'bad', requests: counts.failed - expired },
    { word: 'expired', tone: 'warn', requests: expired },
    { word: 'cancelled', tone: 'quiet', requests: counts.cancelled ?? 0 },
  ];
}

const CREATED_HERE = new Set(['chat', 'embeddings']);

/** Whether its file and settings can be the start of a new batch. */
export function isCopyable(wire: { target: string; input_method: string }): boolean {
  return wire.input_method === 'file' && CREATED_HERE.has(wire.target);
}

/** From what a user's own list and the administrators' list have alike. */
export function toBatch(wire: Omit<WireBatch, 'object'>): Batch {
  const { batch } = wire;
  const counts = batch.request_counts;
  const finished = counts.completed + counts.failed + (counts.cancelled ?? 0);
  return {
    id: wire.id,
    title: wire.name ?? 'Batch without a name',
    named: wire.name !== null && wire.name !== undefined,
    target: TARGETS[wire.target] ?? wire.target,
    model: batch.model ?? (counts.total === 0 ? 'Not known' : 'Several models'),
    method: METHODS[wire.input_method],
    group: groupOf(batch.status, counts),
    note: noteOf(batch.status, counts, batch.blocked_reason),
    ended: isFinal(batch.status),
    own: wire.own,
    contentShown: wire.content_shown,
    copyable: wire.own && isCopyable(wire),
    exportable: wire.own && isFinal(batch.status) && CREATED_HERE.has(wire.target) && counts.failed + (counts.cancelled ?? 0) > 0,
    counts,
    waiting: counts.total - finished,
    outcomes: outcomesOf(counts),
    object: batch,
  };
}
