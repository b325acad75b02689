/**
 * An OpenID provider on loopback with a page on which a person consents: authorization code flow with PKCE (RFC 7636, S256 only), codes that
 * work once, ID and access tokens as JWTs. It checks what a provider checks, and misbehaves on request.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';

export interface OidcPerson {
  sub: string;
  email: string;
}

export interface OidcProvider {
  issuer: string;
  jwksUrl: string;
  clientId: string;
  audience: string;
  /** Who sits before the provider's page. */
  person: OidcPerson;
  /** The tokens are valid for so many seconds. */
  lifetimeSec: number;
  /** What the next sign-in does wrong. */
  fault: 'state' | 'nonce' | 'refusal' | 'used code' | null;
  /** What went wrong in the exchange of a code, in words; for asserting that nothing did. */
  refusals: string[];
  close(): void;
}

interface Grant {
  challenge: string;
  redirectUri: string;
  nonce: string | null;
  person: OidcPerson;
}

export async function oidcProvider(): Promise<OidcProvider> {
  const alg = 'ES256';
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const keys = { keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg, use: 'sig' }] };
  const grants = new Map<string, Grant>();

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', provider.issuer);
    const json = (status: number, body: object) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    switch (url.pathname) {
      case '/.well-known/openid-configuration':
        return json(200, {
          issuer: provider.issuer,
          authorization_endpoint: `${provider.issuer}/authorize`,
          token_endpoint: `${provider.issuer}/token`,
          jwks_uri: provider.jwksUrl,
        });
      case '/jwks':
        return json(200, keys);
      case '/authorize':
        return void response.writeHead(200, { 'content-type': 'text/html' }).end(consentPage(url.searchParams));
      case '/token':
        return json(...(await exchange(new URLSearchParams(await textOf(request)))));
      default:
        return json(404, {});
    }
  };

  /** A page with one link, back to the client. */
  const consentPage = (asked: URLSearchParams): string => {
    const wrong = ['response_type=code', `client_id=${provider.clientId}`, 'code_challenge_method=S256'].filter(
      (pair) => {
        const [name = '', value] = pair.split('=');
        return asked.get(name) !== value;
      },
    );
    if (wrong.length > 0 || !asked.get('scope')?.split(' ').includes('openid'))
      return `<p>Refused: ${wrong.join(', ')}</p>`;
    const back = new URL(asked.get('redirect_uri') ?? '');
    const state = asked.get('state') ?? '';
    back.searchParams.set('state', provider.fault === 'state' ? `${state}x` : state);
    if (provider.fault === 'refusal') back.searchParams.set('error', 'access_denied');
    else {
      const code = randomBytes(16).toString('hex');
      const nonce = provider.fault === 'nonce' ? 'of another sign-in' : asked.get('nonce');
      const grant = { challenge: asked.get('code_challenge') ?? '', redirectUri: asked.get('redirect_uri') ?? '' };
      if (provider.fault !== 'used code') grants.set(code, { ...grant, nonce, person: provider.person });
      back.searchParams.set('code', code);
    }
    return `<!doctype html><title>Provider</title><a href="${back.href.replaceAll('&', '&amp;')}">Continue as ${provider.person.email}</a>`;
  };

  const exchange = async (asked: URLSearchParams): Promise<[status: number, body: object]> => {
    const refuse = (why: string): [number, object] => {
      provider.refusals.push(why);
      return [400, { error: 'invalid_grant' }];
    };
    const code = asked.get('code') ?? '';
    const grant = grants.get(code);
    grants.delete(code); // once
    if (asked.get('grant_type') !== 'authorization_code') return refuse('grant_type');
    if (asked.get('client_id') !== provider.clientId) return refuse('client_id');
    if (!grant) return refuse('code');
    if (asked.get('redirect_uri') !== grant.redirectUri) return refuse('redirect_uri');
    const verified = createHash('sha256')
      .update(asked.get('code_verifier') ?? '')
      .digest('base64url');
    if (verified !== grant.challenge) return refuse('code_verifier');
    const { person, nonce } = grant;
    return [
      200,
      {
        token_type: 'Bearer',
        access_token: await signed(person, provider.audience, {}),
        id_token: await signed(person, provider.clientId, { nonce }),
      },
    ];
  };

  const signed = ({ sub, email }: OidcPerson, audience: string, more: object): Promise<string> => {
    const nowSec = Math.floor(Date.now() / 1000);
    return new SignJWT({ email, email_verified: true, ...more })
      .setProtectedHeader({ alg, kid: 'one' })
      .setIssuer(provider.issuer)
      .setSubject(sub)
      .setAudience(audience)
      .setIssuedAt(nowSec)
      .setExpirationTime(nowSec + provider.lifetimeSec)
      .sign(privateKey);
  };

  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider: OidcProvider = {
    ...{ issuer, jwksUrl: `${issuer}/jwks`, clientId: 'trunkline-dashboard', audience: 'trunkline' },
    ...{ person: { sub: 'ada', email: 'ada@example.com' }, lifetimeSec: 300, fault: null, refusals: [] },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  return provider;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}
