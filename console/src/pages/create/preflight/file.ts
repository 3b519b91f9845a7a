/** A file's lines, read once from front to back: each request, and what is wrong with the file beside them. */
import { type Line, readLine, type Tell } from './line';
import type { FileLimits, Problem, Problems, Survey, Target } from './types';

const LISTED = 10_000;
const BOM = [0xef, 0xbb, 0xbf] as const;

export class ProblemList {
  private readonly listed: Problem[] = [];
  private total = 0;

  readonly tell: Tell = (problem) => {
    this.total += 1;
    if (this.listed.length < LISTED) this.listed.push(problem);
  };

  get all(): Problems {
    return { listed: this.listed, total: this.total };
  }
}

/** Every readable request of the file, in order; what is wrong is told. `progress` hears the part that is done. */
export function* readLines(bytes: Uint8Array, limits: FileLimits, tell: Tell, progress: (part: number) => void): Generator<Line> {
  const whole = (code: string, message: string) => tell({ line: null, custom_id: null, field: null, code, message });
  const first = BOM.every((byte, at) => bytes[at] === byte) ? BOM.length : 0;
  if (first > 0) tell({ line: 1, custom_id: null, field: null, code: 'byte_order_mark', message: 'The file begins with a byte-order mark: save it as UTF-8 without one' });
  if (bytes.length > limits.fileBytes) whole('file_too_large', `The file is larger than ${limits.fileBytes / 1024 ** 2} MiB`);
  const seen = new Map<string, number>();
  let target: Target | null = null;
  let requests = 0;
  for (const [number, raw, end] of rawLines(bytes, first)) {
    if (number % 256 === 0) progress(end / bytes.length);
    if (isBlank(raw)) continue;
    requests += 1;
    if (requests > limits.requests) continue;
    const text = textOf(raw, number, limits, tell);
    if (text === null) continue;
    const line = readLine(text, number, limits, tell);
    if (line === null) continue;
    const say = (code: string, message: string, field: string) => tell({ line: number, custom_id: line.customId, field, code, message });
    const before = seen.get(line.customId);
    if (before !== undefined) say('duplicate_custom_id', `Line ${before} has the same custom_id`, 'custom_id');
    else if (line.customId !== '') seen.set(line.customId, number);
    target ??= line.target;
    if (line.target !== null && line.target !== target) say('mixed_types', 'The lines before are of the other type: a batch is Chat or Embeddings', 'body');
    yield line;
  }
  if (requests === 0) whole('empty_file', 'The file holds no requests');
  if (requests > limits.requests) whole('too_many_tasks', `The file holds ${requests} requests; a batch may hold ${limits.requests}`);
}

/** What a file says by itself, and all that is wrong with it whatever is chosen. */
export function survey(bytes: Uint8Array, limits: FileLimits, progress: (part: number) => void): Survey {
  const problems = new ProblemList();
  const models = new Map<string, number>();
  let target: Target | null = null;
  let requests = 0;
  for (const line of readLines(bytes, limits, problems.tell, progress)) {
    requests += 1;
    target ??= line.target;
    const model = line.model ?? '';
    models.set(model, (models.get(model) ?? 0) + 1);
  }
  return { requests, target, models: [...models], problems: problems.all };
}

function* rawLines(bytes: Uint8Array, from: number): Generator<[number, Uint8Array, number]> {
  let number = 0;
  for (let start = from; start < bytes.length; ) {
    const found = bytes.indexOf(0x0a, start);
    const end = found === -1 ? bytes.length : found;
    number += 1;
    yield [number, bytes.subarray(start, end > start && bytes[end - 1] === 0x0d ? end - 1 : end), end];
    start = end + 1;
  }
}

/** As the gateway sees it: of spaces, tabs and the like alone. */
function isBlank(raw: Uint8Array): boolean {
  return raw.every((byte) => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d));
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(raw: Uint8Array, number: number, limits: FileLimits, tell: Tell): string | null {
  const complain = (code: string, message: string) => tell({ line: number, custom_id: null, field: null, code, message });
  if (raw.length > limits.lineBytes) {
    complain('line_too_long', `The line is longer than ${limits.lineBytes / 1024} KiB`);
    return null;
  }
  try {
    return utf8.decode(raw);
  } catch {
    complain('not_utf8', 'The line is not UTF-8');
    return null;
  }
}
