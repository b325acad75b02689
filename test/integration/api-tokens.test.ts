import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

const issuer = 'https://idp.example.com/';
const audience = 'trunkline';
const jwks = { keys: [] as object[], up: true, asked: 0 };
let server: Server;
let api: TestApi;
let pair: Awaited<ReturnType<typeof newKey>>;
let keyCount = 0;

async function newKey(alg = 'ES256') {
  keyCount += 1;
  const kid = `key-${keyCount}`;
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, privateKey, publicKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

beforeAll(async () => {
  server = createServer((_request, response) => {
    jwks.asked += 1;
    if (!jwks.up) response.writeHead(500).end();
    else response.end(JSON.stringify({ keys: jwks.keys }));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  pair = await newKey();
});
afterAll(() => server.close());

beforeEach(async () => {
  Object.assign(jwks, { keys: [pair.jwk], up: true, asked: 0 });
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`;
  api = await testApi({ tokens: { issuers: [issuer], audience, jwksUrl } });
  const user = await api.store.organizations.createUser({ name: 'Ada', subject: 'ada' });
  await api.store.organizations.addMember(api.b.organizationId, user.id, 'admin');
});
afterEach(() => api.close());

const nowSec = () => Math.floor(api.clock.now() / 1000);
const claims = (over: JWTPayload = {}): JWTPayload => ({
  iss: issuer,
  aud: audience,
  sub: 'ada',
  exp: nowSec() + 60,
  ...over,
});
const sign = (payload: JWTPayload = claims(), by = pair, header: object = {}) =>
  new SignJWT(payload).setProtectedHeader({ alg: by.alg, kid: by.kid, ...header }).sign(by.privateKey);
/** Each from an address of its own: 20 bad ones a second are allowed. */
let asked = 0;
const me = async (token: string) => {
  asked += 1;
  return api.request('GET', '/v1/me', { key: token, remoteAddress: `10.1.${asked >> 8}.${asked & 255}` });
};

describe('tokens of an identity provider', () => {
  it('act for the user they name, live, in their organizations', async () => {
    const answer = await me(await sign());
    expect([answer.status, answer.body]).toMatchObject([
      200,
      { user: { name: 'Ada' }, mode: 'live', role: 'admin', api_key: null, organization: { id: api.b.organizationId } },
    ]);
    const key = await api.request('POST', '/v1/api-keys', { key: await sign(), body: { name: 'K', mode: 'live' } });
    expect(key.status).toBe(201);
    expect((await api.request('GET', '/v1/me', { key: key.body.key })).body.user.name).toBe('Ada');
  });

  it('are refused when anything about them is wrong', async () => {
    const stranger = { ...(await newKey()), kid: pair.kid };
    const spki = new TextEncoder().encode(await exportSPKI(pair.publicKey));
    const [head, body, signature = ''] = (await sign()).split('.');
    const zeros = Buffer.alloc(64).toString('base64url');
    const bad: Record<string, string> = {
      none: new UnsecuredJWT(claims()).encode(),
      hs256: await new SignJWT(claims()).setProtectedHeader({ alg: 'HS256', kid: pair.kid }).sign(spki),
      expired: await sign(claims({ exp: nowSec() - 61 })),
      'no exp': await sign(claims({ exp: undefined })),
      'not yet': await sign(claims({ nbf: nowSec() + 62 })),
      'issued later': await sign(claims({ iat: nowSec() + 62 })),
      audience: await sign(claims({ aud: 'another' })),
      issuer: await sign(claims({ iss: 'https://evil.example.com/' })),
      'no sub': await sign(claims({ sub: undefined })),
      'another key': await sign(claims(), stranger),
      'kid path': await sign(claims(), pair, { kid: '../../etc/passwd' }),
      jku: await sign(claims(), stranger, { jku: 'http://127.0.0.1:1/jwks', kid: 'evil' }),
      'zero signature': `${head}.${body}.${zeros}`,
      cut: `${head}.${body}.${signature.slice(0, 20)}`,
      huge: await sign(claims({ x: 'x'.repeat(10_000) })),
    };
    for (const [name, token] of Object.entries(bad)) {
      const { status, body } = await me(token);
      expect([status, body.code], name).toEqual([401, 'UNAUTHORIZED']);
    }
    // Only the unknown key ids made us ask again, and that at most once.
    expect(jwks.asked).toBeLessThanOrEqual(2);
  });

  it('may be a minute off: clocks differ', async () => {
    for (const over of [{ exp: nowSec() - 58 }, { nbf: nowSec() + 60 }, { iat: nowSec() + 60 }])
      expect((await me(await sign(claims(over)))).status, JSON.stringify(over)).toBe(200);
  });

  it('are 403 when we do not know the user', async () => {
    const answer = await me(await sign(claims({ sub: 'nobody' })));
    expect([answer.status, answer.body.code]).toEqual([403, 'FORBIDDEN']);
  });

  it('are checked with new keys when the provider changes them', async () => {
    expect((await me(await sign())).status).toBe(200);
    const next = await newKey('RS256');
    jwks.keys = [next.jwk];
    api.clock.set(api.clock.now() + 31_000);
    expect((await me(await sign(claims(), next))).status).toBe(200);
    expect((await me(await sign())).status).toBe(401); // its key is gone
    expect(jwks.asked).toBe(2);
  });

  it('go on being checked with the keys we have while the provider is down', async () => {
    expect((await me(await sign())).status).toBe(200);
    jwks.up = false;
    api.clock.set(api.clock.now() + 3_600_000);
    expect((await me(await sign())).status).toBe(200);
    expect((await me(await sign())).status).toBe(200);
  });

  it('with unknown keys, however many, do not flood the provider', async () => {
    expect((await me(await sign())).status).toBe(200);
    api.clock.set(api.clock.now() + 31_000);
    const tokens = await Promise.all(
      Array.from({ length: 100 }, (_, n) => sign(claims(), pair, { kid: `unknown-${n}` })),
    );
    const answers = await Promise.all(tokens.map(me));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
    expect(jwks.asked).toBe(2);
  });
});
