/**
 * Parsers for the parts of header field values: comma lists, `;name=value` parameters, addresses, Via, CSeq. Each takes one pass over the
 * text.
 */

export type Parameters = ReadonlyMap<string, string>;

const TOKEN = /^[A-Za-z0-9\-.!%*_+`'~]+$/;

export function isToken(text: string): boolean {
  return TOKEN.test(text);
}

/** Index after the quoted string that opens at `start`; the text's length plus one when it never closes. */
function afterQuoted(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x5c) i++;
    else if (c === 0x22) return i + 1;
  }
  return text.length + 1;
}

/** Splits at a separator outside of quotes and angle brackets; parts are trimmed, empty parts dropped. */
function cut(text: string, separator: number): string[] {
  const parts: string[] = [];
  let from = 0;
  let inAngle = false;
  const take = (to: number) => {
    const part = text.slice(from, to).trim();
    if (part !== '') parts.push(part);
    from = to + 1;
  };
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x22 && !inAngle) i = afterQuoted(text, i) - 1;
    else if (c === 0x3c) inAngle = true;
    else if (c === 0x3e) inAngle = false;
    else if (c === separator && !inAngle) take(i);
  }
  take(text.length);
  return parts;
}

/** True when two separators outside of quotes and brackets have nothing between them (RFC 4475 3.1.2.1). */
export function hasEmptyPart(value: string): boolean {
  if (!/[;,]\s*[;,]/.test(value)) return false;
  let inAngle = false;
  let afterSeparator = false;
  for (let i = 0; i < value.length; i++) {
    const c = value.charCodeAt(i);
    const isSeparator = !inAngle && (c === 0x3b || c === 0x2c);
    if (isSeparator && afterSeparator) return true;
    if (c === 0x22 && !inAngle) i = afterQuoted(value, i) - 1;
    else if (c === 0x3c) inAngle = true;
    else if (c === 0x3e) inAngle = false;
    if (c !== 0x20 && c !== 0x09) afterSeparator = isSeparator;
  }
  return false;
}

/** `a, "b,c" <sip:d,e>` → two values (RFC 3261 7.3.1). */
export function splitList(value: string): string[] {
  return value.indexOf(',') < 0 ? (value.trim() === '' ? [] : [value.trim()]) : cut(value, 0x2c);
}

/** `;a=b;c` → a: "b", c: "". Names in lower case; the first of two equal names counts. */
export function parseParameters(text: string): Map<string, string> {
  const parameters = new Map<string, string>();
  if (text === '') return parameters;
  for (const part of cut(text, 0x3b)) {
    const equals = part.indexOf('=');
    const name = (equals < 0 ? part : part.slice(0, equals)).trim().toLowerCase();
    if (name !== '' && !parameters.has(name)) parameters.set(name, equals < 0 ? '' : part.slice(equals + 1).trim());
  }
  return parameters;
}

/** From, To, Contact, Route, Record-Route, Refer-To (RFC 3261 20.10). */
export interface NameAddr {
  /** With its quotes, as written; empty when absent. */
  display: string;
  uri: string;
  parameters: Parameters;
}

/** Null without a URI, or when a quote or angle bracket stays open. */
export function parseNameAddr(value: string): NameAddr | null {
  const text = value.trim();
  let i = 0;
  while (i < text.length && text.charCodeAt(i) !== 0x3c) {
    if (text.charCodeAt(i) !== 0x22) i++;
    else {
      i = afterQuoted(text, i);
      if (i > text.length) return null;
    }
  }
  if (i === text.length) {
    // addr-spec without brackets: what follows the first `;` are header parameters (RFC 3261 20.10)
    const semicolon = text.indexOf(';');
    const uri = (semicolon < 0 ? text : text.slice(0, semicolon)).trim();
    // 20: a URI with a question mark must be in brackets
    if (uri === '' || /[\s"?]/.test(uri)) return null;
    return {
      display: '',
      uri,
      parameters: semicolon < 0 ? parseParameters('') : parseParameters(text.slice(semicolon)),
    };
  }
  const close = text.indexOf('>', i);
  if (close < 0) return null;
  const uri = text.slice(i + 1, close).trim();
  if (uri === '') return null;
  return { display: text.slice(0, i).trim(), uri, parameters: parseParameters(text.slice(close + 1)) };
}

/** The URI in a Route value or `<uri>`; a bare URI is returned unchanged, including its parameters. */
export function uriOf(text: string): string {
  return text.includes('<') ? (parseNameAddr(text)?.uri ?? text) : text.trim();
}

export interface Via {
  /** Of the protocol: `2.0`. */
  version: string;
  /** In lower case: udp, tcp, tls, ws, wss. */
  transport: string;
  host: string;
  port: number | null;
  parameters: Parameters;
  branch: string;
}

/** The port after a host, 1–65535; null when absent, NaN when invalid. */
function parsePort(text: string | undefined): number | null {
  if (text === undefined || text === '') return null;
  if (!/^\d{1,5}$/.test(text)) return Number.NaN;
  const port = Number(text);
  return port >= 1 && port <= 65535 ? port : Number.NaN;
}

/** `host`, `host:port`, `[v6]:port`. An IPv6 address keeps its brackets. */
export function parseHostPort(text: string): { host: string; port: number | null } | null {
  const trimmed = text.trim();
  let host: string;
  let rest: string;
  if (trimmed.startsWith('[')) {
    const close = trimmed.indexOf(']');
    if (close < 0 || !/^\[[0-9A-Fa-f:.]+\]$/.test(trimmed.slice(0, close + 1))) return null;
    host = trimmed.slice(0, close + 1);
    rest = trimmed.slice(close + 1).trim();
  } else {
    const colon = trimmed.indexOf(':');
    host = (colon < 0 ? trimmed : trimmed.slice(0, colon)).trim();
    rest = colon < 0 ? '' : trimmed.slice(colon);
    if (host === '' || !/^[A-Za-z0-9\-._]+$/.test(host)) return null;
  }
  if (rest !== '' && !rest.startsWith(':')) return null;
  const port = parsePort(rest === '' ? undefined : rest.slice(1).trim());
  return port !== null && Number.isNaN(port) ? null : { host, port };
}

/** One Via value (RFC 3261 20.42). */
export function parseVia(value: string): Via | null {
  const semicolon = value.indexOf(';');
  const head = (semicolon < 0 ? value : value.slice(0, semicolon)).trim();
  const match = /^SIP\s*\/\s*(\d+\.\d+)\s*\/\s*([A-Za-z0-9\-.!%*_+`'~]+)\s+(\S.*)$/i.exec(head);
  if (!match) return null;
  const sentBy = parseHostPort(match[3]!);
  if (!sentBy) return null;
  const parameters = parseParameters(semicolon < 0 ? '' : value.slice(semicolon));
  const [, version = '', transport = ''] = match;
  return { version, transport: transport.toLowerCase(), ...sentBy, parameters, branch: parameters.get('branch') ?? '' };
}

/** Null unless the value is a number below 2^31 (RFC 3261 8.1.1.5) and a method. */
export function parseCSeq(value: string): { number: number; method: string } | null {
  const match = /^(\d{1,10})\s+([A-Za-z0-9\-.!%*_+`'~]+)$/.exec(value);
  if (!match || Number(match[1]) >= 2 ** 31) return null;
  return { number: Number(match[1]), method: match[2]! };
}
