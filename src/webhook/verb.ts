/** A verb of a TwiML document: its text, its nested elements and its attributes, checked as they are read. */
import { type FollowUp, InstructionError, type StatusCallback } from './instructions.js';
import type { XmlElement } from './xml.js';

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
  throw new InstructionError(`line ${element.line}: <${element.name.slice(0, 50)}>`, problem);
}

/** One verb and its attributes. */
export class Verb {
  private readonly read = new Set<string>();

  constructor(
    readonly element: XmlElement,
    readonly documentUrl: string,
    /** All that were read of one document's verb, nested ones too. */
    private readonly family: Verb[] = [],
  ) {
    family.push(this);
  }

  /** One that stands in it. */
  inside(element: XmlElement): Verb {
    return new Verb(element, this.documentUrl, this.family);
  }

  bad(attribute: string, problem: string): never {
    return fail(this.element, `${attribute} ${problem}`);
  }

  attribute(name: string): string | null {
    this.read.add(name);
    return this.element.attributes[name] ?? null;
  }

  /** What it has, and nobody asked for: it has no effect. A method without its address is none either. */
  get unread(): string[] {
    return Object.keys(this.element.attributes).filter((name) => !this.read.has(name));
  }

  /** Its own text; nested elements have no place in it. */
  text(): string {
    const [nested] = elementsOf(this.element);
    if (nested) fail(nested, `cannot stand in <${this.element.name}>`);
    const text = textOf(this.element);
    return text === '' ? fail(this.element, 'is empty') : text;
  }

  /** Its text and that of nested elements: speech markup is read without its marks. */
  allText(): string {
    const gather = (element: XmlElement): string =>
      element.children.map((child) => (typeof child === 'string' ? child : gather(child))).join('');
    return gather(this.element).replace(/\s+/g, ' ').trim();
  }

  number(name: string, minimum: number, maximum: number, absent: number): number {
    const value = this.attribute(name);
    if (value === null || value.trim() === '') return absent;
    const number = Number(value);
    if (!Number.isFinite(number)) return this.bad(name, 'must be a number');
    return Math.min(maximum, Math.max(minimum, number));
  }

  flag(name: string, absent: boolean): boolean {
    const value = this.attribute(name);
    return value === null ? absent : value.toLowerCase() === 'true';
  }

  word<const T extends string>(name: string, words: readonly [T, ...T[]]): T {
    const value = this.attribute(name) ?? words[0];
    return words.find((word) => word === value) ?? this.bad(name, `must be ${words.join(' or ')}`);
  }

  keys(name: string, absent: string): string {
    const value = this.attribute(name) ?? absent;
    return /^[0-9*#]*$/.test(value) ? value : this.bad(name, 'must be keys of a phone');
  }

  method(name: string): FollowUp['method'] {
    const value = (this.attribute(name) ?? 'POST').toUpperCase();
    return value === 'GET' || value === 'POST' ? value : this.bad(name, 'must be GET or POST');
  }

  followUp(name: string, absent: string, method = 'method'): FollowUp {
    return { url: this.resolve(this.attribute(name) ?? absent), method: this.method(method) };
  }

  /** `name`, `nameMethod` and `nameEvent`; without the last the events are `usual`. */
  statusCallback(name: string, usual: string[]): StatusCallback | null {
    if (this.attribute(name) === null) {
      for (const rest of ['Method', 'Event']) this.read.add(`${name}${rest}`);
      return null;
    }
    const events =
      this.attribute(`${name}Event`)
        ?.trim()
        .split(/[\s,]+/) ?? usual;
    return { to: this.followUp(name, '', `${name}Method`), events };
  }

  resolve(url: string, schemes: readonly string[] = ['http', 'https']): string {
    const wanted = schemes.map((scheme) => `${scheme}:`);
    const trimmed = url.trim();
    if (!URL.canParse(trimmed, this.documentUrl)) return fail(this.element, 'has no valid URL');
    const resolved = new URL(trimmed, this.documentUrl);
    // A relative address of a stream is one of the document's server.
    if (wanted.includes('wss:') && /^https?:$/.test(resolved.protocol) && !/^https?:/i.test(trimmed))
      resolved.protocol = resolved.protocol === 'https:' ? 'wss:' : 'ws:';
    if (!wanted.includes(resolved.protocol)) return fail(this.element, `needs a URL of ${wanted.join(' or ')}`);
    return resolved.href;
  }
}
