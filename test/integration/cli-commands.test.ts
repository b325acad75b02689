import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { settingsList } from '../../config/settings.js';
import { runUntilStopped } from '../../src/cli/commands/start.js';
import { runCli } from '../../src/cli/program.js';

interface Asked {
  method: string;
  url: string;
  key: string | undefined;
  body: unknown;
}

const id = '0193a6f2-1111-7000-8000-000000000001';
const call = {
  id,
  from_number: '+15550001',
  to_number: '+15550100',
  direction: 'inbound',
  status: 'completed',
  duration: 12,
  cost: 1.5,
  latency_ms: 79,
  phone_number_id: id,
  endpoint_id: id,
  recording_url: null,
  hangup_cause: 'normal_clearing',
  organization_id: id,
  created_at: '2026-01-31T10:00:00.123Z',
  answered_at: '2026-01-31T10:00:01.000Z',
  completed_at: '2026-01-31T10:00:13.000Z',
};
const detail = {
  ...call,
  quality_metrics: { mos: 4.39, jitter_ms: 2, packet_loss: 0.5, codec: 'PCMU' },
  events: [
    {
      id,
      event_type: 'call.initiated',
      event_data: { dialled: '\u001b[2J' },
      created_at: '2026-01-31T10:00:00.123Z',
      sequence: 1,
    },
  ],
  transcript: 'caller: hello\nagent: hi',
  sip_call_id: 'abc@host',
  hangup_source: 'caller',
};
const endpoint = {
  id,
  name: 'bot',
  type: 'agent',
  target: 'ws://x/',
  provider: 'custom',
  status: 'active',
  health: 'unknown',
};
const page = (record: unknown) => ({ data: [record], total: 1, limit: 50, offset: 0 });

/** What the fake API answers: `METHOD path` → status and body. */
let answers: Record<string, [number, unknown]>;
let asked: Asked[];
let server: Server;
let url: string;

