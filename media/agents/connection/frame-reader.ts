/**
 * Reads what an agent sends where it lies. An ordinary message (RFC 6455 section 5.2: final, unmasked, whole in one read) is handed over
 * at once; everything else, from fragments to a close frame to what no server may send, goes to `ws` as it came, and is judged there.
 */
const finalText = 0x81;
const finalBinary = 0x82;
/** First bytes of frames that a server may send: text, binary and their parts, ping and pong. None of them is masked. */
const others: ReadonlySet<number> = new Set([0x00, 0x01, 0x02, 0x80, 0x89, 0x8a]);

export interface FrameHooks {
  /** A whole message. Text is valid during the call only; what is binary may be kept. */
  message(data: Buffer, isBinary: boolean): void;
  /** Bytes that `ws` reads itself, in order; they may be kept. */
  pass(bytes: Buffer): void;
}

export class WebSocketFrameReader {
  /** The beginning of a header whose end has not come yet. */
  private held: Buffer | null = null;
  /** Bytes of a frame that is being passed on. */
  private passing = 0;
  /** A message in several frames has begun. */
  private inFragments = false;

  constructor(
    private readonly hooks: FrameHooks,
    /** What is longer is for `ws` to refuse. */
    private readonly mostBytes: number,
  ) {}

  /** `read` is used again afterwards. Must not be called from within a hook. */
  take(read: Buffer): void {
    const bytes = this.held ? Buffer.concat([this.held, read]) : read;
    this.held = null;
    let at = 0;
    while (at < bytes.length) {
      if (this.passing === 0) {
        const next = this.frame(bytes, at);
        if (next < 0) {
          this.held = Buffer.from(bytes.subarray(at));
          return;
        }
        at = next;
      }
      if (this.passing === 0) continue;
      const count = Math.min(this.passing, bytes.length - at);
      this.hooks.pass(Buffer.from(bytes.subarray(at, at + count)));
      this.passing -= count;
      at += count;
    }
  }

  /** Where the next frame begins; or the same place, with `passing` set; or -1, when more of the header is needed. */
  private frame(bytes: Buffer, at: number): number {
    const left = bytes.length - at;
    if (left < 2) return -1;
    const first = bytes[at]!;
    let length = bytes[at + 1]!;
    const message = first === finalBinary || first === finalText;
    if (length > 127 || !(message || others.has(first))) {
      // A close frame, behind which nothing follows, or the end of it as an error.
      this.passing = Number.POSITIVE_INFINITY;
      return at;
    }
    let headerBytes = 2;
    if (length === 126) {
      if (left < 4) return -1;
      length = (bytes[at + 2]! << 8) | bytes[at + 3]!;
      headerBytes = 4;
    } else if (length === 127) {
      if (left < 10) return -1;
      length = Number(bytes.readBigUInt64BE(at + 2));
      headerBytes = 10;
    }
    const start = at + headerBytes;
    if (message && !this.inFragments && length <= this.mostBytes && start + length <= bytes.length) {
      const data = bytes.subarray(start, start + length);
      this.hooks.message(first === finalBinary ? Buffer.from(data) : data, first === finalBinary);
      return start + length;
    }
    if ((first & 0x0f) <= 2) this.inFragments = first < 0x80;
    this.passing = headerBytes + length;
    return at;
  }
}
