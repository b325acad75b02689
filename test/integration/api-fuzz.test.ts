import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorCatalogue } from '../../src/api/errors.js';
import { type Answer, type TestApi, testApi } from '../support/api.js';

/** Whatever is sent, the answer is a success or an error of the catalogue, and never "internal error". */

let api: TestApi;
let endpointId: string;
let trunkId: string;
let numberId: string;
let callId: string;

beforeAll(async () => {
  api = await testApi({
    outboundCalls: { refusal: () => null, start: () => {} },
    connectionTests: { endpoint: async () => [], trunk: async () => [] },
    doctor: async () => [],
    simulateCall: async () => ({
      ...{ ok: true, problems: [], answered: true, sipStatus: null, sipCallId: null, cause: 'normal_clearing' },
      ...{ setupMs: null, durationMs: 0, codec: null, sent: {}, received: {}, roundTrip: null },
    }),
  });
  // As many requests as the test likes.
  const limits = { requests_per_second: 1_000_000, requests_per_day: 1_000_000_000 };
  const organizationId = (await api.store.organizations.create({ name: 'Fuzz', tier: 'enterprise', limits })).id;
  key = await api.addKey({ organizationId });
  const config = { protocol: 'raw', api_key: 'k', headers: { a: 'b' } };
  const endpoint = { name: 'A', type: 'agent', target: 'wss://agent.example.com', provider_config: config };
  endpointId = (await api.request('POST', '/v1/endpoints', { key, body: endpoint })).body.id;
  trunkId = (await api.request('POST', '/v1/trunks', { key, body: { name: 'T' } })).body.id;
  numberId = (await api.request('POST', '/v1/phone-numbers', { key, body: { number: '+15551234567' } })).body.id;
  callId = api.store.calls.begin({
    organizationId,
    mode: 'live',
    direction: 'inbound',
    fromNumber: 'x',
    toNumber: 'y',
    phoneNumberId: numberId,
    endpointId,
  });
});
afterAll(() => api.close());
let key: string;

function expectSound(answer: Answer, sent: string) {
  expect(answer.status, `${sent} → ${answer.text}`).toBeLessThan(500);
  if (answer.status < 400) return;
  expect(Object.keys(errorCatalogue), sent).toContain(answer.body?.code);
  expect(answer.body.error, sent).toBeTypeOf('string');
}

const uuid = fc.oneof(fc.uuid(), fc.constant('0198AAAA-0000-7000-8000-00000000DEAD'), fc.string());
const word = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom(
    '',
    '********',
    '\u0000',
    '\ud800',
    '+15551234567',
    'sip:a@b',
    'wss://e.com',
    'https://e.com',
    "' or 1=1 --",
    '%',
  ),
  fc.webUrl(),
  fc.ipV4(),
);
const anything = fc.oneof(
  word,
  fc.jsonValue({ maxDepth: 4 }),
  fc.double(),
  fc.constant(Number.MAX_VALUE),
  fc.constant(null),
);
const fields = [
  'name',
  'type',
  'target',
  'provider',
  'provider_config',
  'record',
  'status',
  'fallback_endpoint_id',
  'number',
  'endpoint_id',
  'routes',
  'direction',
  'addresses',
  'username',
  'password',
  'gateways',
  'transport',
  'srtp',
  'register',
  'codecs',
  'organization_id',
  'mode',
  'digits',
  'to',
  '__proto__',
  'constructor',
];
/** Values that get past the first check, so that the rules behind it are met too. */
const plausible: Record<string, fc.Arbitrary<unknown>> = {
  name: fc.constantFrom('A', 'B', '名前', "x' --"),
  type: fc.constantFrom('agent', 'webhook'),
  target: fc.oneof(
    fc.webUrl(),
    fc.constantFrom('wss://e.com', 'sip:x@e.com', 'sip:[::1', 'https://e.com:99999', 'wss://[::ffff:1.2.3.4]'),
  ),
  provider: fc.constantFrom('custom', 'openai', 'hume', 'livekit'),
  provider_config: fc.dictionary(
    fc.constantFrom(
      'protocol',
      'sample_rate',
      'encoding',
      'api_key',
      'headers',
      'tools',
      'override',
      'base_url',
      'events_url',
      'format',
      'constructor',
    ),
    fc.oneof(anything, fc.constantFrom('raw', 'l16', 8000), fc.dictionary(word, word)),
  ),
  fallback_endpoint_id: uuid,
  endpoint_id: uuid,
  routes: fc.array(
    fc.record(
      { endpoint_id: uuid, schedule: fc.record({ timezone: word }, { requiredKeys: [] }) },
      { requiredKeys: [] },
    ),
  ),
  addresses: fc.array(fc.oneof(word, fc.ipV4(), fc.ipV6(), fc.constantFrom('10.0.0.0/33', '::/0', '1.2.3.4/-1'))),
  gateways: fc.array(fc.record({ uri: word, priority: fc.integer() }, { requiredKeys: [] })),
  username: word,
  password: word,
  number: word,
  mode: fc.constantFrom('live', 'test'),
  digits: fc.constantFrom('1', '12#', 'w'),
  to: word,
  organization_id: fc.oneof(uuid, fc.constant(null)),
};
const body = fc.dictionary(fc.constantFrom(...fields), anything).chain((wild) =>
  fc.subarray(Object.keys(plausible)).chain((names) =>
    fc.record(Object.fromEntries(names.map((name) => [name, plausible[name] ?? anything]))).map((tame) =>
      // Half of the time the tame fields win.
      names.length % 2 ? { ...wild, ...tame } : tame,
    ),
  ),
);

