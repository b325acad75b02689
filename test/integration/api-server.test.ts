import { type AddressInfo, connect, createServer } from 'node:net';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ApiServer, startApi } from '../../src/api/server.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { type TestApi, testApi } from '../support/api.js';

let api: TestApi;
beforeEach(async () => {
  api = await testApi();
});
afterEach(() => api.close());

const options = () => ({
  store: api.store,
  liveCalls: { count: 0, command: async () => ({ ok: true as const }) },
  ready: () => ({ ready: true, checks: {}, problems: [], degraded: [] }),
  metrics: new Registry(),
  allowPrivateTargets: false,
  recordingsFolder: '/nonexistent',
  onTrunksChanged: () => {},
});

/** Sends bytes and reads until the server closes. */
function exchange(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    let received = '';
    socket.setTimeout(5000, () => reject(new Error(`nothing more came after ${JSON.stringify(received)}`)));
    socket.on('data', (data) => {
      received += data;
    });
    socket.on('close', () => resolve(received));
    socket.on('error', reject);
  });
}

describe('a listening server', () => {
  let server: ApiServer;
  beforeEach(async () => {
    server = await startApi({ ...options(), host: '127.0.0.1', port: 0 });
  });
  afterEach(() => server.close());

  it('answers, and is gone when closed', async () => {
    const response = await fetch(`http://127.0.0.1:${server.port}/v1/me`, { headers: { 'x-api-key': api.a.key } });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    await server.close();
    await expect(fetch(`http://127.0.0.1:${server.port}/healthz`)).rejects.toThrow();
  });

  it('answers garbage, huge headers and contradictory lengths in our words, and closes', async () => {
    const cases: [string, RegExp][] = [
      ['INVITE sip:x SIP/2.0\r\n\r\n', /^HTTP\/1\.1 400 /],
      [`GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${'y'.repeat(20_000)}\r\n\r\n`, /^HTTP\/1\.1 431 /],
      [
        'POST /v1/endpoints HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
        /^HTTP\/1\.1 400 /,
      ],
    ];
    for (const [bytes, status] of cases) {
      const answer = await exchange(server.port, bytes);
      expect(answer).toMatch(status);
      const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4));
      expect(body).toMatchObject({ error: expect.any(String), code: 'VALIDATION_ERROR' });
    }
  });

  it('keeps no connection of those who neither read its refusal nor close', async () => {
    const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
    socket.on('error', () => {}); // cut off at last
    await new Promise((resolve) => socket.once('connect', resolve));
    socket.write('INVITE sip:x SIP/2.0\r\n\r\n');
    // Writing on is refused when the server has let go of the connection, and not before.
    await vi.waitFor(
      () => {
        socket.write('x');
        expect(socket.destroyed).toBe(true);
      },
      { timeout: 10_000, interval: 50 },
    );
  });

  it('never passes the limit for requests in one packet', async () => {
    const organizationId = (await api.store.organizations.create({ name: 'Free', tier: 'free' })).id;
    const key = await api.addKey({ organizationId });
    const one = `GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${key}\r\n`;
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 0, 15) });
    try {
      const answers = await exchange(server.port, `${`${one}\r\n`.repeat(29)}${one}Connection: close\r\n\r\n`);
      expect(answers.match(/HTTP\/1\.1 200/g)).toHaveLength(10);
      expect(answers.match(/HTTP\/1\.1 429/g)).toHaveLength(20);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('starting', () => {
  it('says in one sentence that the port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const { port } = other.address() as AddressInfo;
    const message = `Cannot listen on http://127.0.0.1:${port}: the port is in use`;
    await expect(startApi({ ...options(), host: '127.0.0.1', port })).rejects.toThrow(message);
    await new Promise((resolve) => other.close(resolve));
  });

  it('limits how long a request may take to arrive', () => {
    const { headersTimeout, requestTimeout, timeout, keepAliveTimeout, maxConnections } = api.app.server;
    expect({ headersTimeout, requestTimeout, timeout, keepAliveTimeout, maxConnections }).toEqual({
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      timeout: 60_000,
      keepAliveTimeout: 65_000,
      maxConnections: 2_000,
    });
  });
});

