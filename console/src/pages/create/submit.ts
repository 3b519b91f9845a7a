/**
 * Submitting once: whatever is lost on the way, the same key and the same file are sent again, and the gateway answers
 * with the batch they made. A key or a model that changed since the check is refused before anything is sent.
 */
import { ApiError, body, client } from '../../api/client';
import type { paths } from '../../api/schema';
import { URLS } from './preflight/types';
import { amend, begin, forget, type Submission } from './submissions';
import { type Checked, metadataOf, resolved, type Source, type StoredFile, usableModels } from './wire';

type CreateBody = paths['/v1/batches']['post']['requestBody']['content']['application/json'];

/** The gateway surely knows an Idempotency-Key for so long. */
export const SURE_MS = 24 * 3_600_000;

/** It may or may not have made a batch, and nobody can tell any more. */
export class UnknownOutcome extends Error {
  constructor(readonly kept: Submission) {
    super('Whether this submission made a batch cannot be known any more.');
  }
}

/** What was checked is no longer what would be submitted. */
export class CheckAgain extends Error {}

export async function submit(checked: Checked, accountId: string): Promise<string> {
  await refuseChanged(checked);
  const metadata = metadataOf(checked);
  const fresh: Submission = {
    id: `${accountId} ${checked.sha256} ${checked.target} ${JSON.stringify(metadata)}`,
    accountId,
    keyId: checked.keyId,
    idempotencyKey: `console-${hex(16)}`,
    name: metadata.name ?? '',
    endpoint: URLS[checked.target],
    metadata,
    fileId: null,
    sentAt: null,
    made: null,
  };
  const kept = await begin(fresh, checked.at);
  if (kept.made !== null) return kept.made.batchId;
  if (kept.keyId !== checked.keyId && kept.sentAt !== null) return findOut(kept);
  const stored = kept.fileId === null ? await store(kept, checked) : kept;
  return finish({ ...stored, keyId: checked.keyId });
}

/** Send the create call of a submission whose file is stored, for the first time or again. */
export async function finish(kept: Submission): Promise<string> {
  if (kept.fileId === null) throw new Error('Its file was not stored, so that no batch was made');
  if (kept.sentAt !== null && Date.now() - kept.sentAt > SURE_MS) return findOut(kept);
  await amend(kept, (now) => ({ ...now, keyId: kept.keyId, sentAt: now.sentAt ?? Date.now() }));
  try {
    const created = await body(client.POST('/v1/batches', { body: createOf(kept), params: { header: { 'Idempotency-Key': kept.idempotencyKey } } }));
    return await madeBy(kept, created.id);
  } catch (error) {
    await afterRefusal(kept, error);
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

function createOf(kept: Submission): CreateBody {
  return { input_file_id: kept.fileId, endpoint: kept.endpoint, completion_window: '24h', metadata: kept.metadata } as CreateBody;
}

/** What a refusal says about the outcome: nothing where no answer came, else that no batch was made. */
async function afterRefusal(kept: Submission, error: unknown): Promise<void> {
  if (!(error instanceof ApiError) || error.status === 0 || error.status >= 500 || error.status === 408) return;
  const again = error.status === 401 || error.status === 403 || error.status === 429;
  if (again) await amend(kept, (now) => ({ ...now, sentAt: null }));
  else await forget(kept);
}

async function refuseChanged({ keyId, model, names, target }: Checked): Promise<void> {
  const [user, capabilities] = await Promise.all([body(client.GET('/user')), body(client.GET('/user/batch-capabilities'))]);
  if (user.key_id !== keyId) throw new CheckAgain('Your API key has changed since the check: go back and check again.');
  const models = usableModels(capabilities, target);
  if (names.some((name) => resolved(models, name) !== model)) throw new CheckAgain('The model has changed since the check: go back and check again.');
}

/** The submission with its file, which the tab that is first stores for all of them. */
async function store(kept: Submission, { source, prepared }: Checked): Promise<Submission> {
  const fileId = (await isSame(source, prepared.stored)) ? (source.fileId as string) : (await upload(prepared.stored, source.filename)).id;
  const first = await amend(kept, (now) => ({ ...now, fileId: now.fileId ?? fileId }));
  if (first !== null && first.fileId !== fileId && fileId !== source.fileId) await client.DELETE('/v1/files/{id}', { params: { path: { id: fileId } } });
  // Where it is no longer kept, another tab has sent it meanwhile and knows what came of it.
  if (first === null) throw new CheckAgain('Another tab has submitted this meanwhile: look at your batches.');
  return first;
}

async function isSame(source: Source, stored: Blob): Promise<boolean> {
  if (source.fileId === null || source.blob.size !== stored.size) return false;
  return (await source.blob.text()) === (await stored.text());
}

function upload(content: Blob, filename: string): Promise<StoredFile> {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', content, filename);
  return body(client.POST('/v1/files', { body: form as never, bodySerializer: (sent) => sent as unknown as FormData }));
}

function hex(bytes: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
