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
  api = await testApi();
  // As many requests as the test likes.
  const limits = { requests_per_second: 1_000_000, requests_per_day: 1_000_000_000 };
  const organizationId = api.store.organizations.create({ name: 'Fuzz', tier: 'enterprise', limits }).id;
  key = api.addKey({ organizationId });
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
