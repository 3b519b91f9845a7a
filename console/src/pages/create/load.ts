/** Reading a file beside the page, checking it, the stored files, and what a copy starts from. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { ApiError, body, client } from '../../api/client';
import { nextOf } from '../../parts/DataTable';
import { isCopyable } from '../batches/wire';
import type { FileLimits, Job, Prepared, Reply, Survey, Target } from './preflight/types';
import { discard, finish, findOut, isRefused, storeOnce, submit, SURE_MS } from './submit';
import { forget, isUnderWay, listSubmissions, type Submission } from './submissions';
import { type Capabilities, type Checked, type Choices, choicesLike, factsOf, gatewayProblems, limitsOf, NO_CHOICES, overridesOf, type Read, type Source, sourceFileOf, type StoredFile, usableModels } from './wire';

function run<Result>(job: Job, onProgress: (part: number) => void): Promise<Result> {
  const worker = new Worker(new URL('./preflight/worker.ts', import.meta.url), { type: 'module' });
  return new Promise<Result>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      if (data.kind === 'progress') onProgress(data.part);
      else if (data.kind === 'done') resolve(data.result as Result);
      else reject(new Error(data.message));
    };
    worker.onerror = () => reject(new Error('The file could not be read here.'));
    worker.postMessage(job);
  }).finally(() => worker.terminate());
}

export interface Doing {
  what: 'reading' | 'storing';
  /** How much of it is done, of 1. */
  part: number;
}

/** The text of a file is read by the page's own worker; then the file, if nothing is wrong in it, is stored. */
export function useReadFile(limits: FileLimits) {
  const cache = useQueryClient();
  const [doing, setDoing] = useState<Doing>({ what: 'reading', part: 0 });
  const read = useMutation({
    mutationFn: async (find: () => Promise<Source>): Promise<Read> => {
      setDoing({ what: 'reading', part: 0 });
      const source = await find();
      if (source.blob.size > limits.fileBytes * 2) throw new Error(`A file may have ${limits.fileBytes / 1024 ** 2} MiB: this one is far larger. Make several of it.`);
      const survey = await run<Survey>({ kind: 'survey', file: source.blob, limits }, (part) => setDoing({ what: 'reading', part }));
      if (survey.problems.total > 0 || source.fileId !== null) return { source, survey };
      setDoing({ what: 'storing', part: 0 });
      const fileId = await storeOnce(source, (part) => setDoing({ what: 'storing', part }));
      void cache.invalidateQueries({ queryKey: ['files'] });
      return { source: { ...source, fileId }, survey };
    },
  });
  return { ...read, doing };
}

export interface Wanted {
  read: Read;
  choices: Choices;
  target: Target;
}

/** Make the requests as they would be stored and have the gateway check each of them. */
export function useCheck(capabilities: Capabilities) {
  return useMutation({
    mutationFn: async ({ read: { source, survey }, choices, target }: Wanted): Promise<Checked> => {
      const models = usableModels(capabilities, target).map(factsOf);
      const job: Job = { kind: 'prepare', file: source.blob, limits: limitsOf(capabilities), overrides: overridesOf(choices, target), models };
      const prepared = await run<Prepared>(job, () => undefined);
      const names = choices.model === '' ? survey.models.map(([name]) => name) : [choices.model];
      const found = { at: Date.now(), source, prepared, choices, target, names };
      if (prepared.problems.total > 0) return { ...found, problems: prepared.problems, model: null, keyId: '', sha256: '' };
      const check = await checkLines(prepared.stored, target);
      return { ...found, problems: gatewayProblems(check, prepared.places), model: check.model ?? null, keyId: check.key_id, sha256: check.sha256 };
    },
  });
}

function checkLines(lines: Blob, target: Target) {
  const endpoint = target === 'chat' ? '/v1/chat/completions' : '/v1/embeddings';
  return body(
    client.POST('/user/batch-checks', {
      params: { query: { endpoint } },
      body: lines as never,
      bodySerializer: (sent) => sent as unknown as Blob,
      headers: { 'Content-Type': 'application/jsonl' },
    }),
  );
}

export function useSubmit(accountId: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (checked: Checked) => submit(checked, accountId),
    onSettled: () => {
      for (const key of ['batches', 'files', 'submissions', 'batch-capabilities', 'user', 'keys']) void cache.invalidateQueries({ queryKey: [key] });
    },
  });
}

