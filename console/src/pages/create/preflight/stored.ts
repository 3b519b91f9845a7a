/**
 * The requests as they will be stored: method and url filled in, the canonical model named, what was chosen for every
 * request set. All else keeps its characters: values are put in place, never read and written again.
 */
import { ProblemList, readLines } from './file';
import type { Node, ObjectNode } from './json';
import type { Line, Tell } from './line';
import { type FileLimits, type ModelFacts, type Overrides, type Prepared, URLS } from './types';

const FIRST = 3;
const PIECE = 1 << 20;
const BYTES_PER_TOKEN = 3;

export function prepare(
  bytes: Uint8Array,
  limits: FileLimits,
  wanted: { overrides: Overrides; models: ModelFacts[] },
  progress: (part: number) => void,
): Prepared {
  const problems = new ProblemList();
  const models = new Map(wanted.models.flatMap((model) => model.names.map((name) => [name, model])));
  const writer = new Writer();
  const places: [number, string][] = [];
  let only: ModelFacts | null = null;
  let atMost: number | null = 0;
  for (const line of readLines(bytes, limits, problems.tell, progress)) {
    const model = modelOf(line, wanted.overrides, models, problems.tell);
    if (model === null) continue;
    only ??= model;
    if (model !== only) problems.tell(problemOf(line, 'model_mismatch', 'Every line must use the same model: choose one for all of them', 'body.model'));
    const text = storedLine(line, wanted.overrides, model.id);
    const size = writer.add(text);
    if (size > limits.lineBytes) problems.tell(problemOf(line, 'line_too_long', `As it would be stored it is longer than ${limits.lineBytes / 1024} KiB`, null));
    places.push([line.number, line.customId]);
    const cost = atMostOf(line, model, wanted.overrides);
    atMost = atMost === null || cost === null ? null : atMost + cost;
  }
  if (writer.size > limits.fileBytes)
    problems.tell({ line: null, custom_id: null, field: null, code: 'file_too_large', message: `The requests as they would be stored are larger than ${limits.fileBytes / 1024 ** 2} MiB together` });
  return { stored: writer.blob(), requests: places.length, first: writer.first, model: only?.id ?? null, places, atMost, problems: problems.all };
}

function problemOf(line: Line, code: string, message: string, field: string | null) {
  return { line: line.number, custom_id: line.customId, field, code, message };
}

function modelOf(line: Line, overrides: Overrides, models: Map<string, ModelFacts>, tell: Tell): ModelFacts | null {
  const name = overrides.model ?? line.model;
  if (name === null) {
    if (!line.body.members.has('model')) tell(problemOf(line, 'invalid_request', 'Required: name a model, or choose one for every request', 'body.model'));
    return null;
  }
  const model = models.get(name);
  if (model === undefined) tell(problemOf(line, 'model_not_found', 'You can use no such model in a batch of this type', 'body.model'));
  return model ?? null;
}

/** The line's text with its members set. */
function storedLine(line: Line, overrides: Overrides, model: string): string {
  const chosen: Record<string, string> = { model: JSON.stringify(model) };
  if (overrides.target === 'chat' && overrides.temperature !== null) chosen.temperature = String(overrides.temperature);
  if (overrides.target === 'chat' && overrides.maxTokens !== null) chosen.max_tokens = String(overrides.maxTokens);
  const edits = [
    ...editsOf(line.root, { method: '"POST"', url: JSON.stringify(URLS[overrides.target]) }),
    ...editsOf(line.body, chosen),
  ].sort((one, other) => other.start - one.start);
  let text = line.text;
  for (const { start, end, words } of edits) text = text.slice(0, start) + words + text.slice(end);
  return text.trim();
}

function editsOf(object: ObjectNode, values: Record<string, string>): { start: number; end: number; words: string }[] {
  const added = Object.entries(values).filter(([name]) => !object.members.has(name));
  const edits = Object.entries(values).flatMap(([name, words]) => {
    const node = object.members.get(name);
    return node === undefined ? [] : [{ start: node.start, end: node.end, words }];
  });
  if (added.length === 0) return edits;
  const words = added.map(([name, value]) => `${JSON.stringify(name)}: ${value}`).join(', ');
  const place = object.start + 1;
  return [...edits, { start: place, end: place, words: object.members.size === 0 ? words : `${words}, ` }];
}

/** As the gateway reckons before a request has run: its bytes as input, the most it may answer as output. */
function atMostOf(line: Line, model: ModelFacts, overrides: Overrides): number | null {
  const input = Math.ceil(utf8Length(line.text.slice(line.body.start, line.body.end)) / BYTES_PER_TOKEN) * model.inputPrice;
  if (overrides.target === 'embeddings' || model.outputPrice === 0) return input;
  const output = overrides.maxTokens ?? numberOf(line, line.body.members.get('max_tokens')) ?? model.maxOutput;
  if (output === null) return null;
  const answers = numberOf(line, line.body.members.get('n')) ?? 1;
  return input + output * answers * model.outputPrice;
}

function numberOf(line: Line, node: Node | undefined): number | null {
  return node?.kind === 'number' ? Number(line.text.slice(node.start, node.end)) : null;
}

const encoder = new TextEncoder();

function utf8Length(text: string): number {
  return encoder.encode(text).length;
}

/** Gathers lines into pieces of a Blob. */
class Writer {
  readonly first: string[] = [];
  size = 0;
  private readonly pieces: Uint8Array<ArrayBuffer>[] = [];
  private pending = '';

  /** The line's bytes without its end. */
  add(line: string): number {
    if (this.first.length < FIRST) this.first.push(line);
    const size = utf8Length(line);
    this.size += size + 1;
    this.pending += `${line}\n`;
    if (this.pending.length >= PIECE) this.flush();
    return size;
  }

  blob(): Blob {
    this.flush();
    return new Blob(this.pieces, { type: 'application/jsonl' });
  }

  private flush(): void {
    this.pieces.push(encoder.encode(this.pending));
    this.pending = '';
  }
}
