/** One line of a file: what it says and what is wrong with it, whatever will be chosen for the batch. */
import { JsonFault, type Node, type ObjectNode, readJson } from './json';
import { type FileLimits, type Problem, type Target, URLS } from './types';

export interface Line {
  number: number;
  text: string;
  root: ObjectNode;
  body: ObjectNode;
  customId: string;
  /** Null when neither its url nor its body says. */
  target: Target | null;
  model: string | null;
}

export type Tell = (problem: Problem) => void;

const MEMBERS = new Set(['custom_id', 'method', 'url', 'body']);
const NOT_FORWARDED: Record<string, string> = {
  max_completion_tokens: 'Rename it to max_tokens',
  user: 'Take it away: who asks is known by the key',
};

/** The request of a line, or null when it cannot be read; every problem is told. */
export function readLine(text: string, number: number, limits: FileLimits, tell: Tell): Line | null {
  const complain = (code: string, message: string, field: string | null = null, customId: string | null = null) =>
    tell({ line: number, custom_id: customId, field, code, message });
  const root = readObject(text, complain);
  if (root === null) return null;
  const customId = stringOf(root.members.get('custom_id'));
  const say = (code: string, message: string, field: string) => complain(code, message, field, customId);
  checkMembers(root, customId, limits, say);
  const body = root.members.get('body');
  if (body?.kind !== 'object') {
    say('invalid_request', 'Required: an object', 'body');
    return null;
  }
  for (const [field, advice] of Object.entries(NOT_FORWARDED))
    if (body.members.has(field)) say('field_not_forwarded', `${advice}; the gateway does not forward this field`, `body.${field}`);
  const model = body.members.get('model');
  if (model !== undefined && model.kind !== 'string') say('invalid_request', 'Must be a string', 'body.model');
  return { number, text, root, body, customId: customId ?? '', target: targetOf(root, body, say), model: stringOf(model) };
}

type Say = (code: string, message: string, field: string) => void;

function readObject(text: string, complain: (code: string, message: string, field?: string | null, customId?: string | null) => void): ObjectNode | null {
  try {
    const { root, repeated } = readJson(text);
    if (root.kind !== 'object') {
      complain('invalid_json_line', 'A line must be a JSON object');
      return null;
    }
    for (const path of repeated) complain('repeated_key', 'The key stands in its object more than once', path, stringOf(root.members.get('custom_id')));
    return root;
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    complain(error.code, error.message, error.path, guessedId(text));
    return null;
  }
}

const NAMED = /"custom_id"\s*:\s*"([^"\\]{1,512})"/;

/** Of a line that cannot be read, so that it can be found. */
function guessedId(text: string): string | null {
  return NAMED.exec(text)?.[1] ?? null;
}

function checkMembers(root: ObjectNode, customId: string | null, limits: FileLimits, say: Say): void {
  if (customId === null || customId === '' || [...customId].length > limits.customId || customId.includes('\0'))
    say('invalid_request', `Required: a string of 1 to ${limits.customId} characters`, 'custom_id');
  const method = root.members.get('method');
  if (method !== undefined && stringOf(method) !== 'POST') say('invalid_request', 'Must be POST, or be left out', 'method');
  for (const name of root.members.keys())
    if (!MEMBERS.has(name)) say('field_not_forwarded', 'A line holds custom_id, method, url and body; nothing else is forwarded', name);
}

/** What a line is for, by its url, else by its body. */
function targetOf(root: ObjectNode, body: ObjectNode, say: Say): Target | null {
  const chat = body.members.has('messages');
  const embeddings = body.members.has('input');
  const url = root.members.get('url');
  if (url === undefined) return chat === embeddings ? null : chat ? 'chat' : 'embeddings';
  const named = (Object.keys(URLS) as Target[]).find((target) => URLS[target] === stringOf(url));
  if (named === undefined) {
    say('url_mismatch', `Must be ${URLS.chat} or ${URLS.embeddings}, or be left out`, 'url');
    return null;
  }
  const contradicted = named === 'chat' ? embeddings && !chat : chat && !embeddings;
  if (contradicted) say('url_mismatch', `The body is one for ${URLS[named === 'chat' ? 'embeddings' : 'chat']}`, 'url');
  return named;
}

function stringOf(node: Node | undefined): string | null {
  return node?.kind === 'string' ? node.value : null;
}
