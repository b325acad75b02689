/** Decodes the documents of webhooks. */
import { InstructionError } from './actions.js';

/** An XML declaration that is readable as ASCII; UTF-16 is recognized by its byte order. */
const declaredEncoding = /^<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z][\w.-]{0,39})["']/;

/**
 * The text of a body. Its encoding comes from, in this order (RFC 7303 section 3), its byte order mark, `charset` of the content type, its
 * XML declaration; else it is UTF-8. Throws `InstructionError` for an unknown encoding.
 */
export function documentText(body: Buffer, contentType: string): string {
  const label = byteOrder(body) ?? charsetOf(contentType) ?? declared(body) ?? 'utf-8';
  return decoderOf(label).decode(body); // `decode` removes the byte order mark
}

function byteOrder(body: Buffer): string | null {
  const [first, second, third] = body;
  if (first === 0xef && second === 0xbb && third === 0xbf) return 'utf-8';
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  if (first === 0xfe && second === 0xff) return 'utf-16be';
  return null;
}

function charsetOf(contentType: string): string | null {
  return /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType)?.[1] ?? null;
}

function declared(body: Buffer): string | null {
  // XML begins with "<", which is half of a UTF-16 unit.
  if (body[0] === 0x3c && body[1] === 0) return 'utf-16le';
  if (body[0] === 0 && body[1] === 0x3c) return 'utf-16be';
  const label = declaredEncoding.exec(body.toString('latin1', 0, 300))?.[1] ?? null;
  // A declaration that was just read as ASCII cannot be UTF-16, even if it says so.
  return label !== null && /^(utf-16|ucs-2|iso-10646-ucs-2)/i.test(label) ? 'utf-8' : label;
}

function decoderOf(label: string) {
  try {
    return new TextDecoder(label);
  } catch {
    throw new InstructionError('charset', `"${label.slice(0, 40)}" is not a known encoding; use UTF-8`);
  }
}
