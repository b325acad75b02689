import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { withDeadline } from '../../../net/deadline.js';
import type { Person } from '../../store/tenants/invitations.js';

/** Whose tokens are believed. */
export interface TokenSettings {
  issuers: readonly string[];
  audience: string;
  /** Where the identity provider publishes its public keys. */
  jwksUrl: string;
}

/** Public-key signatures only: with a shared secret whoever can check a token could make one. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];
const maxTokenBytes = 8_192;
/** How far the clock of the identity provider may be off, for `exp`, `nbf` and `iat`. */
const clockToleranceSec = 60;

const freshMs = 600_000;
/** At most one request to the identity provider in this time, however many tokens name keys we do not know. */
const cooldownMs = 30_000;
const fetchLimitMs = 5_000;
const maxKeysBytes = 262_144;

/** Checks the tokens of an identity provider (RFC 8725: fixed algorithms, issuer, audience and expiry always looked at). */
export class Tokens {
  private readonly keys: KeySet;

  constructor(
    private readonly settings: TokenSettings,
    private readonly now: () => number = Date.now,
  ) {
    this.keys = new KeySet(settings.jwksUrl, now);
  }

  /** Whether this is a token at all, and not an API key. */
  static looksLike(text: string): boolean {
    return /^[\w-]+\.[\w-]+\.[\w-]*$/.test(text);
  }

  /** Whom the token names, by `sub`, and by `email` where `email_verified` says so; undefined when it is no good. */
  async person(token: string): Promise<Person | undefined> {
    if (token.length > maxTokenBytes) return undefined;
    const check = async (keys: JWTVerifyGetKey | undefined): Promise<Person | undefined> => {
      if (!keys) return undefined;
      const { payload } = await jwtVerify(token, keys, {
        algorithms,
        issuer: [...this.settings.issuers],
        audience: this.settings.audience,
        requiredClaims: ['exp', 'sub'],
        clockTolerance: clockToleranceSec,
        currentDate: new Date(this.now()),
      });
      const latestSec = this.now() / 1000 + clockToleranceSec;
      const { sub: subject, email, email_verified: isVerified } = payload;
      if (!subject || (payload.iat ?? 0) > latestSec) return undefined;
      return { subject, email: typeof email === 'string' && isVerified === true ? email.toLowerCase() : null };
    };
    try {
      return await check(await this.keys.current());
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) return undefined;
    }
    try {
      return await check(await this.keys.newer()); // the provider may have changed its keys
    } catch {
      return undefined;
    }
  }
}

/** The provider's keys, kept: while it does not answer, the ones it gave last go on serving. */
class KeySet {
  private keys: JWTVerifyGetKey | undefined;
  private fetchedMs = Number.NEGATIVE_INFINITY;
  private askedMs = Number.NEGATIVE_INFINITY;
  private asking: Promise<void> | null = null;

  constructor(
    private readonly url: string,
    private readonly now: () => number,
  ) {}

  /** Waits for the provider only when there are no keys at all. */
  async current(): Promise<JWTVerifyGetKey | undefined> {
    if (this.now() - this.fetchedMs > freshMs) {
      const asked = this.ask();
      if (!this.keys) await asked;
    }
    return this.keys;
  }

  /** The keys after asking once more, if that has not just been done. */
  async newer(): Promise<JWTVerifyGetKey | undefined> {
    await this.ask();
    return this.keys;
  }

  private ask(): Promise<void> {
    if (this.asking) return this.asking;
    if (this.now() - this.askedMs < cooldownMs) return Promise.resolve();
    this.askedMs = this.now();
    this.asking = this.fetch().finally(() => {
      this.asking = null;
    });
    return this.asking;
  }

  private async fetch(): Promise<void> {
    try {
      const text = await withDeadline(fetchLimitMs, 'the key set', null, async (signal) => {
        const response = await fetch(this.url, { signal, redirect: 'error' });
        if (response.ok) return limited(response);
        await response.body?.cancel();
        return null;
      });
      if (text === null) return;
      this.keys = createLocalJWKSet(JSON.parse(text) as JSONWebKeySet);
      this.fetchedMs = this.now();
    } catch {
      // Unreachable, too slow, or not a key set: what we have serves on.
    }
  }
}

async function limited(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    if (text.length > maxKeysBytes) throw new Error('The key set is too large.');
  }
  return text;
}
