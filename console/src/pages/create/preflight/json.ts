/**
 * JSON read strictly, with the place of every value: what JSON.parse forgives or hides is a fault here, which names a
 * place and never the content. Keys that are repeated within an object are gathered, the rest throws JsonFault.
 */

interface Span {
  start: number;
  end: number;
}
export type ObjectNode = Span & { kind: 'object'; members: Map<string, Node> };
export type Node =
  | ObjectNode
  | (Span & { kind: 'array'; items: Node[] })
  | (Span & { kind: 'string'; value: string })
  | (Span & { kind: 'number' | 'true' | 'false' | 'null' });

export class JsonFault extends Error {
  constructor(
    readonly code: 'invalid_json_line' | 'not_finite',
    message: string,
    readonly path: string | null = null,
  ) {
    super(message);
  }
}

const MAX_DEPTH = 400;
const SPACE = /[ \t\n\r]*/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;
const NOT_FINITE = /-?(?:NaN|Infinity)/y;

export interface Document {
  root: Node;
  /** Paths of the keys that occur more than once in their object. */
  repeated: string[];
}

/** The one value that a text holds. */
export function readJson(text: string): Document {
  const reader = new Reader(text);
  const root = reader.whole();
  return { root, repeated: reader.repeated };
}

class Reader {
  readonly repeated: string[] = [];
  private at = 0;
  private readonly path: (string | number)[] = [];

  constructor(private readonly text: string) {}

  whole(): Node {
    const root = this.value();
    this.skip(SPACE);
    if (this.at < this.text.length) throw this.fault('there is more after the end of the value');
    return root;
  }

  private value(): Node {
    this.skip(SPACE);
    const start = this.at;
    const first = this.text[start];
    if (first === '{') return this.object(start);
    if (first === '[') return this.array(start);
    if (first === '"') {
      const value = this.string();
      return { kind: 'string', value, start, end: this.at };
    }
    if (this.skip(WORD)) return { kind: this.text.slice(start, this.at) as 'true' | 'false' | 'null', start, end: this.at };
    return this.number(start);
  }

  private number(start: number): Node {
    if (this.skip(NOT_FINITE)) throw new JsonFault('not_finite', 'NaN and Infinity are no JSON numbers', this.where());
    if (!this.skip(NUMBER)) throw this.fault(start >= this.text.length ? 'the line ends too early' : 'a value was expected');
    if (!Number.isFinite(Number(this.text.slice(start, this.at))))
      throw new JsonFault('not_finite', 'The number is too large to be finite', this.where());
    return { kind: 'number', start, end: this.at };
  }

  private object(start: number): Node {
    const members = new Map<string, Node>();
    this.enter();
    this.skip(SPACE);
    while (this.text[this.at] !== '}') {
      if (members.size > 0) this.expect(',');
      this.skip(SPACE);
      if (this.text[this.at] !== '"') throw this.fault('a key in double quotes was expected');
      const key = this.string();
      this.path.push(key);
      if (members.has(key)) this.repeated.push(this.where());
      this.skip(SPACE);
      this.expect(':');
      members.set(key, this.value());
      this.path.pop();
      this.skip(SPACE);
    }
    this.at += 1;
    return { kind: 'object', members, start, end: this.at };
  }

  private array(start: number): Node {
    const items: Node[] = [];
    this.enter();
    this.skip(SPACE);
    while (this.text[this.at] !== ']') {
      if (items.length > 0) this.expect(',');
      this.path.push(items.length);
      items.push(this.value());
      this.path.pop();
      this.skip(SPACE);
    }
    this.at += 1;
    return { kind: 'array', items, start, end: this.at };
  }

  private string(): string {
    const start = this.at;
    let escaped = false;
    this.at += 1;
    for (;;) {
      this.skip(PLAIN);
      if (this.text[this.at] === '"') break;
      if (!this.skip(ESCAPE)) throw this.fault('a string has a bad escape or does not end');
      escaped = true;
    }
    this.at += 1;
    const inner = this.text.slice(start + 1, this.at - 1);
    return escaped ? (JSON.parse(`"${inner}"`) as string) : inner;
  }

  private enter(): void {
    if (this.path.length > MAX_DEPTH) throw this.fault('it is nested too deeply');
    this.at += 1;
  }

  private expect(sign: string): void {
    if (this.text[this.at] !== sign) throw this.fault(`“${sign}” was expected`);
    this.at += 1;
  }

  private skip(pattern: RegExp): boolean {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) return false;
    this.at += found[0].length;
    return found[0].length > 0;
  }

  private where(): string {
    return this.path.reduce<string>(
      (words, step) => (typeof step === 'number' ? `${words}[${step}]` : words === '' ? step : `${words}.${step}`),
      '',
    );
  }

  private fault(what: string): JsonFault {
    return new JsonFault('invalid_json_line', `Not valid JSON: ${what} (character ${this.at + 1})`, this.where() || null);
  }
}
