/**
 * One SIP message (RFC 3261 7). Header text is held as latin1, one character per byte, so that text we pass on or send back keeps its exact
 * bytes, UTF-8 or not; the body is bytes.
 */
import { compactNames } from './compact-names.js';
import { type NameAddr, parseCSeq, parseNameAddr, parseVia, splitList, type Via } from './fields.js';

export interface Header {
  /** In lower case, compact forms expanded. */
  name: string;
  /** Unfolded and trimmed. */
  value: string;
  /** The name as written. */
  written?: string;
}

abstract class Message {
  private cache: Map<string, unknown> | null = null;

  constructor(
    readonly startLine: string,
    readonly headers: readonly Header[],
    readonly body: Buffer,
    /** The bytes as received, header section and body. */
    readonly raw: Buffer,
    /** The error in the header section; null when there is none. */
    readonly problem: string | null,
  ) {}

  /** The first header field with this lower-case name. */
  get(name: string): string | undefined {
    for (const header of this.headers) if (header.name === name) return header.value;
    return undefined;
  }

  count(name: string): number {
    let count = 0;
    for (const header of this.headers) if (header.name === name) count++;
    return count;
  }

  /** All values of a header field that may be a comma list. */
  list(name: string): string[] {
    return this.once(`list ${name}`, () => {
      const values: string[] = [];
      for (const header of this.headers)
        if (header.name === name) for (const v of splitList(header.value)) values.push(v);
      return values;
    });
  }

  /** True when a list of option tags or methods contains this one, ignoring case. */
  lists(name: string, item: string): boolean {
    return this.list(name).some((value) => value.toLowerCase() === item.toLowerCase());
  }

  get callId(): string {
    return this.get('call-id') ?? '';
  }
  get topVia(): Via | null {
    return this.once('via', () => {
      const value = this.list('via')[0];
      return value === undefined ? null : parseVia(value);
    });
  }
  get from(): NameAddr | null {
    return this.address('from');
  }
  get to(): NameAddr | null {
    return this.address('to');
  }
  get fromTag(): string {
    return this.from?.parameters.get('tag') ?? '';
  }
  get toTag(): string {
    return this.to?.parameters.get('tag') ?? '';
  }
  get cseq(): { number: number; method: string } | null {
    return this.once('cseq', () => parseCSeq(this.get('cseq') ?? ''));
  }
  /** The first Contact with an address; null without one and for `*`. */
  get contact(): NameAddr | null {
    return this.once('contact', () => {
      const value = this.list('contact')[0];
      return value === undefined || value === '*' ? null : parseNameAddr(value);
    });
  }

  private address(name: 'from' | 'to'): NameAddr | null {
    return this.once(name, () => {
      const value = this.get(name);
      return value === undefined ? null : parseNameAddr(value);
    });
  }

  private once<T>(key: string, make: () => T): T {
    this.cache ??= new Map();
    if (!this.cache.has(key)) this.cache.set(key, make());
    return this.cache.get(key) as T;
  }
}

export class SipRequest extends Message {
  readonly kind = 'request';
  constructor(
    readonly method: string,
    readonly uri: string,
    readonly version: string,
    ...rest: ConstructorParameters<typeof Message>
  ) {
    super(...rest);
  }
}

export class SipResponse extends Message {
  readonly kind = 'response';
  constructor(
    readonly status: number,
    readonly reason: string,
    ...rest: ConstructorParameters<typeof Message>
  ) {
    super(...rest);
  }
}

export type SipMessage = SipRequest | SipResponse;

