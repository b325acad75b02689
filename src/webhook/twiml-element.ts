/**
 * A verb of a TwiML document: its text, its nested elements and its attributes, checked as they are read. An attribute that cannot be
 * read counts as absent and causes a warning; the call continues.
 */
import { type FollowUp, InstructionError, type StatusCallback } from './actions.js';
import type { XmlElement } from './xml.js';
import { twiml, type XmlDialect } from './xml-dialect.js';

export function elementsOf(element: XmlElement): XmlElement[] {
  return element.children.filter((child) => typeof child !== 'string');
}

export function textOf(element: XmlElement): string {
  return element.children
    .filter((child) => typeof child === 'string')
    .join('')
    .trim();
}

export function fail(element: XmlElement, problem: string): never {
  throw new InstructionError(placeOf(element), problem);
}

/** As the document has it. */
export function writtenName({ name, written }: XmlElement): string {
  return (written?.name ?? name).slice(0, 50);
}

function placeOf(element: XmlElement): string {
  return `line ${element.line}: <${writtenName(element)}>`;
}

/** The warnings about one verb of a document, nested elements included. */
class Reading {
  readonly verbs: Verb[] = [];
  readonly notes: string[] = [];
}

/** One element and its attributes. */
export class Verb {
  private readonly read = new Set<string>();

  constructor(
    readonly element: XmlElement,
    readonly documentUrl: string,
    readonly dialect: XmlDialect = twiml,
    private readonly reading = new Reading(),
  ) {
    reading.verbs.push(this);
    reading.notes.push(...(element.written?.notes ?? []));
  }

  /** A nested element. */
  inside(element: XmlElement): Verb {
    return new Verb(element, this.documentUrl, this.dialect, this.reading);
  }

  /** Reads each nested element. One that cannot be read is skipped, with a warning. */
  each<T>(elements: readonly XmlElement[], read: (nested: Verb) => T): T[] {
    return elements.flatMap((element) => {
      try {
        return [read(this.inside(element))];
      } catch (error) {
        this.leftOut(error);
        return [];
      }
    });
  }

  /** Records the warning for an element that could not be read; rethrows any other error. */
  leftOut(error: unknown): void {
    if (!(error instanceof InstructionError)) throw error;
    this.reading.notes.push(`${error.message}; it is left out`);
  }

  note(problem: string): void {
    this.reading.notes.push(`${placeOf(this.element)}: ${problem}`);
  }

  /** Warnings, as sentences, about what has no effect or another effect than requested; unknown attributes are among them. */
  get warnings(): string[] {
    const unread = this.reading.verbs.flatMap(({ element, read }) =>
      Object.keys(element.attributes)
        .filter((name) => !read.has(name))
        .map((name) => element.written?.attributes[name] ?? name)
        .concat(element.written?.unheeded ?? [])
        .map((name) => `line ${element.line}: ${name} of <${writtenName(element)}> has no effect`),
    );
    return [...unread, ...this.reading.notes];
  }

  attribute(name: string): string | null {
    this.read.add(name);
    return this.element.attributes[name] ?? null;
  }

  /** The element's own text; nested elements are not allowed. */
  text(): string {
    for (const nested of elementsOf(this.element)) this.note(`<${writtenName(nested)}> cannot stand in it`);
    const text = textOf(this.element);
    return text === '' ? fail(this.element, 'is empty') : text;
  }

  /** A number beyond the limits becomes the nearest limit. */
  number<T extends number | null>(name: string, minimum: number, maximum: number, absent: T): number | T {
    const value = this.attribute(name);
    if (value === null || value.trim() === '') return absent;
    const number = Number(value);
    const allowed = `${this.written(name)} must be a number from ${minimum} to ${maximum}`;
    const usual = this.element.written?.defaults[name];
    if (!Number.isFinite(number)) return this.instead(usual === undefined ? absent : Number(usual), allowed);
    const within = Math.min(maximum, Math.max(minimum, number));
    return within === number ? number : this.instead(within, allowed);
  }