// Submissions of before -----------------------------------------------------------------------------------------------

export interface Outcome {
  kept: Submission;
  /** The batch it made. */
  batchId: string | null;
  /** `unsent`: nothing can have come of it; `under_way`: in another tab; `refused`: it made nothing; `asks`: nobody can tell. */
  state: 'made' | 'unsent' | 'under_way' | 'refused' | 'asks' | 'open';
  error: Error | null;
}

/** What became of the submissions that this browser still keeps; what was sent within a day is finished by this. */
export function useOutcomes(accountId: string) {
  return useQuery({
    queryKey: ['submissions', accountId],
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    refetchInterval: ({ state }) => (state.data?.some((outcome) => outcome.state === 'under_way') ? LOOK_AGAIN_MS : false),
    queryFn: async () => {
      const open = (await listSubmissions(accountId)).filter((kept) => kept.made === null);
      return Promise.all(open.map(outcomeOf));
    },
  });
}

const LOOK_AGAIN_MS = 2_000;

async function outcomeOf(kept: Submission): Promise<Outcome> {
  const none = { kept, batchId: null, error: null };
  if (await isUnderWay(kept.id)) return { ...none, state: 'under_way' };
  if (kept.sentAt === null) return { ...none, state: 'unsent' };
  const sure = Date.now() - kept.sentAt <= SURE_MS;
  try {
    return { ...none, batchId: await (sure ? finish(kept) : findOut(kept)), state: 'made' };
  } catch (error) {
    const state = sure && isRefused(error) ? 'refused' : sure || error instanceof ApiError ? 'open' : 'asks';
    return { ...none, state, error: error as Error };
  }
}

/** `made`: it may have made a batch, so that its file stays. */
export function useForget() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ kept, made }: { kept: Submission; made: boolean }) => (made ? forget(kept) : discard(kept)),
    onSettled: () => cache.invalidateQueries({ queryKey: ['submissions'] }),
  });
}

/** The key that a batch of this session runs under; null when it is not among the account's usable ones. */
export function useKeyUsed() {
  return useQuery({
    queryKey: ['keys', 'used'],
    queryFn: async () => {
      const [{ key_id }, keys] = await Promise.all([body(client.GET('/user')), body(client.GET('/user/keys', { params: { query: { limit: MOST_KEYS } } }))]);
      return keys.data.find((key) => key.id === key_id && key.state === 'active') ?? null;
    },
  });
}

const MOST_KEYS = 1_000;

// Stored files --------------------------------------------------------------------------------------------------------

/** The newest first, some more each time they are asked for. */
export function useFiles() {
  return useInfiniteQuery({
    queryKey: ['files'],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => body(client.GET('/v1/files', { params: { query: { purpose: 'batch', limit: FILES_AT_ONCE, after: pageParam } } })),
    getNextPageParam: (page) => nextOf(page) ?? undefined,
  });
}

const FILES_AT_ONCE = 20;

export function useDeleteFile() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => body(client.DELETE('/v1/files/{id}', { params: { path: { id } } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: ['files'] }),
  });
}

/** The settings of a batch that is copied, and the stored file to begin with: `fileId`, else that batch's. */
export function useBeginning(batchId: string | null, fileId: string | null) {
  return useQuery({
    queryKey: ['beginning', batchId, fileId],
    enabled: batchId !== null || fileId !== null,
    staleTime: Infinity,
    gcTime: 0,
    queryFn: async (): Promise<{ choices: Choices; file: StoredFile | null }> => {
      const copied = batchId === null ? null : await readCopied(batchId);
      return { choices: copied?.choices ?? NO_CHOICES, file: await fileOrNull(fileId ?? copied?.fileId ?? '') };
    },
  });
}

async function readCopied(batchId: string) {
  const wire = await body(client.GET('/user/batches/{id}', { params: { path: { id: batchId } } }));
  if (!isCopyable(wire)) throw new Error('Only a batch of a file, of target Chat or Embeddings, can be copied.');
  return { choices: choicesLike(wire), fileId: sourceFileOf(wire) };
}

async function fileOrNull(id: string): Promise<StoredFile | null> {
  try {
    return await body(client.GET('/v1/files/{id}', { params: { path: { id } } }));
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}
