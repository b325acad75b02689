/**
 * Reads an agent's frames in place. An ordinary message (RFC 6455 section 5.2: final, unmasked, whole in one read) is handed over at once;
 * everything else (fragments, control frames, invalid frames) goes unchanged to `ws`, which handles it.
 */
const finalText = 0x81;
const finalBinary = 0x82;
/** First bytes of the other frames that a server may send, all unmasked: fragments, ping and pong. */
const others: ReadonlySet<number> = new Set([0x00, 0x01, 0x02, 0x80, 0x89, 0x8a]);

export interface FrameHooks {
  /** A whole message, valid during the call only. */
  message(data: Buffer, isBinary: boolean): void;
}

/** The message that was handed over last: most are in the same place and as long, and need no new view. */
let handed: Buffer = Buffer.alloc(0);

export class WebSocketFrameReader {
  /** An incomplete header at the end of the last read. */
  private held: Buffer | null = null;
  /** Remaining bytes of a frame that is being passed on. */
  private passing = 0;
  /** A fragmented message has begun. */
  private inFragments = false;

  constructor(
    private readonly hooks: FrameHooks,
    /** Gets the bytes that `ws` reads itself, in order; they may be kept. */
    private readonly pass: (bytes: Buffer) => void,
    /** Longer messages are left to `ws`, which refuses them. */
    private readonly mostBytes: number,
  ) {}

  /** `read` is reused afterwards. Must not be called from within a hook. */
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
      this.pass(Buffer.from(bytes.subarray(at, at + count)));
      this.passing -= count;
      at += count;
    }
  }

  /** Returns the start of the next frame; or `at`, with `passing` set; or -1, when the header is incomplete. */
  private frame(bytes: Buffer, at: number): number {
    const left = bytes.length - at;
    if (left < 2) return -1;
    const first = bytes[at]!;
    let length = bytes[at + 1]!;
    const message = first === finalBinary || first === finalText;
    if (length > 127 || !(message || others.has(first))) {
      // A close frame, after which nothing follows, or an invalid frame, which `ws` ends with an error.
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
      const place = bytes.byteOffset + start;
      if (handed.length !== length || handed.byteOffset !== place || handed.buffer !== bytes.buffer)
        handed = bytes.subarray(start, start + length);
      this.hooks.message(handed, first === finalBinary);
      return start + length;
    }
    if ((first & 0x0f) <= 2) this.inFragments = first < 0x80;
    this.passing = headerBytes + length;
    return at;
  }
}
