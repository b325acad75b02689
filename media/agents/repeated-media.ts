/**
 * Audio in JSON, read without parsing. Most messages of a bot differ from an earlier one in nothing but their base64: they are compared with
 * the text around the earlier one's, and decoded by table. All others are left to the parser.
 */
import { ScratchBuffer } from '../audio/scratch-buffer.js';

/** A message whose text around the audio is longer is not worth comparing. */
const longestText = 512;
/** A bot whose messages differ this often in a row, as by a number, has no text to learn. */
const attempts = 8;
const nothing = new Uint8Array(0);
/** Shared by all bots of the thread. */
const decoded = new ScratchBuffer(Uint8Array);

/** Six bits of each character of base64 (RFC 4648 section 4); all others have the highest bit set. */
const noBase64 = 0x80;
const sixBits = new Uint8Array(256).fill(noBase64);
for (const [bits, char] of [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].entries())
  sixBits[char.charCodeAt(0)] = bits;
const padding = '='.charCodeAt(0);

export class RepeatedMedia {
  #before: Uint8Array = nothing;
  #after: Uint8Array = nothing;
  #learnt = 0;

  /** A message was parsed, and its only effect was the audio in `base64`. */
  learn(message: string, base64: string): void {
    if (this.#learnt === attempts || message.length - base64.length > longestText) return;
    const at = message.indexOf(`"${base64}"`) + 1;
    // Only where no other string could be meant: neither an equal one, nor one written with escapes.
    if (at === 0 || message.indexOf(base64, at + 1) >= 0 || message.includes('\\')) return;
    this.#learnt += 1;
    this.#before = Buffer.from(message.slice(0, at));
    this.#after = Buffer.from(message.slice(at + base64.length));
  }

  /** The audio of a message like the one that was learnt last; null for any other. Valid until the next call. */
  read(message: Uint8Array): Uint8Array | null {
    const before = this.#before;
    const after = this.#after;
    const from = before.length;
    const to = message.length - after.length;
    if (from === 0 || to <= from || !startsWith(message, 0, before) || !startsWith(message, to, after)) return null;
    const audio = decode(message, from, to);
    if (audio !== null) this.#learnt = 0;
    return audio;
  }
}

function startsWith(message: Uint8Array, at: number, text: Uint8Array): boolean {
  for (let i = 0; i < text.length; i++) if (message[at + i] !== text[i]) return false;
  return true;
}

/** null when it is no base64 in whole groups of four. */
function decode(message: Uint8Array, from: number, to: number): Uint8Array | null {
  if ((to - from) % 4 !== 0) return null;
  const padded = message[to - 1] !== padding ? 0 : message[to - 2] !== padding ? 1 : 2;
  const whole = padded === 0 ? to : to - 4;
  const audio = decoded.ofLength(((to - from) / 4) * 3 - padded);
  let seen = 0;
  let at = 0;
  for (let i = from; i < whole; i += 4) {
    const first = sixBits[message[i]!]!;
    const second = sixBits[message[i + 1]!]!;
    const third = sixBits[message[i + 2]!]!;
    const fourth = sixBits[message[i + 3]!]!;
    seen |= first | second | third | fourth;
    audio[at++] = (first << 2) | (second >> 4);
    audio[at++] = (second << 4) | (third >> 2);
    audio[at++] = (third << 6) | fourth;
  }
  if (padded > 0) {
    const first = sixBits[message[whole]!]!;
    const second = sixBits[message[whole + 1]!]!;
    const third = padded === 1 ? sixBits[message[whole + 2]!]! : 0;
    seen |= first | second | third;
    audio[at++] = (first << 2) | (second >> 4);
    if (padded === 1) audio[at++] = (second << 4) | (third >> 2);
  }
  return (seen & noBase64) === 0 ? audio : null;
}