describe('probes', () => {
  it('healthz is 200 while the process lives; readyz tells what does not work', async () => {
    expect((await api.request('GET', '/healthz', { key: null })).body).toEqual({ status: 'ok' });
    expect((await api.request('GET', '/readyz', { key: null })).body).toEqual({
      ready: true,
      checks: { database: true },
      problems: [],
      degraded: [],
    });
    await api.close();
    const broken = { ready: false, checks: { sip: false, database: true }, problems: [], degraded: [] };
    api = await testApi({ ready: async () => broken });
    const answer = await api.request('GET', '/readyz', { key: null });
    expect([answer.status, answer.body]).toEqual([503, broken]);
  });

  it('are never limited', async () => {
    const answers = await Promise.all(Array.from({ length: 60 }, () => api.request('GET', '/healthz', { key: null })));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
  });

  it('metrics tell the methods of unknown paths apart', async () => {
    for (const method of ['GET', 'POST', 'POST'] as const) await api.request(method, '/nowhere', { key: null });
    const { text } = await api.request('GET', '/metrics', { key: null });
    const count = 'trunkline_http_request_duration_seconds_count';
    expect(text).toContain(`${count}{method="GET",route="unknown",status="404"} 1`);
    expect(text).toContain(`${count}{method="POST",route="unknown",status="404"} 2`);
  });

  it('metrics are for loopback peers, and for others with the token', async () => {
    await api.close();
    api = await testApi({ metricsToken: 'scrape' });
    await api.request('GET', '/v1/me');
    const ask = (remoteAddress: string, headers = {}) =>
      api.request('GET', '/metrics', { key: null, remoteAddress, headers });
    for (const local of ['127.0.0.1', '::1', '::ffff:127.0.0.1']) expect((await ask(local)).status, local).toBe(200);
    expect((await ask('127.0.0.1')).text).toContain(
      'trunkline_http_request_duration_seconds_count{method="GET",route="/v1/me",status="200"} 1',
    );
    const refused = await ask('192.0.2.1');
    expect([refused.status, refused.body.code]).toEqual([401, 'UNAUTHORIZED']);
    expect((await ask('192.0.2.1', { authorization: 'Bearer other' })).status).toBe(401);
    expect((await ask('192.0.2.1', { authorization: 'Bearer scrape' })).status).toBe(200);
    // A proxy on this machine that was not declared.
    expect((await ask('127.0.0.1', { 'x-forwarded-for': '192.0.2.1' })).status).toBe(401);
  });
});

describe('faults', () => {
  it('never tell their text, and are logged under the request id', async () => {
    await api.close();
    const logged: { err?: Error; request_id?: string }[] = [];
    const log = {
      level: 'info',
      info() {},
      warn() {},
      debug() {},
      trace() {},
      fatal() {},
      silent() {},
      error: (fields: { err?: Error }) => logged.push(fields),
      child: (fields: object) => ({ ...log, error: (more: object) => logged.push({ ...fields, ...more }) }),
    };
    api = await testApi({
      log,
      liveTrace: () => {
        throw new Error('secret place /etc/x');
      },
    });
    const id = api.store.calls.begin({
      organizationId: api.a.organizationId,
      mode: 'live',
      direction: 'inbound',
      fromNumber: 'x',
      toNumber: 'y',
      phoneNumberId: '0198aaaa-0000-7000-8000-000000000001',
      endpointId: null,
      sipCallId: 'x',
    });
    const answer = await api.request('GET', `/v1/calls/${id}/trace`);
    expect([answer.status, answer.body]).toEqual([500, { error: 'Internal error', code: 'INTERNAL_ERROR' }]);
    expect(logged).toEqual([
      expect.objectContaining({
        request_id: answer.headers['x-request-id'],
        err: expect.objectContaining({ message: 'secret place /etc/x' }),
      }),
    ]);
  });

  it('a locked database is 503 with Retry-After for writes, and no trouble for reads', async () => {
    const Driver = loadDriver();
    const holder = new Driver(api.file);
    holder.exec('begin exclusive');
    const write = await api.request('POST', '/v1/trunks', { body: { name: 'T' } });
    expect([write.status, write.body.code, write.headers['retry-after']]).toEqual([503, 'SERVICE_UNAVAILABLE', '1']);
    expect((await api.request('GET', '/v1/trunks')).status).toBe(200);
    expect((await api.request('GET', '/v1/calls')).status).toBe(200);
    holder.exec('rollback');
    holder.close();
    expect((await api.request('POST', '/v1/trunks', { body: { name: 'T' } })).status).toBe(201);
  });
});

describe('HEAD', () => {
  it('asks for a key like GET', async () => {
    expect((await api.request('HEAD', '/v1/calls', { key: null })).status).toBe(401);
    const head = await api.request('HEAD', '/v1/calls');
    expect([head.status, head.text]).toEqual([200, '']);
  });
});
