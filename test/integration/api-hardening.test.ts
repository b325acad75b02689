import { connect } from 'node:net';
import pino from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeApiKey } from '../../src/store/tenants/api-keys.js';
import { type TestApi, testApi } from '../support/api.js';

/** What docs/security.md promises and no other test shows. */

let api: TestApi;
const lines: string[] = [];
beforeEach(async () => {
  lines.length = 0;
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  api = await testApi({ log });
});
afterEach(() => api.close());

describe('headers', () => {
  it('are strict on every answer, and none lets pages of other hosts in', async () => {
    const origin = { origin: 'https://evil.example.com' };
    const answers = [
      await api.request('GET', '/v1/me', { headers: origin }),
      await api.request('GET', '/v1/me', { key: 'wrong', headers: origin }),
      await api.request('GET', '/v1/nowhere', { headers: origin }),
      await api.request('GET', '/healthz', { key: null, headers: origin }),
      await api.request('GET', '/docs', { key: null, headers: origin }),
    ];
    for (const { headers } of answers) {
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(headers['x-frame-options']).toBe('DENY');
      expect(headers['cache-control']).toBe('no-store');
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control-'))).toEqual([]);
    }
    const preflight = await api.app.inject({
      ...{ method: 'OPTIONS', url: '/v1/calls' },
      headers: { ...origin, 'access-control-request-method': 'DELETE', 'access-control-request-headers': 'x-api-key' },
    });
    expect(preflight.statusCode).toBe(405);
    expect(preflight.headers['access-control-allow-origin']).toBeUndefined();
  });

  it('cannot be forged by what callers and clients send', async () => {
    const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
    const nasty = '=cmd|"/c calc"!A1\r\nSet-Cookie: x=1\u001b[31m<script>alert(1)</script>';
    const id = api.store.calls.begin({
      ...scope,
      ...{ direction: 'inbound', fromNumber: nasty, toNumber: nasty, sipCallId: nasty },
      ...{ phoneNumberId: api.a.userId, endpointId: null },
    });
    const { body, headers } = await api.request('GET', `/v1/calls/${id}`, {
      headers: { 'user-agent': nasty.replaceAll(/[\r\n]/g, ' ') },
    });
    expect(body.from_number).toBe(nasty); // as data, in JSON, and nowhere else
    expect(headers['set-cookie']).toBeUndefined();
    for (const line of lines) {
      expect(() => JSON.parse(line)).not.toThrow();
      expect(line).not.toContain('\u001b');
    }
  });
});

describe('logs', () => {
  it('never have a key, a token or a signature', async () => {
    const wrong = makeApiKey('live');
    await api.request('GET', '/v1/me');
    await api.request('GET', '/v1/me', { key: wrong });
    await api.request('GET', `/v1/calls?api_key=${wrong}`);
    await api.request('GET', `/v1/calls/${api.a.userId}/recording?expires=1&signature=${'s'.repeat(43)}`, {
      key: null,
    });
    await api.request('POST', '/v1/api-keys', { body: { name: 'K', mode: 'live' } });
    expect(lines.length).toBeGreaterThan(3);
    for (const line of lines) {
      expect(line).not.toMatch(/trunkline_(live|test)_[0-9A-Za-z]{8}/);
      expect(line).not.toContain('sssss');
    }
  });
});

describe('text that means something to SQL', () => {
  it('is text', async () => {
    const names = ["' or 1=1 --", '%', '_', '"; drop table calls; --', "x' union select hash from api_keys --"];
    for (const name of names) {
      const made = await api.request('POST', '/v1/endpoints', {
        body: { name, type: 'webhook', target: 'https://e.com' },
      });
      expect([made.status, made.body.name]).toEqual([201, name]);
      for (const query of [`status=${encodeURIComponent(name)}`, `phone_number_id=${encodeURIComponent(name)}`])
        expect((await api.request('GET', `/v1/calls?${query}`)).status).toBe(400);
      const dialled = { from: name, to: '+15551234567' };
      expect((await api.request('POST', '/v1/routes/simulate', { body: dialled })).body.decision).toBe('unknown');
    }
    expect((await api.request('GET', '/v1/endpoints', { key: api.b.key })).body.total).toBe(0);
    expect((await api.request('GET', '/v1/endpoints')).body.total).toBe(names.length);
  });
});

describe('keys', () => {
  it('are found by their hash: a wrong one takes the same way whatever it begins with', async () => {
    // Each lookup is one equality over a SHA-256; how many characters are right changes nothing that is compared.
    const near = `${api.a.key.slice(0, -1)}${api.a.key.endsWith('x') ? 'y' : 'x'}`;
    const [row] = await api.rows('select hash, prefix from api_keys');
    expect(String(row?.hash)).toMatch(/^[0-9a-f]{64}$/);
    for (const key of [near, api.a.key.slice(0, 30), makeApiKey('live'), `${api.a.key}\u0000`]) {
      const answer = await api.request('GET', '/v1/me', { key: encodeURI(key) });
      expect(answer.body).toEqual({ error: 'A valid API key is required', code: 'UNAUTHORIZED' });
    }
    expect((await api.rows('select * from api_keys')).map((each) => JSON.stringify(each)).join()).not.toContain(
      api.a.key,
    );
  });

  it('revoked by another process are gone a second later', async () => {
    expect((await api.request('GET', '/v1/me')).status).toBe(200);
    await api.write('update api_keys set revoked_at = 1');
    api.clock.advance(1_001);
    expect((await api.request('GET', '/v1/me')).status).toBe(401);
  });
});

describe('a body that comes slowly', () => {
  it('is cut off with 408 in our words', async () => {
    const { server } = api.app;
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    // The limits themselves are 10 and 30 s; what happens then is the same.
    Object.assign(server, { requestTimeout: 300, headersTimeout: 200, connectionsCheckingInterval: 100 });
    const { port } = server.address() as { port: number };
    const received = await new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () =>
        socket.write(
          `POST /v1/phone-numbers HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${api.a.key}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
        ),
      );
      let text = '';
      socket.on('data', (data) => {
        text += data;
      });
      socket.on('close', () => resolve(text));
      socket.on('error', reject);
    });
    expect(received).toMatch(/^HTTP\/1\.1 408 /);
    expect(JSON.parse(received.slice(received.indexOf('\r\n\r\n') + 4))).toMatchObject({
      error: 'The request took too long to arrive',
      code: 'VALIDATION_ERROR',
    });
  }, 15_000);
});