  flag(name: string, absent: boolean): boolean {
    const value = this.attribute(name);
    return value === null ? absent : value.toLowerCase() === 'true';
  }

  word<const T extends string>(name: string, words: readonly [T, ...T[]]): T {
    const value = this.attribute(name) ?? words[0];
    return (
      words.find((word) => word === value) ??
      this.instead(words[0], `${this.written(name)} must be ${words.join(' or ')}`)
    );
  }

  keys(name: string, absent: string): string {
    const value = this.attribute(name) ?? absent;
    if (/^[0-9*#]*$/.test(value)) return value;
    const usual = this.element.written?.defaults[name] ?? absent;
    return this.instead(usual, `${this.written(name)} must be keys of a phone (0-9 * #)`);
  }

  /** null: absent or malformed. */
  matching(name: string, form: RegExp, allowed: string): string | null {
    const value = this.attribute(name);
    return value === null || form.test(value) ? value : this.instead(null, `${this.written(name)} must be ${allowed}`);
  }

  method(name: string): FollowUp['method'] {
    const value = (this.attribute(name) ?? 'POST').toUpperCase();
    return value === 'GET' || value === 'POST'
      ? value
      : this.instead('POST', `${this.written(name)} must be GET or POST`);
  }

  /** null: absent, or not a URL. */
  optionalFollowUp(name: string, method = 'method'): FollowUp | null {
    const value = this.attribute(name);
    if (value === null) return null;
    const isIgnored = name === 'action' && this.element.written?.answerIgnored === true;
    const to = { url: value, method: this.method(method), ...(isIgnored && { answerIgnored: true as const }) };
    try {
      return { ...to, url: this.resolve(value) };
    } catch (error) {
      if (!(error instanceof InstructionError)) throw error;
      return this.instead(null, `${this.written(name)} ${error.problem}`);
    }
  }

  /** As `optionalFollowUp`; absent, in TwiML: the URL of the document itself. */
  followUp(name: string): FollowUp | null {
    const given = this.optionalFollowUp(name);
    if (given !== null || this.dialect.actionWhenAbsent === 'nobody') return given;
    return { url: this.resolve(''), method: this.method('method') };
  }

  /** `name`, `nameMethod` and `nameEvent`; without the last the events are `usual`. */
  statusCallback(name: string, usual: string[]): StatusCallback | null {
    const to = this.optionalFollowUp(name, `${name}Method`);
    for (const rest of ['Method', 'Event']) this.read.add(`${name}${rest}`);
    const events = this.attribute(`${name}Event`)
      ?.trim()
      .split(/[\s,]+/);
    return to === null ? null : { to, events: events ?? usual };
  }

  resolve(url: string, schemes: readonly string[] = ['http', 'https']): string {
    const wanted = schemes.map((scheme) => `${scheme}:`);
    const trimmed = url.trim();
    if (!URL.canParse(trimmed, this.documentUrl)) return fail(this.element, 'has no valid URL');
    const resolved = new URL(trimmed, this.documentUrl);
    // A relative URL of a stream is resolved against the document's server.
    if (wanted.includes('wss:') && /^https?:$/.test(resolved.protocol) && !/^https?:/i.test(trimmed))
      resolved.protocol = resolved.protocol === 'https:' ? 'wss:' : 'ws:';
    if (!wanted.includes(resolved.protocol)) return fail(this.element, `needs a URL of ${wanted.join(' or ')}`);
    return resolved.href;
  }

  /** The name of an attribute in the document. */
  private written(name: string): string {
    return this.element.written?.attributes[name] ?? name;
  }

  private instead<T>(used: T, problem: string): T {
    this.note(`${problem}; ${used === null ? 'it counts as absent' : `"${String(used)}" is used`}`);
    return used;
  }
}
