/** An identity provider on loopback: publishes one key, signs tokens with it. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import type { TokenSettings } from '../../src/api/auth/tokens.js';

export interface IdentityProvider {
  settings: TokenSettings;
  /** A token of this subject, good for a minute from `nowMs` on. */
  token(claims: JWTPayload & { sub: string }, nowMs: number): Promise<string>;
  close(): void;
}

export async function identityProvider(): Promise<IdentityProvider> {
  const alg = 'ES256';
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const keys = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg, use: 'sig' }] });
  const server = createServer((_request, response) => response.end(keys)).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const issuer = 'https://idp.example.com/';
  const audience = 'trunkline';
  return {
    settings: {
      issuers: [issuer],
      audience,
      jwksUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`,
    },
    token: (claims, nowMs) =>
      new SignJWT({ iss: issuer, aud: audience, exp: Math.floor(nowMs / 1000) + 60, ...claims })
        .setProtectedHeader({ alg, kid: 'one' })
        .sign(privateKey),
    close: () => server.close(),
  };
}
