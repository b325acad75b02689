import { afterEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

/** What a browser would let pages of other origins do. */

const app = 'https://app.example.com';
let api: TestApi;
afterEach(() => api.close());

const preflight = (url: string, origin: string) =>
  api.app.inject({
    ...{ method: 'OPTIONS', url },
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
  });
const ask = (origin: string, url = '/v1/me', key: string | null = api.a.key) =>
  api.request('GET', url, { key, headers: { origin } });
const corsHeaders = (headers: Record<string, unknown>) =>
  Object.keys(headers).filter((name) => name.startsWith('access-control-'));

describe('without the setting', () => {
  it('no page of another origin may read an answer or send a key', async () => {
    api = await testApi();
    expect(corsHeaders((await ask(app)).headers)).toEqual([]);
    const { statusCode, headers } = await preflight('/v1/outbound-calls', app);
    expect(statusCode).toBe(405);
    expect(corsHeaders(headers)).toEqual([]);
  });
});

describe('with named origins', () => {
  const withOrigins = async () => {
    api = await testApi({ corsOrigins: [app, 'http://localhost:5173'] });
  };

  it('a preflight is answered without a key, with what may be sent', async () => {
    await withOrigins();
    const { statusCode, headers, body } = await preflight('/v1/outbound-calls', app);
    expect([statusCode, body]).toEqual([204, '']);
    expect(headers).toMatchObject({
      'access-control-allow-origin': app,
      'access-control-max-age': '600',
      vary: 'Origin',
    });
    const listed = (name: string) => String(headers[name]).split(', ');
    expect(listed('access-control-allow-methods')).toEqual(expect.arrayContaining(['POST', 'PATCH', 'DELETE']));
    for (const name of ['authorization', 'x-api-key', 'idempotency-key', 'x-organization-id', 'last-event-id'])
      expect(listed('access-control-allow-headers')).toContain(name);
    expect(headers).not.toHaveProperty('access-control-allow-credentials');
  });

  it('answers may be read, refusals and limits too', async () => {
    await withOrigins();
    for (const { headers, status } of [await ask(app), await ask(app, '/v1/me', null), await ask(app, '/v1/nothing')]) {
      expect(headers['access-control-allow-origin'], String(status)).toBe(app);
      expect(headers['access-control-expose-headers']).toContain('X-RateLimit-Remaining');
      expect(headers['access-control-expose-headers']).toContain('Retry-After');
      expect(headers).not.toHaveProperty('access-control-allow-credentials');
    }
  });

  it('other origins get nothing, and caches keep the answers apart', async () => {
    await withOrigins();
    for (const origin of [
      'https://evil.example',
      `${app}.evil.example`,
      `${app}:444`,
      'http://app.example.com',
      'null',
    ]) {
      const { headers, status } = await ask(origin);
      expect(status).toBe(200);
      expect(corsHeaders(headers), origin).toEqual([]);
      expect(headers.vary).toBe('Origin');
      expect(corsHeaders((await preflight('/v1/calls', origin)).headers), origin).toEqual([]);
    }
  });

  it('the sign-in, metrics and the API of Twilio are not shared', async () => {
    await withOrigins();
    for (const url of ['/sign-in', '/metrics', '/docs', '/2010-04-01/Accounts/AC/Calls.json'])
      expect(corsHeaders((await ask(app, url, null)).headers), url).toEqual([]);
  });
});

describe('with a star', () => {
  it('every page may read, and none with credentials', async () => {
    api = await testApi({ corsOrigins: ['*'] });
    const { headers } = await ask('https://anything.example');
    expect(headers['access-control-allow-origin']).toBe('*');
    expect(headers).not.toHaveProperty('access-control-allow-credentials');
    expect(headers).not.toHaveProperty('vary');
    expect((await preflight('/v1/calls', 'null')).statusCode).toBe(204);
  });
});
