/** Cuts the bytes of a connection into messages that each begin with a header that contains their length. */
import type { MessageCodec } from '../../agent.js';

type Framing = Pick<MessageCodec, 'headerBytes' | 'lengthOf'>;

export class MessageSplitter {
  /** The beginning of a message whose rest has not arrived. */
  #parts: Buffer[] = [];
  #partBytes = 0;
  #wanted: number;

  constructor(
    private readonly framing: Framing,
    private readonly maxMessageBytes: number,
  ) {
    this.#wanted = framing.headerBytes;
  }

  /** Whether the bytes so far end in the middle of a message. */
  get isInMessage(): boolean {
    return this.#partBytes > 0;
  }

  /**
   * Hands over each whole message of `bytes`, which are reused afterwards; a message is valid during the call only, until `onMessage` returns
   * false. Returns what is wrong with a message, in one sentence, after which nothing more can be read; else null.
   */
  take(bytes: Buffer, onMessage: (message: Buffer) => boolean): string | null {
    const { headerBytes } = this.framing;
    let at = 0;
    while (true) {
      const left = bytes.length - at;
      if (this.#partBytes + left < this.#wanted) {
        if (left > 0) this.#keep(bytes.subarray(at));
        return null;
      }
      // The header first: it contains how much is wanted.
      const head = this.#partBytes === 0 ? bytes.subarray(at) : this.#join(bytes, at);
      const length = this.framing.lengthOf(head);
      if (length < headerBytes) return 'The agent sent a message with an impossible length.';
      if (length > this.maxMessageBytes) return 'The agent sent a message that is too long.';
      this.#wanted = length;
      if (this.#partBytes + left < length) continue;
      const message = this.#partBytes === 0 ? head.subarray(0, length) : this.#whole(bytes, at, length);
      at += length - this.#partBytes;
      this.#parts = [];
      this.#partBytes = 0;
      this.#wanted = headerBytes;
      if (!onMessage(message)) return null;
    }
  }

  #keep(bytes: Buffer): void {
    this.#parts.push(Buffer.from(bytes));
    this.#partBytes += bytes.length;
  }

  /** The kept bytes and enough of the new ones for a header. */
  #join(bytes: Buffer, at: number): Buffer {
    const [first] = this.#parts;
    const { headerBytes } = this.framing;
    if (first !== undefined && first.length >= headerBytes) return first;
    return Buffer.concat([...this.#parts, bytes.subarray(at, at + headerBytes)]);
  }

  #whole(bytes: Buffer, at: number, length: number): Buffer {
    return Buffer.concat([...this.#parts, bytes.subarray(at, at + length - this.#partBytes)], length);
  }
}
