import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const validMs = 3_600_000;

/** The link of the banner of a fresh server: it opens the dashboard once, within an hour, without typing the first key. */
export class SignInLink {
  readonly code = randomBytes(24).toString('base64url');
  private key: string | null;
  private readonly untilMs: number;

  constructor(
    key: string,
    private readonly now: () => number = Date.now,
  ) {
    this.key = key;
    this.untilMs = now() + validMs;
  }

  /** The key, once; null for another code, a second time, or too late. */
  redeem(code: string): string | null {
    if (this.now() > this.untilMs) this.key = null;
    if (this.key === null || !timingSafeEqual(hash(code), hash(this.code))) return null;
    const { key } = this;
    this.key = null;
    return key;
  }
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