const REQUEST_LINE = /^([A-Za-z0-9\-.!%*_+`'~]+) (\S+) (SIP\/\d+\.\d+)$/i;
/** A start line with another protocol version. */
const OTHER_VERSION = /^([A-Za-z0-9\-.!%*_+`'~]+) (\S+) (\S+)$/;
const STATUS_LINE = /^SIP\/2\.0 ([1-6]\d\d)(?: ([^\r\n]*))?$/i;

export interface ParseOptions {
  /** Everything after the blank line is body, whatever Content-Length says (control protocol). */
  bodyIsRest?: boolean;
}

/**
 * Never throws. Null when the first line is neither a request line nor a status line. From the network (not `bodyIsRest`) a broken request
 * line gives a request with a `problem`, which can be refused if its Via can be read. A broken status line gives null: a response needs no
 * answer.
 */
export function parseMessage(bytes: Buffer, options: ParseOptions = {}): SipMessage | null {
  let start = 0;
  // RFC 3261 7.5: empty lines before the start line are ignored
  while (start + 1 < bytes.length && bytes[start] === 13 && bytes[start + 1] === 10) start += 2;
  const blank = bytes.indexOf('\r\n\r\n', start, 'latin1');
  const headEnd = blank < 0 ? bytes.length : blank;
  const head = bytes.toString('latin1', start, headEnd);
  const lineEnd = head.indexOf('\r\n');
  const startLine = lineEnd < 0 ? head : head.slice(0, lineEnd);
  if (startLine.length > 16_384) return null;
  const status = STATUS_LINE.exec(startLine);
  const line = status ? null : requestLine(startLine, options.bodyIsRest === true);
  if (!line && !status) return null;

  const headers: Header[] = [];
  let problem: string | null = line?.problem ?? (blank < 0 ? 'The header section has no end' : null);
  const invalid = readHeaders(head, lineEnd < 0 ? head.length : lineEnd + 2, headers);
  problem ??= invalid;

  let bodyStart = blank < 0 ? bytes.length : blank + 4;
  let bodyEnd = bytes.length;
  if (bodyStart > bodyEnd) bodyStart = bodyEnd;
  if (!options.bodyIsRest) {
    const length = contentLength(headers);
    if (length === 'invalid') problem ??= 'Content-Length is not a number';
    else if (length !== null && length > bodyEnd - bodyStart) problem ??= 'Content-Length is larger than the message';
    else if (length !== null) bodyEnd = bodyStart + length;
  }
  const body = bytes.subarray(bodyStart, bodyEnd);
  const raw = bytes.subarray(start, bodyEnd);
  return line
    ? new SipRequest(line.method, line.uri, line.version, startLine, headers, body, raw, problem)
    : new SipResponse(Number(status![1]), status![2] ?? '', startLine, headers, body, raw, problem);
}

interface RequestLine {
  method: string;
  uri: string;
  version: string;
  problem: string | null;
}

function requestLine(text: string, strict: boolean): RequestLine | null {
  const parts = REQUEST_LINE.exec(text) ?? (strict ? null : OTHER_VERSION.exec(text));
  if (parts) return { method: parts[1]!, uri: parts[2]!, version: parts[3]!.toUpperCase(), problem: null };
  if (strict || text.trim() === '' || /^\s*SIP\s*\//i.test(text)) return null;
  const method = /^\s*([A-Za-z0-9\-.!%*_+`'~]+)(?=\s|$)/.exec(text)?.[1] ?? '';
  return { method, uri: '', version: 'SIP/2.0', problem: 'The request line is malformed' };
}

/** Reads header fields from `start`; returns the error of the first bad line, which is left out. */
function readHeaders(head: string, start: number, headers: Header[]): string | null {
  let problem: string | null = null;
  let i = start;
  while (i < head.length) {
    let end = head.indexOf('\r\n', i);
    if (end < 0) end = head.length;
    let folded = false;
    // RFC 3261 7.3.1: a line that begins with white space continues the one before
    while (end < head.length && isBlank(head.charCodeAt(end + 2))) {
      folded = true;
      end = head.indexOf('\r\n', end + 2);
      if (end < 0) end = head.length;
    }
    const colon = head.indexOf(':', i);
    const written = colon < 0 || colon > end ? '' : head.slice(i, colon).trimEnd();
    const name = written.toLowerCase();
    if (name === '' || !/^[a-z0-9\-.!%*_+`'~]+$/.test(name)) problem ??= 'A header line is malformed';
    else {
      let value = head.slice(colon + 1, end);
      if (folded) value = value.replace(/\r\n[ \t]+/g, ' ');
      value = value.trim();
      if (/[\r\n\0]/.test(value) && !isQuotedPairOnly(value)) problem ??= 'A header field has a control character';
      headers.push({ name: compactNames[name] ?? name, value, written });
    }
    i = end + 2;
  }
  return problem;
}

/** True when each NUL is the second half of a quoted pair in a quoted string, where it is legal (RFC 3261 25.1); CR and LF never are. */
function isQuotedPairOnly(value: string): boolean {
  let isInQuotes = false;
  for (let i = 0; i < value.length; i++) {
    let c = value.charCodeAt(i);
    const isPair = isInQuotes && c === 0x5c;
    if (isPair) c = value.charCodeAt(++i);
    if (c === 0x0d || c === 0x0a || (c === 0 && !isPair)) return false;
    if (c === 0x22 && !isPair) isInQuotes = !isInQuotes;
  }
  return !isInQuotes;
}

function isBlank(c: number): boolean {
  return c === 0x20 || c === 0x09;
}

/** Null when absent; two different values are invalid. */
export function contentLength(headers: readonly Header[]): number | null | 'invalid' {
  let length: number | null = null;
  for (const header of headers) {
    if (header.name !== 'content-length') continue;
    if (!/^\d{1,9}$/.test(header.value)) return 'invalid';
    if (length !== null && length !== Number(header.value)) return 'invalid';
    length = Number(header.value);
  }
  return length;
}
