/**
 * The server side of digest authentication: challenges, and the check of credentials. A nonce contains its time and a seal, so that a flood
 * of requests without credentials uses no memory; only a nonce that proved a password is remembered, against replay.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { type DigestAlgorithm, digestResponse, knownAlgorithm, parseDigest } from './digest.js';

export type DigestVerdict =
  | { kind: 'ok'; username: string }
  | { kind: 'missing' }
  | { kind: 'stale' }
  | { kind: 'wrong' };

export interface ChallengerOptions {
  realm: string;
  /** How long a nonce may be used. Default 300,000. */
  nonceLifetimeMs?: number;
  /** Nonces remembered against replay. Default 10,000. */
  maxNonces?: number;
  /**
   * The algorithms offered, the preferred first (RFC 8760 2.4). Default SHA-256, MD5. Some older phones fail at an unknown challenge
   * instead of trying the next one: set `['MD5']` for them.
   */
  algorithms?: readonly DigestAlgorithm[];
}

export interface DigestRequest {
  method: string;
  uri: string;
  /** The values of the `Authorization` headers. */
  authorization: readonly string[] | undefined;
}

export class Challenger {
  readonly realm: string;
  readonly #lifetimeMs: number;
  readonly #maxNonces: number;
  readonly #algorithms: readonly DigestAlgorithm[];
  readonly #sealKey = randomBytes(32);
  /** The highest nonce count seen, by nonce, oldest first. */
  readonly #counts = new Map<string, number>();
  /** A nonce issued before this time is stale unless it is remembered: its count was dropped. */
  #forgottenBeforeMs = 0;

  constructor(options: ChallengerOptions) {
    this.realm = options.realm;
    this.#lifetimeMs = options.nonceLifetimeMs ?? 300_000;
    this.#maxNonces = options.maxNonces ?? 10_000;
    this.#algorithms = options.algorithms ?? ['SHA-256', 'MD5'];
  }

  /** One challenge for each algorithm, all with one nonce. */
  challenges(stale: boolean): string[] {
    const nonce = this.#issue();
    return this.#algorithms.map(
      (algorithm) =>
        `Digest realm="${this.realm}", nonce="${nonce}", algorithm=${algorithm}, qop="auth"${stale ? ', stale=true' : ''}`,
    );
  }

  /**
   * Checks the credentials of a request. An unknown user takes the same time and gives the same result as a wrong password.
   * @param passwordOf the password of a user name; undefined when there is no such user.
   */
  verify(request: DigestRequest, passwordOf: (username: string) => string | undefined): DigestVerdict {
    const ours = (request.authorization ?? []).map(parseDigest).find((params) => params?.realm === this.realm);
    if (!ours) return { kind: 'missing' };
    const { username, nonce, uri, response } = ours;
    const algorithm = knownAlgorithm(ours.algorithm);
    if (!algorithm || !this.#algorithms.includes(algorithm)) return { kind: 'wrong' };
    if (!username || !nonce || !uri || !response) return { kind: 'wrong' };
    const issuedMs = this.#issuedAt(nonce);
    // A nonce with a foreign seal comes from an earlier run of this process: the client may try again.
    if (issuedMs === null || issuedMs + this.#lifetimeMs < Date.now()) return { kind: 'stale' };
    const hasQop = ours.qop !== undefined;
    if (hasQop && (ours.qop?.toLowerCase() !== 'auth' || !/^[0-9a-f]{8}$/i.test(ours.nc ?? '') || !ours.cnonce)) {
      return { kind: 'wrong' };
    }
    const password = passwordOf(username);
    const expected = digestResponse({
      algorithm,
      username,
      realm: this.realm,
      password: password ?? randomBytes(16).toString('hex'),
      method: request.method,
      uri,
      nonce,
      qop: hasQop ? { nc: ours.nc ?? '', cnonce: ours.cnonce ?? '' } : undefined,
    });
    const given = Buffer.from(response.toLowerCase());
    const same = given.length === expected.length && timingSafeEqual(given, Buffer.from(expected));
    if (!same || password === undefined || !sameTarget(uri, request.uri)) return { kind: 'wrong' };
    return this.#countUp(nonce, issuedMs, hasQop ? Number.parseInt(ours.nc ?? '', 16) : 1)
      ? { kind: 'ok', username }
      : { kind: 'stale' };
  }

  /** The number of nonces remembered now. */
  get remembered(): number {
    return this.#counts.size;
  }

  #issue(): string {
    const body = Buffer.alloc(14);
    body.writeUIntBE(Date.now(), 0, 6);
    randomBytes(8).copy(body, 6);
    return Buffer.concat([body, this.#seal(body)]).toString('base64url');
  }

  #issuedAt(nonce: string): number | null {
    const bytes = Buffer.from(nonce, 'base64url');
    if (bytes.length !== 30) return null;
    const body = bytes.subarray(0, 14);
    return timingSafeEqual(this.#seal(body), bytes.subarray(14)) ? body.readUIntBE(0, 6) : null;
  }

  #seal(body: Buffer): Buffer {
    return createHmac('sha256', this.#sealKey).update(body).digest().subarray(0, 16);
  }

  /** Each use of a nonce must have a higher count than the last (RFC 7616 3.4). */
  #countUp(nonce: string, issuedMs: number, count: number): boolean {
    const last = this.#counts.get(nonce);
    if (last === undefined && issuedMs <= this.#forgottenBeforeMs) return false;
    if (last !== undefined && count <= last) return false;
    this.#counts.set(nonce, count);
    for (const oldest of this.#counts.keys()) {
      const issued = this.#issuedAt(oldest) ?? 0;
      if (this.#counts.size <= this.#maxNonces && issued + this.#lifetimeMs >= Date.now()) break;
      this.#counts.delete(oldest);
      this.#forgottenBeforeMs = Math.max(this.#forgottenBeforeMs, issued);
    }
    return true;
  }
}

/** True when the digest's URI is the request's target. Clients differ in parameters and in the default port, which are ignored here. */
function sameTarget(a: string, b: string): boolean {
  const bare = (uri: string) =>
    (uri.split(/[;?]/, 1)[0] ?? '')
      .toLowerCase()
      .replace(/:506[01]$/, '')
      .replace(/^sips:/, 'sip:');
  return bare(a) === bare(b);
}
