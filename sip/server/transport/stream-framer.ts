/** Splits a TCP stream into SIP messages by Content-Length (RFC 3261 18.3). */

export const MAX_HEAD_BYTES = 64 * 1024;
export const MAX_MESSAGE_BYTES = 512 * 1024;

export interface FramerUser {
  message(bytes: Buffer): void;
  /** A double CRLF between messages is a ping, to be answered with CRLF (RFC 5626 4.4.1). */
  ping(): void;
  /** The stream cannot be read any further: the connection has to close. `head`: the start of the message, to be answered if possible. */
  broken(head: Buffer, why: string): void;
}

const LENGTH = /\r\n(?:content-length|l)[ \t]*:(?:\r\n[ \t])?[ \t]*(\d{1,9})[ \t]*(?=\r\n|$)/i;

export class StreamFramer {
  private buffer = Buffer.alloc(4096);
  private start = 0;
  private end = 0;
  /** No blank line was found before this index. */
  private searched = 0;
  /** End of the current message, once its head is complete; else -1. */
  private messageEnd = -1;
  private dead = false;

  constructor(private readonly user: FramerUser) {}

  /** True while an incomplete message waits for more bytes. */
  get partial(): boolean {
    return this.end > this.start;
  }

  push(chunk: Buffer): void {
    if (this.dead) return;
    this.append(chunk);
    while (!this.dead && this.takeOne());
    if (this.start === this.end) this.reset();
  }

  private append(chunk: Buffer): void {
    if (this.end + chunk.length > this.buffer.length) {
      const used = this.end - this.start;
      const target =
        used + chunk.length > this.buffer.length / 2 ? Buffer.alloc((used + chunk.length) * 2) : this.buffer;
      this.buffer.copy(target, 0, this.start, this.end);
      this.searched -= this.start;
      if (this.messageEnd >= 0) this.messageEnd -= this.start;
      this.buffer = target;
      this.start = 0;
      this.end = used;
    }
    chunk.copy(this.buffer, this.end);
    this.end += chunk.length;
  }

  /** True when something was taken and there may be more. */
  private takeOne(): boolean {
    if (this.messageEnd < 0) {
      this.skipEmptyLines();
      if (this.start === this.end) return false;
      const blank = this.buffer
        .subarray(0, this.end)
        .indexOf('\r\n\r\n', Math.max(this.start, this.searched - 3), 'latin1');
      if (blank < 0) {
        this.searched = this.end;
        if (this.end - this.start > MAX_HEAD_BYTES) this.breakOff('The header section is too long');
        return false;
      }
      if (!this.measure(blank)) return false;
    }
    if (this.end < this.messageEnd) return false;
    // a copy: later input overwrites the buffer
    const message = Buffer.from(this.buffer.subarray(this.start, this.messageEnd));
    this.start = this.messageEnd;
    this.searched = this.start;
    this.messageEnd = -1;
    this.user.message(message);
    return this.end > this.start;
  }

  private measure(blank: number): boolean {
    const match = LENGTH.exec(this.buffer.toString('latin1', this.start, blank));
    // without it the start of the next message is unknown (18.3)
    if (!match) this.breakOff('Content-Length is missing');
    else if (blank + 4 - this.start + Number(match[1]) > MAX_MESSAGE_BYTES) this.breakOff('The message is too long');
    else this.messageEnd = blank + 4 + Number(match[1]);
    return this.messageEnd >= 0;
  }

  private skipEmptyLines(): void {
    let ends = 0;
    while (this.end - this.start >= 2 && this.buffer[this.start] === 13 && this.buffer[this.start + 1] === 10) {
      this.start += 2;
      if (++ends % 2 === 0) this.user.ping();
    }
  }

  private breakOff(why: string): void {
    this.dead = true;
    this.user.broken(
      Buffer.from(this.buffer.subarray(this.start, Math.min(this.end, this.start + MAX_HEAD_BYTES))),
      why,
    );
  }

  private reset(): void {
    this.start = 0;
    this.end = 0;
    this.searched = 0;
    // a large message must not hold its memory for the life of the connection
    if (this.buffer.length > 64 * 1024) this.buffer = Buffer.alloc(4096);
  }
}