describe('bodies of any shape', () => {
  const operations = () => [
    ['POST', '/v1/endpoints'],
    ['PATCH', `/v1/endpoints/${endpointId}`],
    ['POST', '/v1/phone-numbers'],
    ['PATCH', `/v1/phone-numbers/${numberId}`],
    ['POST', '/v1/trunks'],
    ['PATCH', `/v1/trunks/${trunkId}`],
    ['POST', '/v1/api-keys'],
    ['POST', `/v1/calls/${callId}/dtmf`],
    ['POST', `/v1/calls/${callId}/transfer`],
    ['POST', `/v1/calls/${callId}/hangup`],
  ];

  it('never make a 500', async () => {
    let refused = 0;
    let taken = 0;
    await fc.assert(
      fc.asyncProperty(fc.nat(9), body, async (which, sent) => {
        const [method = '', url = ''] = operations()[which] ?? [];
        const answer = await api.request(method, url, { key, payload: JSON.stringify(sent) });
        expectSound(answer, `${method} ${url} ${JSON.stringify(sent)}`);
        if (answer.status < 400) taken += 1;
        else refused += 1;
      }),
      { numRuns: 1500 },
    );
    expect(refused).toBeGreaterThan(100);
    expect(taken).toBeGreaterThan(0);
  }, 60_000);

  it('of one kind of record never make a 500, nor leave one that cannot be read', async () => {
    const tame = (names: string[]) =>
      fc.record(Object.fromEntries(names.map((name) => [name, plausible[name] ?? anything])));
    const kinds: [string, fc.Arbitrary<object>][] = [
      ['/v1/endpoints', tame(['name', 'type', 'target', 'provider_config'])],
      ['/v1/trunks', tame(['name', 'addresses'])],
      ['/v1/trunks', tame(['name', 'gateways', 'username', 'password'])],
      [
        '/v1/phone-numbers',
        fc.record({ number: fc.integer({ min: 1_000_000, max: 2_000_000_000 }).map((n) => `+${n}`) }),
      ],
      [`/v1/calls/${callId}/transfer`, tame(['to'])],
    ];
    for (const [url, bodies] of kinds) {
      await fc.assert(
        fc.asyncProperty(bodies, async (sent) => {
          expectSound(
            await api.request('POST', url, { key, payload: JSON.stringify(sent) }),
            `${url} ${JSON.stringify(sent)}`,
          );
        }),
        { numRuns: 200 },
      );
    }
    for (const url of ['/v1/endpoints', '/v1/trunks', '/v1/phone-numbers']) {
      const list = await api.request('GET', `${url}?limit=100`, { key });
      expect(list.status).toBe(200);
      for (const record of list.body.data) {
        expect((await api.request('GET', `${url}/${record.id}`, { key })).body).toEqual(record);
      }
    }
  });
});

interface Schema {
  type?: string | string[];
  enum?: unknown[];
  format?: string;
  pattern?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
}

