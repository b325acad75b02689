/** The characters of a document that a webhook answers. */
import { InstructionError } from './actions.js';

/** A declaration that is readable as ASCII; of UTF-16 only the byte order tells. */
const declaredEncoding = /^<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z][\w.-]{0,39})["']/;

/**
 * The text of a body. Its encoding is said, in this order (RFC 7303 section 3), by its byte order mark, by `charset` of the content type, by
 * its XML declaration; else it is UTF-8. Throws `InstructionError` for an unknown encoding.
 */
export function documentText(body: Buffer, contentType: string): string {
  const label = byteOrder(body) ?? charsetOf(contentType) ?? declared(body) ?? 'utf-8';
  return decoderOf(label).decode(body); // which takes the mark off
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
  // XML begins with "<": half of a unit of UTF-16.
  if (body[0] === 0x3c && body[1] === 0) return 'utf-16le';
  if (body[0] === 0 && body[1] === 0x3c) return 'utf-16be';
  const label = declaredEncoding.exec(body.toString('latin1', 0, 300))?.[1] ?? null;
  // What was just read as ASCII is no UTF-16, whatever it says.
  return label !== null && /^(utf-16|ucs-2|iso-10646-ucs-2)/i.test(label) ? 'utf-8' : label;
}

function decoderOf(label: string) {
  try {
    return new TextDecoder(label);
  } catch {
    throw new InstructionError('charset', `"${label.slice(0, 40)}" is not a known encoding; use UTF-8`);
  }
}
