import { InstructionError } from './actions.js';

/** An element with its attributes; texts and elements in their order. */
export interface XmlElement {
  name: string;
  attributes: { [name: string]: string };
  children: (XmlElement | string)[];
  line: number;
  /** Of an element that another dialect than TwiML has. */
  written?: WrittenAs;
}

/** What is remembered of an element of another dialect. */
export interface WrittenAs {
  name: string;
  /** The document's names of attributes, by those of TwiML. */
  attributes: { [name: string]: string };
  /** Of the platform, by the names of TwiML: what a malformed attribute counts as. */
  defaults: { [name: string]: string };
  /** Attributes without effect. */
  unheeded: string[];
  notes: string[];
  /** `redirect="false"`: the result is sent, and the next element runs. */
  answerIgnored: boolean;
}

const maxDepth = 10;
const maxElements = 1000;
const namedCharacters: { [name: string]: string } = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };
const nameStart = /[A-Za-z_]/;
const nameEnd = /[^A-Za-z0-9_.:-]/g;

/**
 * The root element of a document. Reads what call instructions need: elements, attributes, text, CDATA, comments and character
 * references; a DTD, with it every entity of one's own, is refused. Throws `InstructionError` with the line.
 */
export function parseXml(text: string): XmlElement {
  return new Reader(text.replace(/^\uFEFF/, '')).document();
}

class Reader {
  private at = 0;
  private elements = 0;
  /** Lines begun before `counted`: each character is looked at once. */
  private lines = 1;
  private counted = 0;

  constructor(private readonly text: string) {}

  document(): XmlElement {
    this.misc();
    if (this.text[this.at] !== '<') this.fail('the document must begin with an element');
    const root = this.element(1);
    this.misc();
    if (this.at < this.text.length) this.fail('there is something after the root element');
    return root;
  }

  /** White space, comments and processing instructions between elements. */
  private misc(): void {
    for (;;) {
      while (/\s/.test(this.text[this.at] ?? '')) this.at += 1;
      if (this.looksAt('<?')) this.skipPast('?>', 'a processing instruction');
      else if (this.looksAt('<!--')) this.skipPast('-->', 'a comment');
      else if (this.looksAt('<!')) this.fail('a document type declaration is not allowed');
      else return;
    }
  }

  private element(depth: number): XmlElement {
    const line = this.line();
    if (depth > maxDepth) this.fail('elements are nested too deeply');
    this.elements += 1;
    if (this.elements > maxElements) this.fail('there are too many elements');
    this.at += 1; // <
    const name = this.name();
    const attributes = this.attributes();
    const element: XmlElement = { name, attributes, children: [], line };
    if (this.looksAt('/>')) {
      this.at += 2;
      return element;
    }
    if (!this.looksAt('>')) this.fail(`<${name}> is malformed`);
    this.at += 1;
    this.content(element, depth);
    return element;
  }

  private content(element: XmlElement, depth: number): void {
    let text = '';
    const flush = () => {
      if (text !== '') element.children.push(text);
      text = '';
    };
    for (;;) {
      const next = this.text.indexOf('<', this.at);
      if (next < 0) this.fail(`<${element.name}> is never closed`);
      text += this.characters(this.text.slice(this.at, next));
      this.at = next;
      if (this.looksAt('</')) {
        this.at += 2;
        const name = this.name();
        while (/\s/.test(this.text[this.at] ?? '')) this.at += 1;
        if (name !== element.name || !this.looksAt('>')) this.fail(`</${element.name}> was expected, not </${name}>`);
        this.at += 1;
        flush();
        return;
      }
      if (this.looksAt('<!--')) this.skipPast('-->', 'a comment');
      else if (this.looksAt('<![CDATA[')) {
        const start = this.at + 9;
        this.skipPast(']]>', 'a CDATA section');
        text += this.text.slice(start, this.at - 3);
      } else if (this.looksAt('<?')) this.skipPast('?>', 'a processing instruction');
      else if (this.looksAt('<!')) this.fail('a declaration is not allowed');
      else {
        flush();
        element.children.push(this.element(depth + 1));
      }
    }
  }

  private attributes(): { [name: string]: string } {
    const attributes: { [name: string]: string } = Object.create(null);
    for (;;) {
      const before = this.at;
      while (/\s/.test(this.text[this.at] ?? '')) this.at += 1;
      if (!nameStart.test(this.text[this.at] ?? '')) return attributes;
      if (this.at === before) this.fail('an attribute must follow white space');
      const name = this.name();
      const equals = /^\s*=\s*/.exec(this.text.slice(this.at, this.at + 100));
      this.at += equals?.[0].length ?? 0;
      const quote = this.text[this.at];
      const end = quote === '"' || quote === "'" ? this.text.indexOf(quote, this.at + 1) : -1;
      if (equals === null || end < 0) this.fail(`the value of ${name} must be in quotes`);
      const value = this.text.slice(this.at + 1, end);
      if (value.includes('<')) this.fail(`the value of ${name} contains a "<"`);
      if (name in attributes) this.fail(`${name} is given twice`);
      attributes[name] = this.characters(value);
      this.at = end + 1;
    }
  }

  private name(): string {
    if (!nameStart.test(this.text[this.at] ?? '')) this.fail('a name was expected');
    nameEnd.lastIndex = this.at;
    const end = nameEnd.exec(this.text)?.index ?? this.text.length;
    const name = this.text.slice(this.at, end);
    this.at = end;
    return name;
  }

  /** Text with its references resolved: five names and numbers. */
  private characters(text: string): string {
    if (!text.includes('&')) return text;
    return text.replace(/&([^;&\s]{0,10};?)/g, (_, reference: string) => {
      const known = /^(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|([a-z]+));$/.exec(reference);
      const code = known?.[1] ? Number(known[1]) : known?.[2] ? Number.parseInt(known[2], 16) : null;
      if (code !== null && code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff))
        return String.fromCodePoint(code);
      const named = known?.[3] && Object.hasOwn(namedCharacters, known[3]) ? namedCharacters[known[3]] : undefined;
      return named ?? this.fail(`"&${reference}" is no reference; an ampersand is written &amp;`);
    });
  }

  private looksAt(token: string): boolean {
    return this.text.startsWith(token, this.at);
  }

  private skipPast(token: string, what: string): void {
    const end = this.text.indexOf(token, this.at);
    if (end < 0) this.fail(`${what} is never closed`);
    this.at = end + token.length;
  }

  private line(): number {
    for (; this.counted < this.at; this.counted += 1) if (this.text[this.counted] === '\n') this.lines += 1;
    return this.lines;
  }

  private fail(problem: string): never {
    throw new InstructionError(`line ${this.line()}`, problem);
  }
}
