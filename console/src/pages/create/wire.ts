/** A batch in the making: where its requests come from, what is chosen for it, what was found; and how it is worded. */
import type { Schemas } from '../../api/client';
import type { WireBatch } from '../batches/wire';
import { type ModelFacts, type Prepared, type Problem, type Problems, type Survey, type Target } from './preflight/types';
import type { FileLimits, Overrides } from './preflight/types';

export type Capabilities = Schemas['BatchCapabilities'];
export type BatchModel = Capabilities['models'][number];
export type StoredFile = Omit<Schemas['FileObject'], 'status_details'>;

/** The bytes of a file, and the id it is stored under; null as long as it is not. */
export interface Source {
  blob: Blob;
  filename: string;
  fileId: string | null;
}

export interface Read {
  source: Source;
  survey: Survey;
}

/** What is chosen in the second step. Numbers as they are typed; empty: the file's. */
export interface Choices {
  name: string;
  description: string;
  target: Target | null;
  model: string;
  temperature: string;
  maxTokens: string;
}

export const NO_CHOICES: Choices = { name: '', description: '', target: null, model: '', temperature: '', maxTokens: '' };

/** What was checked: exactly this is submitted. */
export interface Checked {
  /** When, in Unix milliseconds. */
  at: number;
  source: Source;
  prepared: Prepared;
  choices: Choices;
  target: Target;
  /** What the model was called: as chosen, or by the file. */
  names: readonly string[];
  problems: Problems;
  model: string | null;
  keyId: string;
  sha256: string;
}

/** A code of the gateway: the key or the model has changed since the check. */
export const CHECK_AGAIN = 'check_again';

export const TARGET_WORDS: Record<Target, string> = { chat: 'Chat', embeddings: 'Embeddings' };
const SETTINGS = ['description', 'model', 'temperature', 'max_tokens'] as const;
export const NAME_LENGTH = 512;

export function limitsOf({ limits }: Capabilities): FileLimits {
  return { fileBytes: limits.file_bytes, lineBytes: limits.line_bytes, requests: limits.requests_per_batch, customId: limits.custom_id_characters };
}

export function usableModels(capabilities: Capabilities, target: Target): BatchModel[] {
  return capabilities.models.filter((model) => model.available && model.targets.includes(target));
}

export function factsOf(model: BatchModel): ModelFacts {
  const { prices } = model;
  return {
    id: model.id,
    names: [model.id, ...model.aliases],
    inputPrice: (prices.input * prices.batch_factor) / 1e6,
    outputPrice: (prices.output * prices.batch_factor) / 1e6,
    maxOutput: model.max_output_tokens ?? null,
  };
}

/** The canonical name behind one that a file or a choice names; null when there is none to use. */
export function resolved(models: readonly BatchModel[], name: string): string | null {
  return models.find((model) => model.id === name || model.aliases.includes(name))?.id ?? null;
}

/** The choices without a model that cannot be used: a batch that is copied may have had one. */
export function withUsable(choices: Choices, models: readonly BatchModel[]): Choices {
  return models.some((model) => model.id === choices.model) ? choices : { ...choices, model: '' };
}

/** Why a model has to be chosen, or null when the file's will do. */
export function whyChoose(survey: Survey, models: readonly BatchModel[]): string | null {
  const names = survey.models.map(([name]) => name);
  if (names.includes('')) return 'Some requests name no model: choose the one for every request.';
  const canonical = new Set(names.map((name) => resolved(models, name) ?? ''));
  if (canonical.has('')) return `The file names ${listed(names.filter((name) => resolved(models, name) === null))}, which you cannot use in this batch: choose a model for every request.`;
  return canonical.size > 1 ? `The file names ${canonical.size} models, ${listed([...canonical])}: choose one for every request.` : null;
}

function listed(names: readonly string[]): string {
  return names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(' and ');
}

export function overridesOf(choices: Choices, target: Target): Overrides {
  const chat = target === 'chat';
  return {
    target,
    model: choices.model === '' ? null : choices.model,
    temperature: chat && choices.temperature !== '' ? Number(choices.temperature) : null,
    maxTokens: chat && choices.maxTokens !== '' ? Number(choices.maxTokens) : null,
  };
}

/** What the batch carries along, and a copy of it reads again. */
export function metadataOf({ choices, source }: Checked): Record<string, string> {
  const chosen = { description: choices.description.trim(), model: choices.model, temperature: choices.temperature, max_tokens: choices.maxTokens };
  const metadata: Record<string, string> = { name: choices.name.trim(), source_file: source.filename.slice(0, NAME_LENGTH), source_file_id: source.fileId ?? '' };
  for (const name of SETTINGS) if (chosen[name] !== '') metadata[name] = chosen[name];
  return metadata;
}

/** The file that a batch was begun with: the chosen one, where the batch has a copy of its own. */
export function sourceFileOf({ batch }: WireBatch): string {
  return batch.metadata?.source_file_id ?? batch.input_file_id ?? '';
}

/** The choices of a batch that was made here; of another one, whose metadata says other things, its name and type. */
export function choicesLike(wire: WireBatch): Choices {
  const made = wire.batch.metadata?.source_file_id !== undefined;
  const metadata: Record<string, string> = made ? (wire.batch.metadata ?? {}) : {};
  return {
    name: `Copy of ${wire.name ?? wire.id}`.slice(0, NAME_LENGTH),
    description: metadata.description ?? '',
    target: wire.target as Target,
    model: metadata.model ?? '',
    temperature: metadata.temperature ?? '',
    maxTokens: metadata.max_tokens ?? '',
  };
}

/** Problems that the gateway found in the stored lines, told of the file's. */
export function gatewayProblems(found: Schemas['BatchCheck'], places: Prepared['places']): Problems {
  const listed = found.problems.map((one): Problem => {
    const place = one.line == null ? undefined : places[one.line - 1];
    return { line: place?.[0] ?? null, custom_id: place?.[1] ?? null, field: one.param ?? null, code: one.code, message: one.message };
  });
  return { listed, total: found.problem_count };
}

// Problems as files -------------------------------------------------------------------------------------------------

const COLUMNS = ['line', 'custom_id', 'field', 'code', 'message'] as const;

export function asJsonl(problems: readonly Problem[]): string {
  return problems.map((problem) => `${JSON.stringify(problem)}\n`).join('');
}

export function asCsv(problems: readonly Problem[]): string {
  const rows = problems.map((problem) => COLUMNS.map((column) => cell(problem[column])).join(','));
  return [COLUMNS.join(','), ...rows].map((row) => `${row}\r\n`).join('');
}

/** Quoted where it must be; what a spreadsheet would run as a formula is made words. */
function cell(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
