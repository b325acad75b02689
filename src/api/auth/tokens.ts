import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { withDeadline } from '../../../net/deadline.js';
import type { Person } from '../../store/tenants/invitations.js';

/** The identity provider whose tokens are accepted. */
export interface TokenSettings {
  issuers: readonly string[];
  audience: string;
  /** The URL of the identity provider's public keys. */
  jwksUrl: string;
}

/** Public-key signatures only: with a shared secret, every verifier could also sign. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];
const maxTokenBytes = 8_192;
/** The tolerated clock difference to the identity provider, for `exp`, `nbf` and `iat`. */
const clockToleranceSec = 60;

const freshMs = 600_000;
/** The minimum time between requests to the identity provider, however many tokens name unknown keys. */
const cooldownMs = 30_000;
const fetchLimitMs = 5_000;
const maxKeysBytes = 262_144;

/** Verifies the tokens of an identity provider (RFC 8725: fixed algorithms; issuer, audience and expiry always checked). */
export class Tokens {
  private readonly keys: KeySet;

  constructor(
    private readonly settings: TokenSettings,
    private readonly now: () => number = Date.now,
  ) {
    this.keys = new KeySet(settings.jwksUrl, now);
  }

  /** Whether the text has the form of a token, not of an API key. */
  static looksLike(text: string): boolean {
    return /^[\w-]+\.[\w-]+\.[\w-]*$/.test(text);
  }

  /** The person of the token: `sub`, and `email` if `email_verified` is true; undefined if the token is invalid. */
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

/** Caches the provider's keys; while the provider does not respond, the last ones remain in use. */
class KeySet {
  private keys: JWTVerifyGetKey | undefined;
  private fetchedMs = Number.NEGATIVE_INFINITY;
  private askedMs = Number.NEGATIVE_INFINITY;
  private asking: Promise<void> | null = null;

  constructor(
    private readonly url: string,
    private readonly now: () => number,
  ) {}

  /** Waits for the provider only if no keys are cached. */
  async current(): Promise<JWTVerifyGetKey | undefined> {
    if (this.now() - this.fetchedMs > freshMs) {
      const asked = this.ask();
      if (!this.keys) await asked;
    }
    return this.keys;
  }

  /** The keys after another request to the provider, unless one was made within the cooldown. */
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
      // Unreachable, too slow, or not a key set: keep the cached keys.
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