/** Values that the schema allows, more or less, and now and then something else in their place. */
function fitting(schema: Schema): fc.Arbitrary<unknown> {
  const wrong = { weight: 1, arbitrary: anything };
  const right = (arbitrary: fc.Arbitrary<unknown>) => fc.oneof(wrong, { weight: 8, arbitrary });
  if (schema.enum) return right(fc.constantFrom(...schema.enum));
  const [type] = [schema.type ?? 'object'].flat();
  if (type === 'integer' || type === 'number') {
    const { minimum = -5, maximum = 1_000_000 } = schema;
    const edges = [minimum - 1, minimum, maximum, maximum + 1, 0, 0.5, 1e21, Number.MIN_VALUE, Number.MAX_SAFE_INTEGER];
    return right(
      fc.oneof(fc.constantFrom(...edges), fc.integer({ min: Math.ceil(minimum), max: Math.floor(maximum) })),
    );
  }
  if (type === 'boolean') return right(fc.boolean());
  if (type === 'array') return right(fc.array(fitting(schema.items ?? {}), { maxLength: 4 }));
  if (type === 'object') {
    const { properties = {}, required = [] } = schema;
    const fields = Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, fitting(each)]));
    return right(fc.record(fields, { requiredKeys: required.filter((name) => name in fields) }));
  }
  if (schema.format === 'uuid')
    return right(fc.oneof(fc.uuid(), fc.constantFrom(endpointId, numberId, callId, trunkId)));
  const dates = ['2026-01-15', '2026-02-30', '2026-13-01', '0000-00-00', '9999-12-31', '2026-1-5', '-2026-01-01'];
  if (schema.format === 'date') return right(fc.constantFrom(...dates));
  if (schema.format === 'date-time') return right(fc.constantFrom(...dates.map((day) => `${day}T12:00:00Z`)));
  if (schema.pattern) return right(fc.stringMatching(new RegExp(schema.pattern)));
  return right(fc.oneof(word, fc.constantFrom('+15551234567', '+15550001111', 'name')));
}

let addresses = 0;
const anotherAddress = () => {
  addresses += 1;
  return `10.7.${addresses >> 8}.${addresses & 255}`;
};

describe('requests made from the description', () => {
  it('never make a 500, whatever the operation', async () => {
    const { paths } = (await api.request('GET', '/openapi.json', { key })).body as {
      paths: Record<
        string,
        Record<
          string,
          {
            operationId: string;
            parameters?: { name: string; in: string; schema: Schema }[];
            requestBody?: { content: Record<string, { schema: Schema }> };
          }
        >
      >;
    };
    let operations = 0;
    for (const [path, methods] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        const body = operation.requestBody?.content['application/json']?.schema;
        const query = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query');
        if (operation.operationId === 'streamEvents' || (!body && query.length === 0)) continue;
        operations += 1;
        const parameters = Object.fromEntries(query.map(({ name, schema }) => [name, fitting(schema)]));
        const ids: Record<string, string> = { calls: callId, endpoints: endpointId, trunks: trunkId };
        const url = path.replace('{id}', ids[path.split('/')[2] ?? ''] ?? numberId).replace('{member_id}', numberId);
        const asked = fc.tuple(fitting(body ?? {}), fc.record(parameters, { requiredKeys: [] }));
        await fc.assert(
          fc.asyncProperty(asked, async ([sent, search]) => {
            const text = Object.entries(search).map(([name, value]): [string, string] => [
              name,
              (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).replaceAll(/[\ud800-\udfff]/g, ''),
            ]);
            const where = `${url}?${new URLSearchParams(text)}`;
            const payload = body && JSON.stringify(sent);
            const remoteAddress = anotherAddress(); // public operations are limited by address
            const answer = await api.request(method.toUpperCase(), where, {
              key,
              remoteAddress,
              ...(payload && { payload }),
            });
            if (answer.status === 503) expect(answer.body.code).toBe('NO_TRUNK_AVAILABLE');
            else expectSound(answer, `${method} ${where} ${payload}`);
          }),
          { numRuns: 30 },
        );
      }
    }
    expect(operations).toBeGreaterThan(30);
  }, 60_000);

  it('are refused by every operation that reads a body when a field is twice, a byte is not UTF-8 or a number is none', async () => {
    const { paths } = (await api.request('GET', '/openapi.json', { key })).body;
    const bytes = (text: string, ...more: number[]) =>
      Buffer.from([...Buffer.from(text), ...more, ...Buffer.from('"}')]);
    let operations = 0;
    for (const [path, methods] of Object.entries<Record<string, { requestBody?: { content: object } }>>(paths)) {
      for (const [method, { requestBody }] of Object.entries(methods)) {
        if (!requestBody || !('application/json' in requestBody.content)) continue;
        operations += 1;
        const url = path.replaceAll(/\{\w+\}/g, callId);
        for (const payload of [
          '{"name":"a","name":"b"}',
          '{"name":"a","n\\u0061me":"b"}',
          '{"x":[{"y":1,"y":2}]}',
          bytes('{"name":"', 0xff),
          bytes('{"name":"', 0xc0, 0xaf),
          bytes('{"name":"', 0xed, 0xa0, 0x80),
          '{"name":NaN}',
          '{"name":1e}',
          '{"name":1e999}',
          '{"name":"a"}}',
          '{"name":"a',
        ]) {
          const headers = { 'x-api-key': key, 'content-type': 'application/json' };
          const remoteAddress = anotherAddress();
          const answer = await api.app.inject({
            method: method.toUpperCase() as 'POST',
            url,
            payload,
            headers,
            remoteAddress,
          });
          expect([answer.statusCode, JSON.parse(answer.body).code], `${method} ${url} ${payload}`).toEqual([
            400,
            'VALIDATION_ERROR',
          ]);
        }
      }
    }
    expect(operations).toBeGreaterThan(20);
  });

  it('are refused when a parser would pass over what is wrong in silence', async () => {
    const url = '/v1/phone-numbers';
    const send = (payload: string | Buffer, type = 'application/json') =>
      api.app.inject({ method: 'POST', url, payload, headers: { 'x-api-key': key, 'content-type': type } });
    const refused: [string | Buffer, string][] = [
      ['{"number":"+15550001111","number":"+15550001112"}', 'twice'],
      ['{"number":"+15550001111","num\\u0062er":"+15550001112"}', 'twice'],
      ['{"number":"+1555","routes":[{"endpoint_id":"a"},{"endpoint_id":"a","endpoint_id":"b"}]}', 'twice'],
      [Buffer.from([...Buffer.from('{"number":"+15550001111","name":"'), 0xff, 0xfe, ...Buffer.from('"}')]), 'UTF-8'],
      [
        Buffer.from([...Buffer.from('{"number":"+15550001111","name":"'), 0xed, 0xa0, 0x80, ...Buffer.from('"}')]),
        'UTF-8',
      ],
      ['{"number":1e999}', 'number'],
    ];
    for (const [payload, word] of refused) {
      const { statusCode, body } = await send(payload);
      expect([statusCode, JSON.parse(body).code], String(payload)).toEqual([400, 'VALIDATION_ERROR']);
      expect(JSON.parse(body).error).toContain(word);
    }
    const taken = '{"number":"+15550009999","name":"a: {\\"number\\", ","routes":[]}';
    expect((await send(taken)).statusCode).toBe(201);
    for (const type of [
      'text/plain',
      'application/xml',
      'multipart/form-data; boundary=x',
      'application/x-www-form-urlencoded',
      'nonsense',
    ])
      expect((await send('{}', type)).statusCode, type).toBe(415);
  });
});

