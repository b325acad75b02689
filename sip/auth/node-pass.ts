/** How nodes of one installation recognize each other's INVITEs: by a signed header, never by the address that they come from. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** The header field, in lower case. */
export const nodePassHeader = 'x-trunkline-node';

/** A pass is good this long before and after the moment it was made, since clocks of several machines differ. */
const goodForMs = 30_000;

/**
 * Signs and checks passes. A pass is good for one purpose, one subject and one Call-ID, for half a minute, and at each node once. Those who
 * read it on its way gain nothing by it; those who can change the INVITE on its way are kept out by TLS only.
 */
export class NodePasses {
  readonly #seen = new Map<string, number>();

  /** `secret`: known to the nodes of the installation alone. `now`: milliseconds since 1970. */
  constructor(
    private readonly secret: Buffer,
    private readonly now: () => number = Date.now,
  ) {}

  /** The value of the header field. `purpose`: letters and dashes; `subject`: any text. */
  issue(purpose: string, subject: string, sipCallId: string): string {
    const nonce = randomBytes(12).toString('base64url');
    const said = [purpose, Buffer.from(subject).toString('base64url'), this.now(), nonce].join('.');
    return `${said}.${this.#sign(said, sipCallId)}`;
  }

  /** What the pass is for; null: it is forged, old, of another call, or was shown before. */
  check(value: string, sipCallId: string): { purpose: string; subject: string } | null {
    const end = value.lastIndexOf('.');
    const said = value.slice(0, Math.max(0, end));
    const [purpose = '', subject = '', issuedAt = '', nonce = ''] = said.split('.');
    const signed = Buffer.from(value.slice(end + 1));
    const wanted = Buffer.from(this.#sign(said, sipCallId));
    if (signed.length !== wanted.length || !timingSafeEqual(signed, wanted)) return null;
    const now = this.now();
    if (Math.abs(now - Number(issuedAt)) > goodForMs) return null;
    for (const [old, untilMs] of this.#seen) {
      if (untilMs > now) break; // in the order of their ends, nearly
      this.#seen.delete(old);
    }
    if (this.#seen.has(nonce)) return null;
    this.#seen.set(nonce, now + 2 * goodForMs);
    return { purpose, subject: Buffer.from(subject, 'base64url').toString() };
  }

  #sign(said: string, sipCallId: string): string {
    return createHmac('sha256', this.secret).update(`${said}\n${sipCallId}`).digest('base64url');
  }
}
