/** Sign-in at an identity provider: authorization code flow with PKCE (RFC 6749 section 4.1, RFC 7636), as a public client. */
import { decodeJwt } from 'jose';
import { withDeadline } from '../../../net/deadline.js';

export interface IdentityLoginSettings {
  /** The issuer, whose discovery document names its addresses (OpenID Connect Discovery 1.0). */
  issuer: string;
  clientId: string;
  /** The audience that the API asks of tokens; some providers want it in the request. */
  audience: string;
}

interface ProviderAddresses {
  authorizationUrl: string;
  tokenUrl: string;
}

const limitMs = 5_000;
const freshMs = 600_000;
const maxAnswerBytes = 262_144;

export class IdentityLogin {
  private known: { addresses: ProviderAddresses; atMs: number } | null = null;

  constructor(
    private readonly settings: IdentityLoginSettings,
    /** Whether the API accepts this token. */
    private readonly accepts: (token: string) => Promise<boolean>,
    private readonly now: () => number = Date.now,
  ) {}

  /** The URL that begins the sign-in, without `redirect_uri`, `state` and `code_challenge`; null while the provider does not answer. */
  async authorizationUrl(): Promise<string | null> {
    const addresses = await this.addresses();
    if (addresses === null) return null;
    const url = new URL(addresses.authorizationUrl);
    url.searchParams.set('response_type', 'code');
    url.searchParams.set('client_id', this.settings.clientId);
    url.searchParams.set('scope', 'openid profile email');
    url.searchParams.set('audience', this.settings.audience);
    return url.href;
  }

  /** The token that the API accepts, of the two that the provider gives for a code; null when it gives none. */
  async token(grant: {
    code: string;
    codeVerifier: string;
    redirectUri: string;
    nonce?: string;
  }): Promise<string | null> {
    const addresses = await this.addresses();
    if (addresses === null) return null;
    const given = await requestJson(addresses.tokenUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        client_id: this.settings.clientId,
        code: grant.code,
        code_verifier: grant.codeVerifier,
        redirect_uri: grant.redirectUri,
      }).toString(),
    });
    if (grant.nonce !== undefined && nonceOf(given?.id_token) !== grant.nonce) return null;
    for (const token of [given?.access_token, given?.id_token])
      if (typeof token === 'string' && (await this.accepts(token))) return token;
    return null;
  }

  private async addresses(): Promise<ProviderAddresses | null> {
    if (this.known && this.now() - this.known.atMs < freshMs) return this.known.addresses;
    const { issuer } = this.settings;
    const found = await requestJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, {});
    const { authorization_endpoint: authorizationUrl, token_endpoint: tokenUrl } = found ?? {};
    if (!isHttpUrl(authorizationUrl) || !isHttpUrl(tokenUrl)) return this.known?.addresses ?? null;
    this.known = { addresses: { authorizationUrl, tokenUrl }, atMs: this.now() };
    return this.known.addresses;
  }
}

/** The nonce of an ID token, which came from the provider itself, so its signature adds nothing (OpenID Connect Core 1.0, section 3.1.3.7). */
function nonceOf(idToken: unknown): unknown {
  if (typeof idToken !== 'string') return undefined;
  try {
    return decodeJwt(idToken).nonce;
  } catch {
    return undefined;
  }
}

/** The answer as an object; null when there is none within the limit, or it is no JSON object. */
async function requestJson(url: string, request: RequestInit): Promise<Record<string, unknown> | null> {
  try {
    const text = await withDeadline(limitMs, 'the identity provider', null, async (signal) => {
      const response = await fetch(url, { ...request, signal, redirect: 'error' });
      if (response.ok) return response.text();
      await response.body?.cancel();
      return null;
    });
    if (text === null || text.length > maxAnswerBytes) return null;
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function isHttpUrl(value: unknown): value is string {
  return typeof value === 'string' && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol);
}