describe('bytes, queries, paths and headers of any kind', () => {
  it('never make a 500', async () => {
    const query = fc.dictionary(
      fc.oneof(
        fc.constantFrom(
          'page',
          'limit',
          'action',
          'status',
          'start_date',
          'end_date',
          'phone_number_id',
          'offset',
          'type',
        ),
        fc.string(),
      ),
      fc.oneof(
        fc.string(),
        fc.integer().map(String),
        fc.constantFrom('stats', 'trends', '0000-01-01', '9999-12-31', '2026-02-29', '1e309', '-0', 'NaN'),
      ),
    );
    const path = fc.oneof(
      fc.constantFrom(
        '/v1/calls',
        '/v1/endpoints',
        '/v1/phone-numbers',
        '/v1/trunks',
        '/v1/api-keys',
        `/v1/calls/${callId}/trace`,
      ),
      fc.string().map((text) => `/v1/calls/${encodeURIComponent(text.replaceAll(/[\ud800-\udfff]/g, ''))}`),
    );
    const text = fc.string({ unit: fc.constantFrom(...'{}[]":,\\ue0019-.tfn \u0000é') });
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('GET', 'POST', 'PATCH', 'DELETE'),
        path,
        query,
        text,
        async (method, where, asked, payload) => {
          if (method === 'DELETE') return; // the records are still needed
          const url = `${where}?${new URLSearchParams(asked)}`;
          const answer = await api.request(method, url, { key, ...(method !== 'GET' && { payload }) });
          expectSound(answer, `${method} ${url} ${payload}`);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('never make a key out of nonsense', async () => {
    const header = fc.string({ unit: 'grapheme-ascii', maxLength: 80 });
    let address = 0;
    await fc.assert(
      fc.asyncProperty(header, header, async (authorization, organization) => {
        address += 1;
        const remoteAddress = `10.${address >> 16}.${(address >> 8) & 255}.${address & 255}`;
        const headers = { authorization, 'x-organization-id': organization };
        const answer = await api.request('GET', '/v1/me', { key: null, headers, remoteAddress });
        expect(answer.status).toBe(401);
        const known = await api.request('GET', '/v1/me', { key, headers: { 'x-organization-id': organization } });
        expectSound(known, organization);
      }),
      { numRuns: 300 },
    );
  });
});
