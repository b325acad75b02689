/** The options of one action of an NCCO: checked as they are read, and those that were not read have no effect. */
import { type FollowUp, InstructionError } from '../actions.js';
import type { DocumentPlace } from './dialect.js';

type JsonFields = { [name: string]: unknown };

function isObject(value: unknown): value is JsonFields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export class NccoOptions {
  readonly #options: JsonFields;
  readonly #read = new Set<string>();
  readonly #nested: NccoOptions[] = [];
  readonly #notes: string[] = [];

  constructor(
    options: unknown,
    private readonly place: string,
    readonly where: DocumentPlace,
  ) {
    if (!isObject(options)) throw new InstructionError(place, 'must be an object');
    this.#options = options;
  }

  fail(name: string, problem: string): never {
    throw new InstructionError(`${this.place}.${name}`, problem);
  }

  note(name: string, problem: string): void {
    this.#notes.push(`${this.place}.${name}: ${problem}`);
  }

  /** Sentences about what has no effect. */
  warnings(): string[] {
    const unread = Object.keys(this.#options).filter((name) => !this.#read.has(name));
    return [
      ...unread.map((name) => `${this.place}.${name.slice(0, 50)} has no effect`),
      ...this.#notes,
      ...this.#nested.flatMap((nested) => nested.warnings()),
    ];
  }

  has(name: string): boolean {
    return this.value(name) !== undefined;
  }

  get isGiven(): boolean {
    return Object.keys(this.#options).length > 0;
  }

  value(name: string): unknown {
    this.#read.add(name);
    return Object.hasOwn(this.#options, name) ? (this.#options[name] ?? undefined) : undefined;
  }

  /** Absent: an object without options. */
  inside(name: string): NccoOptions {
    const value = this.value(name);
    return this.nested(isObject(value) ? value : {}, name);
  }

  nested(value: unknown, name: string): NccoOptions {
    const nested = new NccoOptions(value, `${this.place}.${name}`, this.where);
    this.#nested.push(nested);
    return nested;
  }

  text(name: string): string | null {
    const value = this.value(name);
    if (value === undefined) return null;
    return typeof value === 'string' && value !== '' ? value : this.fail(name, 'must be a text');
  }

  /** null: absent or malformed. */
  matching(name: string, form: RegExp): string | null {
    const value = this.text(name);
    if (value === null || form.test(value)) return value;
    this.note(name, 'is malformed and counts as absent');
    return null;
  }

  /** A number beyond the limits becomes the nearest limit; SDKs write some of them as texts. */
  number(name: string, minimum: number, maximum: number, absent: number): number {
    const value = this.value(name);
    if (value === undefined) return absent;
    const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
    if (typeof number !== 'number' || !Number.isFinite(number)) {
      this.note(name, `must be a number from ${minimum} to ${maximum}; ${absent} is used`);
      return absent;
    }
    const within = Math.min(maximum, Math.max(minimum, number));
    if (within !== number) this.note(name, `must be a number from ${minimum} to ${maximum}; ${within} is used`);
    return within;
  }

  flag(name: string, absent: boolean): boolean {
    const value = this.value(name);
    return value === undefined ? absent : value === true || value === 'true';
  }

  list(name: string): unknown[] {
    const value = this.value(name);
    return value === undefined ? [] : Array.isArray(value) ? value : [value];
  }

  texts(name: string): string[] {
    return this.list(name).filter((each) => typeof each === 'string');
  }

  /** An object of texts; other values as JSON. */
  texted(name: string): { [name: string]: string } {
    const value = this.value(name);
    if (value === undefined) return {};
    if (!isObject(value)) return this.fail(name, 'must be an object');
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, typeof each === 'string' ? each : JSON.stringify(each)]),
    );
  }

  /** URLs stand in lists of one. */
  address(name: string, schemes: readonly string[] = ['http', 'https']): string | null {
    const [value] = this.list(name);
    if (value === undefined) return null;
    if (typeof value !== 'string' || !URL.canParse(value, this.where.url)) return this.fail(name, 'is not a URL');
    const url = new URL(value, this.where.url);
    if (!schemes.includes(url.protocol.slice(0, -1)))
      return this.fail(name, `must be a URL of ${schemes.map((scheme) => `${scheme}:`).join(' or ')}`);
    return url.href;
  }

  method(name: string): FollowUp['method'] {
    const value = (this.text(name) ?? 'POST').toUpperCase();
    return value === 'GET' ? 'GET' : 'POST';
  }
}
