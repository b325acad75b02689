/**
 * Reads header fields from the text of a message: folded lines, compact names, repeated fields, quoted strings. Tolerant: a value that
 * cannot be parsed gives null, never an exception.
 */

import { compactNames } from '../server/message/compact-names.js';

/** Header fields by lower-case name; the lines of a repeated field stay separate (digest challenges cannot be split at commas). */
export type HeaderLines = ReadonlyMap<string, readonly string[]>;

/** The header lines of a whole message. */
export function readHeaders(message: string): HeaderLines {
  const end = message.indexOf('\r\n\r\n');
  const lines = (end < 0 ? message : message.slice(0, end)).split(/\r\n(?![ \t])/);
  const headers = new Map<string, string[]>();
  for (let i = 1; i < lines.length; i++) {
    const line = lines[i] ?? '';
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const written = line.slice(0, colon).trim().toLowerCase();
    const name = compactNames[written] ?? written;
    const value = line
      .slice(colon + 1)
      .replace(/\r\n[ \t]+/g, ' ')
      .trim();
    const known = headers.get(name);
    if (known) known.push(value);
    else headers.set(name, [value]);
  }
  return headers;
}

/** The elements of a list field, split at commas outside of quotes and angle brackets. */
export function listElements(lines: readonly string[] | undefined): string[] {
  const elements: string[] = [];
  for (const line of lines ?? []) {
    let start = 0;
    let quoted = false;
    let angle = false;
    for (let i = 0; i <= line.length; i++) {
      const c = line[i];
      if (quoted) {
        if (c === '\\') i++;
        else if (c === '"') quoted = false;
      } else if (c === '"') quoted = true;
      else if (c === '<') angle = true;
      else if (c === '>') angle = false;
      if (c === undefined || (c === ',' && !quoted && !angle)) {
        const element = line.slice(start, i).trim();
        if (element) elements.push(element);
        start = i + 1;
      }
    }
  }
  return elements;
}

/** True when a list of tokens (`Supported`, `Require`) contains this one. */
export function hasToken(lines: readonly string[] | undefined, token: string): boolean {
  return listElements(lines).some((element) => element.toLowerCase() === token);
}

export interface NameAddress {
  displayName: string | null;
  uri: string;
  /** Header parameters, names in lower case, quotes removed. */
  params: Readonly<Record<string, string>>;
}

/** `"Display" <uri>;params` or `uri;params` (RFC 3261 20.10: without brackets all parameters belong to the header). */
export function nameAddress(value: string | undefined): NameAddress | null {
  if (!value) return null;
  const text = value.trim();
  const open = indexOutsideQuotes(text, '<');
  if (open >= 0) {
    const close = text.indexOf('>', open);
    if (close < 0) return null;
    const uri = text.slice(open + 1, close).trim();
    return uri
      ? { displayName: unquote(text.slice(0, open).trim()), uri, params: parameters(text.slice(close + 1)) }
      : null;
  }
  const semicolon = text.indexOf(';');
  const uri = (semicolon < 0 ? text : text.slice(0, semicolon)).trim();
  if (!uri || /[\s"]/.test(uri)) return null;
  return { displayName: null, uri, params: semicolon < 0 ? {} : parameters(text.slice(semicolon)) };
}

/** `;name=value;flag` as a record; a flag has an empty value. */
export function parameters(text: string): Record<string, string> {
  const found: Record<string, string> = Object.create(null);
  for (const match of text.matchAll(/;\s*([^\s;=,]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s;,]*))?/g)) {
    const name = (match[1] ?? '').toLowerCase();
    if (!(name in found)) found[name] = unquote(match[2] ?? '') ?? '';
  }
  return found;
}

export interface ReasonValue {
  protocol: string;
  cause?: number;
  text?: string;
}

/** The values of a `Reason` field (RFC 3326). */
export function reasons(lines: readonly string[] | undefined): ReasonValue[] {
  return listElements(lines).map((element) => {
    const semicolon = element.indexOf(';');
    const params = semicolon < 0 ? {} : parameters(element.slice(semicolon));
    const cause = Number.parseInt(params.cause ?? '', 10);
    return {
      protocol: (semicolon < 0 ? element : element.slice(0, semicolon)).trim().toUpperCase(),
      ...(Number.isFinite(cause) ? { cause } : {}),
      ...(params.text ? { text: params.text } : {}),
    };
  });
}

/** A quoted string for a header field: control characters removed, quotes escaped. */
export function quotedText(text: string): string {
  return `"${lineText(text).replace(/[\\"]/g, '\\$&')}"`;
}

/** Text without control characters, so that it cannot break out of its header line. */
export function lineText(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must go
  return text.replace(/[\x00-\x1f\x7f]+/g, ' ').trim();
}

function unquote(text: string): string | null {
  if (!text) return null;
  if (text.startsWith('"') && text.endsWith('"') && text.length >= 2) {
    return text.slice(1, -1).replace(/\\(.)/g, '$1') || null;
  }
  return text;
}

function indexOutsideQuotes(text: string, wanted: string): number {
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c === '\\') i++;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === wanted) return i;
  }
  return -1;
}
