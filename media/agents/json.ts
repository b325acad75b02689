/** Reads JSON from untrusted sources: never throws and assumes no shape. */

export type JsonObject = { readonly [key: string]: unknown };

/** A shorter message cannot contain enough brackets to be slow. */
const NESTING_CHECK_CHARS = 16 * 1024;
const MAX_BRACKETS = 1000;

/**
 * The object in `text`, or null for anything else. A `__proto__` key stays an ordinary property, as `JSON.parse` makes it. Large valid messages
 * are base64 with a few brackets; parsing a large one full of brackets would hold up every call of the thread.
 */
export function parseObject(text: string): JsonObject | null {
  if (text.length > NESTING_CHECK_CHARS && hasManyBrackets(text)) return null;
  try {
    const value: unknown = JSON.parse(text);
    return asObject(value);
  } catch {
    return null;
  }
}

export function asObject(value: unknown): JsonObject | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
}

/** A string of at most `maxChars`, else null. */
export function asText(value: unknown, maxChars: number): string | null {
  return typeof value === 'string' && value.length <= maxChars ? value : null;
}

/** The bytes of a base64 text, or null when it contains another character (Node would skip it silently). */
export function base64Bytes(text: string): Uint8Array | null {
  const bytes = Buffer.from(text, 'base64');
  if (isBase64(text, bytes)) return bytes;
  const joined = text.replace(/\s+/g, ''); // MIME breaks lines
  return joined !== text && isBase64(joined, bytes) ? bytes : null;
}

function isBase64(text: string, bytes: Uint8Array): boolean {
  let chars = text.length;
  if (text.endsWith('==')) chars -= 2;
  else if (text.endsWith('=')) chars -= 1;
  return bytes.length === (chars * 3) >>> 2 && chars % 4 !== 1;
}

function hasManyBrackets(text: string): boolean {
  let count = 0;
  for (const bracket of ['[', '{']) {
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1)) {
      count += 1;
      if (count > MAX_BRACKETS) return true;
    }
  }
  return false;
}