beforeAll(async () => {
  server = createServer((request, response) => {
    void readBody(request).then((body) => {
      const key = request.headers.authorization;
      asked.push({ method: request.method ?? '', url: request.url ?? '', key, body });
      const [status, answer] = answers[`${request.method} ${request.url?.split('?')[0]}`] ?? [
        404,
        { error: 'Not found', code: 'NOT_FOUND' },
      ];
      response.writeHead(status, { 'content-type': typeof answer === 'string' ? 'text/plain' : 'application/json' });
      response.end(status === 204 ? undefined : typeof answer === 'string' ? answer : JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => new Promise<void>((resolve) => void server.close(() => resolve())));
beforeEach(() => {
  asked = [];
  answers = {
    'GET /v1/calls': [200, { data: [call], total: 41, page: 1, limit: 20, total_pages: 3 }],
    [`GET /v1/calls/${id}`]: [200, detail],
    [`GET /v1/calls/${id}/trace`]: [
      200,
      '<-- udp 192.0.2.1:5060\r\nINVITE sip:1@x SIP/2.0\r\n\r\nX: \u001b]0;title\u0007\r\n',
    ],
    'GET /v1/endpoints': [200, page(endpoint)],
    'POST /v1/endpoints': [201, endpoint],
    [`GET /v1/endpoints/${id}`]: [200, { ...endpoint, provider_config: { protocol: 'twilio' } }],
    [`DELETE /v1/endpoints/${id}`]: [204, null],
    'GET /v1/phone-numbers': [
      200,
      page({ id, number: '+15550100', name: 'Demo', endpoint_id: null, status: 'active' }),
    ],
    'POST /v1/phone-numbers': [201, { id, number: '+15550100' }],
    [`PATCH /v1/phone-numbers/${id}`]: [200, { id, number: '+15550100', endpoint_id: null }],
    'GET /v1/trunks': [
      200,
      page({
        id,
        name: 'c',
        direction: 'both',
        addresses: ['10.0.0.0/8'],
        gateways: [{ uri: 'sip:a' }],
        transport: 'udp',
        status: 'active',
        health: 'unknown',
      }),
    ],
    'POST /v1/trunks': [201, { id }],
    'GET /v1/api-keys': [
      200,
      page({
        id,
        name: 'k',
        prefix: 'trunkline_live_ab',
        mode: 'live',
        organization_id: null,
        created_at: call.created_at,
        last_used_at: null,
      }),
    ],
    'GET /v1/organizations': [
      200,
      page({ id, name: 'Default', tier: 'enterprise', balance_cents: null, created_at: call.created_at }),
    ],
    [`GET /v1/organizations/${id}`]: [200, { id, name: 'Default', limits: { concurrent_calls: 5 } }],
    'POST /v1/organizations': [201, { id, name: 'New' }],
    [`GET /v1/organizations/${id}/members`]: [
      200,
      page({ id, name: 'Ben', role: 'member', status: 'invited', subject: null, email: 'ben@example.com' }),
    ],
    [`POST /v1/organizations/${id}/members`]: [201, { id, role: 'admin', subject: null, email: 'ben@example.com' }],
    [`DELETE /v1/organizations/${id}/members/${id}`]: [204, null],
    'POST /v1/api-keys': [201, { id, key: 'trunkline_live_secret' }],
    [`DELETE /v1/api-keys/${id}`]: [204, null],
  };
});

async function readBody(request: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text === '' ? undefined : JSON.parse(text);
}

async function run(...args: string[]): Promise<{ code: number; out: string[]; err: string[] }> {
  return runWith({ TRUNKLINE_API_KEY: 'k1' }, '--url', url, ...args);
}

async function runWith(
  env: Record<string, string>,
  ...args: string[]
): Promise<{ code: number; out: string[]; err: string[] }> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runCli(args, {
    env,
    out: (line) => out.push(...line.split('\n')),
    err: (line) => err.push(...line.split('\n')),
  });
  return { code, out, err };
}

describe('calls', () => {
  it('lists them aligned, with units, the count last', async () => {
    expect(await run('calls', '--status', 'completed', '--since', '2026-01-31')).toEqual({
      code: 0,
      err: [],
      out: [
        'ID                                    CREATED               DIRECTION  FROM       TO         STATUS     DURATION  LATENCY     COST  CAUSE',
        `${id}  2026-01-31T10:00:00Z  inbound    +15550001  +15550100  completed      12 s    79 ms  1.50 ct  normal_clearing`,
        '1 of 41 calls (page 1 of 3)',
      ],
    });
    expect(asked).toEqual([
      {
        method: 'GET',
        url: '/v1/calls?limit=20&page=1&status=completed&start_date=2026-01-31',
        key: 'Bearer k1',
        body: undefined,
      },
    ]);
  });

  it('shows one with its events, and nothing that steers the terminal', async () => {
    const { code, out } = await run('calls', id);
    expect(code).toBe(0);
    const figures = out.map((line) => line.replace(/ {2,}/, ': '));
    expect(figures).toContain('duration: 12 s');
    expect(figures).toContain('loss: 0.5 %');
    expect(figures).toContain('round trip: -');
    expect(out).toContain('agent: hi');
    expect(out.some((line) => line.includes('call.initiated'))).toBe(true);
    expect(out.at(-1)).toBe('completed: normal_clearing');
    expect(out.join('')).not.toContain('\u001b');
  });

  it('prints a trace', async () => {
    const { out } = await run('trace', id);
    expect(out).toEqual(['<-- udp 192.0.2.1:5060', 'INVITE sip:1@x SIP/2.0', '', 'X: ?]0;title?']);
    expect(asked[0]?.url).toBe(`/v1/calls/${id}/trace?format=text`);
  });

  it.each([
    ['calls'],
    ['calls', id],
    ['endpoints'],
    ['endpoints', 'show', id],
    ['numbers'],
    ['trunks'],
    ['keys', 'list'],
    ['orgs'],
    ['orgs', 'show', id],
    ['orgs', 'members', id],
  ])('answers in JSON: %s %s', async (...args) => {
    const { code, out } = await run(...args, '--json');
    expect(code).toBe(0);
    expect(() => JSON.parse(out.join('\n'))).not.toThrow();
  });
});

describe('records', () => {
  it.each([
    ['endpoints', ['ID', 'NAME', 'TYPE', 'PROVIDER', 'TARGET', 'STATUS', 'HEALTH'], '1 of 1 endpoint'],
    ['numbers', ['ID', 'NUMBER', 'NAME', 'ENDPOINT', 'STATUS'], '1 of 1 number'],
    ['trunks', ['ID', 'NAME', 'DIRECTION', 'ADDRESSES', 'GATEWAYS', 'TRANSPORT', 'STATUS', 'HEALTH'], '1 of 1 trunk'],
    ['keys', ['ID', 'NAME', 'PREFIX', 'MODE', 'ORGANIZATION', 'CREATED', 'LAST USED'], '1 of 1 key'],
    ['orgs', ['ID', 'NAME', 'TIER', 'BALANCE (CENTS)', 'CREATED'], '1 of 1 organization'],
  ])('%s are a table', async (command, columns, last) => {
    const { code, out } = await run(command);
    expect(code).toBe(0);
    expect(out[0]?.split(/ {2,}/)).toEqual(columns);
    expect(out).toHaveLength(3);
    expect(out.at(-1)).toBe(last);
  });

  it.each([
    [
      [
        'endpoints',
        'add',
        '--name',
        'bot',
        '--target',
        'wss://x/',
        '--protocol',
        'raw',
        '--provider-config',
        '{"sample_rate":16000}',
      ],
      { name: 'bot', type: 'agent', target: 'wss://x/', provider_config: { protocol: 'raw', sample_rate: 16000 } },
      `added endpoint ${id}`,
    ],
    [
      ['endpoints', 'add', '--name', 'app', '--type', 'webhook', '--target', 'https://x/'],
      { name: 'app', type: 'webhook', target: 'https://x/' },
      `added endpoint ${id}`,
    ],
    [
      ['numbers', 'add', '+15550100', '--endpoint', id],
      { number: '+15550100', endpoint_id: id },
      `added number +15550100 ${id}`,
    ],
    [['numbers', 'attach', id], { endpoint_id: null }, 'number +15550100 is now routed to no endpoint'],
    [
      [
        'trunks',
        'add',
        '--name',
        'c',
        '--address',
        '10.0.0.0/8',
        '192.0.2.1',
        '--gateway',
        'sip:a',
        'sip:b',
        '--register',
      ],
      {
        name: 'c',
        addresses: ['10.0.0.0/8', '192.0.2.1'],
        gateways: [
          { uri: 'sip:a', priority: 0 },
          { uri: 'sip:b', priority: 1 },
        ],
        register: true,
      },
      `added trunk ${id}`,
    ],
    [['keys', 'create', '--name', 'k'], { name: 'k', mode: 'live' }, `created key ${id}`],
    [['keys', 'revoke', id], undefined, `revoked key ${id}`],
    [['endpoints', 'remove', id], undefined, `removed endpoint ${id}`],
    [['orgs', 'create', 'New'], { name: 'New', tier: 'free' }, `created organization New ${id}`],
    [['orgs', 'members', id], undefined, '1 of 1 member'],
    [
      ['orgs', 'invite', id, '--email', 'ben@example.com', '--role', 'admin'],
      { email: 'ben@example.com', role: 'admin' },
      `invited ben@example.com as admin ${id}`,
    ],
    [['orgs', 'remove-member', id, id], undefined, `removed member ${id}`],
  ])('%j', async (args, body, last) => {
    const { code, out, err } = await run(...args);
    expect({ code, err }).toEqual({ code: 0, err: [] });
    expect(asked).toHaveLength(1);
    expect(asked[0]?.body).toEqual(body);
    expect(out.at(-1)).toBe(last);
  });

  it('show the secret, which is shown only once', async () => {
    expect((await run('keys', 'create', '--name', 'k')).out[0]).toBe('key, shown only now: trunkline_live_secret');
    answers['POST /v1/endpoints'] = [201, { ...endpoint, webhook_secret: 'whsec_x' }];
    expect((await run('endpoints', 'add', '--name', 'a', '--type', 'webhook', '--target', 'https://x/')).out[0]).toBe(
      'webhook secret, shown only now: whsec_x',
    );
  });
});

it('prints its version', async () => {
  const { code, out } = await run('--version');
  expect({ code, out }).toEqual({ code: 0, out: [JSON.parse(readFileSync('package.json', 'utf8')).version] });
});

describe('failures are one line each, exit code 1', () => {
  it('of the API', async () => {
    const fields = [{ path: 'limit', message: 'must be <= 100' }];
    answers['GET /v1/calls'] = [
      400,
      { error: 'The request is not valid', code: 'VALIDATION_ERROR', details: { fields } },
    ];
    expect(await run('calls', '--limit', '1000')).toEqual({
      code: 1,
      out: [],
      err: ['VALIDATION_ERROR: The request is not valid', '  limit: must be <= 100'],
    });
    expect(await run('endpoints', 'show', 'x')).toMatchObject({ code: 1, err: ['NOT_FOUND: Not found'] });
  });

  it('of the API: a field that the message names is not repeated', async () => {
    const fields = [
      { path: 'name', message: 'is required' },
      { path: 'type', message: 'is required' },
    ];
    answers['POST /v1/endpoints'] = [
      400,
      { error: 'name: is required', code: 'VALIDATION_ERROR', details: { fields } },
    ];
    expect((await run('endpoints', 'add', '--name', 'a', '--type', 'webhook', '--target', 'https://x/')).err).toEqual([
      'VALIDATION_ERROR: name: is required',
      '  type: is required',
    ]);
  });

  it('of something that is not our API', async () => {
    answers['GET /v1/calls'] = [502, '<html>Bad Gateway</html>'];
    expect((await run('calls')).err).toEqual(['HTTP 502: Bad Gateway']);
    answers['GET /v1/calls'] = [200, '<html>'];
    expect((await run('calls')).err[0]).toContain('did not respond with JSON');
  });

  it('of the way there', async () => {
    const gone = createServer();
    await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve));
    const { port } = gone.address() as AddressInfo;
    await new Promise<void>((resolve) => void gone.close(() => resolve()));
    const env = { TRUNKLINE_API_KEY: 'k', TRUNKLINE_HTTP_PORT: String(port) };
    expect(await runWith(env, 'calls')).toEqual({
      code: 1,
      out: [],
      err: [
        `Cannot reach http://127.0.0.1:${port}: connection refused. Start the server (trunkline start), or give its address with --url.`,
      ],
    });
  });

  it.each([
    [{}, ['calls'], /^No API key: set TRUNKLINE_API_KEY/],
    [{ TRUNKLINE_API_KEY: 'a\nb' }, ['calls'], /contains invalid characters/],
    [{ TRUNKLINE_HTTP_PROT: '1', TRUNKLINE_API_KEY: 'k' }, ['calls'], /did you mean TRUNKLINE_HTTP_PORT\?/],
    [{}, ['settings', '--config', '/nowhere.yaml'], /cannot be read \(it does not exist\)/],
    [{ TRUNKLINE_SIP_PORT: 'x' }, ['start'], /^TRUNKLINE_SIP_PORT: "x" is not allowed/],
    [{ TRUNKLINE_API_KEY: 'k' }, ['calls', '--url', 'ftp://x'], /is not an http: or https: URL/],
    [
      {},
      ['endpoints', 'add', '--name', 'x', '--provider-config', '{"api_key":"sk-1"', '--key', 'k'],
      /must be a JSON object/,
    ],
    [{}, ['call', '+1', '--loss', '200%'], /0% to 100%/],
    [{}, ['call', '+1', '--jitter', 'much'], /Give a duration/],
    [{}, ['call', '+1', '--digits', '12x'], /--digits: only 0-9/],
    [{}, ['call', '+1', '--wav', '/nowhere.wav'], /\/nowhere\.wav: no such file/],
    [{}, ['call', '+1', '--ptime', '25'], /in steps of 10/],
    [{}, ['call', '+1', '--to-host', 'a:b:c'], /HOST:PORT/],
    [{}, ['frobnicate'], /unknown command/],
  ])('%j %j', async (env, args, line) => {
    const { code, out, err } = await runWith(env as Record<string, string>, ...args);
    expect(code).toBe(1);
    expect(out).toEqual([]);
    expect(err.join('\n')).toMatch(line);
    expect(err.join('\n')).not.toContain('sk-1');
    expect(err.join('\n')).not.toMatch(/^\s+at /m);
  });
});

describe('help and settings', () => {
  it.each([
    [],
    ['call'],
    ['calls'],
    ['trace'],
    ['endpoints'],
    ['numbers'],
    ['trunks'],
    ['keys'],
    ['settings'],
    ['doctor'],
    ['start'],
  ])('%s --help explains', async (...args) => {
    const { code, out } = await runWith({}, ...args, '--help');
    expect(code).toBe(0);
    expect(out[0]).toMatch(/^Usage: trunkline/);
    expect(out.join('\n')).toContain('--json');
  });

  it('lists every setting with what it is now, never a secret', async () => {
    const env = {
      TRUNKLINE_METRICS_TOKEN: 'tokentoken',
      TRUNKLINE_SIP_SERVER: 'drachtio://:hunter2@h',
      TRUNKLINE_HTTP_PORT: '3005',
    };
    const { code, out } = await runWith(env, 'settings');
    expect(code).toBe(0);
    expect(out.find((line) => line.startsWith('TRUNKLINE_HTTP_PORT'))).toMatch(/ 3005 +3000 /);
    expect(out.join('\n')).not.toMatch(/tokentoken|hunter2/);
    expect(out.at(-1)).toBe(`${settingsList.length} settings, all valid`);
    const json = await runWith(env, 'settings', '--json');
    expect(json.out.join('\n')).not.toMatch(/tokentoken|hunter2/);
    expect(JSON.parse(json.out.join('\n'))).toHaveLength(settingsList.length);
  });
});

describe('start', () => {
  function running() {
    let finish!: () => void;
    const stops: number[] = [];
    const stopped = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const exits: unknown[] = [];
    const signals = Object.assign(new EventEmitter(), { exit: (code?: unknown) => void exits.push(code) });
    const lines: string[] = [];
    const done = runUntilStopped(
      {
        stopped,
        stop: async (graceMs) => {
          stops.push(graceMs);
        },
      },
      { shutdownGraceSec: 600 },
      { err: (line) => lines.push(line) },
      signals as never,
    );
    return { stops, exits, signals, lines, done, finish };
  }

  it('drains on SIGTERM, hangs up on a second signal, leaves at once on a third', async () => {
    const { stops, exits, signals, lines, done, finish } = running();
    signals.emit('SIGTERM', 'SIGTERM');
    signals.emit('SIGTERM', 'SIGTERM');
    expect(stops).toEqual([600_000, 0]);
    expect(exits).toEqual([]);
    signals.emit('SIGINT', 'SIGINT');
    expect(exits).toEqual([1]);
    expect(lines[0]).toBe('SIGTERM: accepting no new calls, waiting up to 600 s for live calls');
    finish();
    await done;
    expect(signals.listenerCount('SIGTERM') + signals.listenerCount('SIGINT')).toBe(0);
  });

  it('hangs up on SIGINT', async () => {
    const { stops, signals, done, finish } = running();
    signals.emit('SIGINT', 'SIGINT');
    expect(stops).toEqual([0]);
    finish();
    await done;
  });
});

describe('failures with --json are one document on standard output', () => {
  const document = async (...args: string[]) => {
    const { code, out, err } = await run(...args, '--json');
    expect({ code, err }).toEqual({ code: 1, err: [] });
    return JSON.parse(out.join('\n'));
  };

  it('of the API: its own error', async () => {
    expect(await document('calls', 'nothing')).toEqual({ error: 'Not found', code: 'NOT_FOUND' });
    const fields = [{ path: 'name', message: 'is required' }];
    answers['POST /v1/organizations'] = [
      400,
      { error: 'name: is required', code: 'VALIDATION_ERROR', details: { fields } },
    ];
    expect(await document('orgs', 'create', '')).toEqual({
      error: 'name: is required',
      code: 'VALIDATION_ERROR',
      details: { fields },
    });
  });

  it('of the command line: with codes of their own', async () => {
    expect(await document('calls', '--colour')).toEqual({ error: "unknown option '--colour'", code: 'USAGE' });
    expect(await document('nonsense')).toMatchObject({ code: 'USAGE' });
    expect(await document('calls', '--url', 'ftp://x')).toMatchObject({ code: 'USAGE' });
    const { code, out } = await runWith({}, 'calls', '--json');
    expect([code, JSON.parse(out.join('\n')).code]).toEqual([1, 'NO_API_KEY']);
    const closed = await document('calls', '--url', 'http://127.0.0.1:9');
    expect(closed).toMatchObject({
      code: 'SERVER_UNREACHABLE',
      error: expect.stringContaining('Cannot reach http://127.0.0.1:9: '),
    });
  });
});
