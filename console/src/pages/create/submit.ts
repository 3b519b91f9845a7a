/**
 * Submitting once: whatever is lost on the way, the same key and the same file are sent again, and the gateway answers
 * with the batch they made. It refuses a first submission whose key or model has changed since the check.
 */
import { ApiError, body, client, refusal } from '../../api/client';
import { telling } from '../../api/sending';
import { URLS } from './preflight/types';
import { alone, amend, begin, forget, type Submission } from './submissions';
import { CHECK_AGAIN, type Checked, metadataOf, type Source, type StoredFile } from './wire';

/** The gateway surely knows an Idempotency-Key for so long. */
export const SURE_MS = 24 * 3_600_000;

/** It may or may not have made a batch, and nobody can tell any more. */
export class UnknownOutcome extends Error {
  constructor(readonly kept: Submission) {
    super('Whether this submission made a batch cannot be known any more.');
  }
}

/** `accountId` is whose submission it is: what somebody else begins in this browser is not the same. */
export function submit(checked: Checked, accountId: string): Promise<string> {
  const fresh = submissionOf(checked, accountId);
  return alone(fresh.id, async () => {
    const kept = await begin(fresh, checked.at);
    if (kept.made !== null) return kept.made.batchId;
    const stored = kept.fileId === null ? await store(kept, checked) : kept;
    return send({ ...stored, checked: fresh.checked });
  });
}

/** What comes of a submission whose file is stored: it is sent for the first time, or again. */
export function finish(kept: Submission): Promise<string> {
  return alone(kept.id, () => send(kept));
}

function submissionOf(checked: Checked, accountId: string): Submission {
  const metadata = metadataOf(checked);
  // A second tab may have stored the same file once more: that makes it no other submission.
  const { source_file_id, ...said } = metadata;
  return {
    id: `${accountId} ${checked.sha256} ${checked.target} ${JSON.stringify(said)}`,
    accountId,
    idempotencyKey: `console-${hex(16)}`,
    name: metadata.name ?? '',
    endpoint: URLS[checked.target],
    metadata,
    sourceId: source_file_id ?? '',
    fileId: null,
    checked: { key_id: checked.keyId, model: checked.model ?? '', names: [...checked.names] },
    sentAt: null,
    made: null,
  };
}

async function send(kept: Submission): Promise<string> {
  if (kept.sentAt !== null && Date.now() - kept.sentAt > SURE_MS) return findOut(kept);
  const now = await amend(kept, (one) => ({ ...one, checked: kept.checked, sentAt: one.sentAt ?? Date.now() }));
  if (now === null) throw new Error('Another tab has ended this submission meanwhile: look at your batches.');
  if (now.made !== null) return now.made.batchId;
  try {
    const created = await body(client.POST('/user/batches', { body: createOf(now), params: { header: { 'Idempotency-Key': now.idempotencyKey } } }));
    return await madeBy(now, created.id);
  } catch (error) {
    await afterRefusal(now, error);
    throw error;
  }
}

/** The batch that was made of a submission's file, where there is one; raises UnknownOutcome when there is none. */
export async function findOut(kept: Submission): Promise<string> {
  const query = { limit: 100, search: kept.name };
  const page = await body(client.GET('/user/batches', { params: { query } }));
  const made = page.data.find((one) => one.batch.input_file_id === kept.fileId);
  if (made === undefined) throw new UnknownOutcome(kept);
  return madeBy(kept, made.id);
}

async function madeBy(kept: Submission, batchId: string): Promise<string> {
  await amend(kept, (now) => ({ ...now, made: { batchId, at: Date.now() } }));
  return batchId;
}

function createOf({ fileId, endpoint, metadata, checked }: Submission) {
  return { input_file_id: fileId ?? '', endpoint, metadata, checked };
}

/** Whether a refusal says that no batch was made; where no answer came, it says nothing. */
export function isRefused(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 408;
}

export function isStale(error: unknown): boolean {
  return error instanceof ApiError && error.code === CHECK_AGAIN;
}

const LATER = new Set([401, 403, 404, 405, 429]);

async function afterRefusal(kept: Submission, error: unknown): Promise<void> {
  if (!isRefused(error)) return;
  if (LATER.has(error.status)) await amend(kept, (now) => ({ ...now, sentAt: null }));
  else await discard(kept);
}

/** Forget a submission that has made nothing, and the copy that was stored for it. */
export async function discard(kept: Submission): Promise<void> {
  await forget(kept);
  if (kept.fileId !== null && kept.fileId !== kept.sourceId) await remove(kept.fileId);
}

/** The submission with its file, which the tab that is first stores for all of them. */
async function store(kept: Submission, { source, prepared }: Checked): Promise<Submission> {
  const fileId = (await isSame(source.blob, prepared.stored)) ? kept.sourceId : (await upload(prepared.stored, source.filename, kept.sourceId)).id;
  const first = await amend(kept, (now) => ({ ...now, fileId: now.fileId ?? fileId }));
  if (first?.fileId !== fileId && fileId !== kept.sourceId) await remove(fileId);
  // Where it is no longer kept, another tab has sent it meanwhile and knows what came of it.
  if (first === null) throw new Error('Another tab has submitted this meanwhile: look at your batches.');
  return first;
}

async function isSame(one: Blob, other: Blob): Promise<boolean> {
  return one.size === other.size && (await one.text()) === (await other.text());
}

/** Store the file that was chosen, unless it is stored already; returns its id. `onPart`: how much of it is sent. */
export async function storeOnce(source: Source, onPart: (part: number) => void): Promise<string> {
  const { data } = await body(client.GET('/v1/files', { params: { query: { purpose: 'batch', limit: 100 } } }));
  const alike = data.find((file) => file.filename === source.filename && file.bytes === source.blob.size);
  if (alike !== undefined && (await isSame(source.blob, (await storedSource(alike)).blob))) return alike.id;
  return (await upload(source.blob, source.filename, undefined, telling(onPart))).id;
}

export async function storedSource({ id, filename }: Pick<StoredFile, 'id' | 'filename'>): Promise<Source> {
  const answer = await fetch(`/v1/files/${encodeURIComponent(id)}/content`);
  if (!answer.ok) throw await refusal(answer);
  return { blob: await answer.blob(), filename, fileId: id };
}

/** Store a file; where `sourceId` names one, as a batch's own copy of that one's requests. */
function upload(content: Blob, filename: string, sourceId?: string, fetch?: (request: Request) => Promise<Response>): Promise<StoredFile> {
  const form = new FormData();
  form.append('purpose', 'batch');
  if (sourceId !== undefined) form.append('source_file_id', sourceId);
  form.append('file', content, filename);
  return body(client.POST('/v1/files', { body: form as never, bodySerializer: (sent) => sent as unknown as FormData, ...(fetch === undefined ? {} : { fetch }) }));
}

/** Delete a copy. One that stays, since this did not reach the gateway, goes with its source. */
async function remove(fileId: string): Promise<void> {
  await client.DELETE('/v1/files/{id}', { params: { path: { id: fileId } } }).catch(() => undefined);
}

function hex(bytes: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
