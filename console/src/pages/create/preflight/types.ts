/** What passes between the create page and its worker. */

export type Target = 'chat' | 'embeddings';

export const URLS = { chat: '/v1/chat/completions', embeddings: '/v1/embeddings' } as const;

/** One thing wrong with a file; `line` null: with the whole of it. */
export interface Problem {
  line: number | null;
  custom_id: string | null;
  field: string | null;
  code: string;
  message: string;
}

export interface Problems {
  /** The first of them. */
  listed: Problem[];
  total: number;
}

export interface FileLimits {
  fileBytes: number;
  lineBytes: number;
  requests: number;
  customId: number;
}

/** What a file says by itself. */
export interface Survey {
  requests: number;
  /** Null when no line says what it is for. */
  target: Target | null;
  /** Names of models with how many requests name them; `''` counts those that name none. */
  models: [string, number][];
  problems: Problems;
}

/** Of a model, what making the stored requests needs. Prices are USD per token of batch work. */
export interface ModelFacts {
  id: string;
  names: string[];
  inputPrice: number;
  outputPrice: number;
  maxOutput: number | null;
}

export interface Overrides {
  target: Target;
  /** The canonical name of the model for every request; null keeps the file's. */
  model: string | null;
  temperature: number | null;
  maxTokens: number | null;
}

/** The requests as they will be stored. */
export interface Prepared {
  stored: Blob;
  requests: number;
  first: string[];
  model: string | null;
  /** Of each stored line: the file's line it was made of, and its custom_id. */
  places: [number, string][];
  /** USD at most; null where a request may answer with any number of tokens. */
  atMost: number | null;
  problems: Problems;
}

export type Job =
  | { kind: 'survey'; file: Blob; limits: FileLimits }
  | { kind: 'prepare'; file: Blob; limits: FileLimits; overrides: Overrides; models: ModelFacts[] };

export type Reply = { kind: 'progress'; part: number } | { kind: 'done'; result: Survey | Prepared } | { kind: 'failed'; message: string };
