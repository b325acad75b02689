import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

let api: TestApi;
let endpointId: string;
const started: string[] = [];
const own = '+12025550100';

beforeEach(async () => {
  started.length = 0;
  api = await testApi({ outboundCalls: { refusal: () => null, start: ({ toNumber }) => started.push(toNumber) } });
  const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
  const agent = {
    name: 'E',
    type: 'agent',
    target: 'wss://a.example',
    provider: 'custom',
    providerConfig: {},
  } as const;
  endpointId = (await api.store.endpoints.create(scope, agent)).record.id;
  await api.store.phoneNumbers.create(scope, { number: own, endpointId });
});
afterEach(() => api.close());

const limit = (limits: object) => api.store.organizations.update(api.a.organizationId, { limits });
const post = (to: unknown, from: string = own) =>
  api.request('POST', '/v1/outbound-calls', { body: { to_number: to, from_number: from, endpoint_id: endpointId } });

/** 18 that may be called with the prefixes of the table: Washington, Berlin, Hamburg, London; spaces and dashes are for the eye. */
const allowed = [
  ...['+12025550123', '+1 202 555 0124', '+1-202-555-0125', '+1 (202) 555.0126', '+12025550127', '+1202555'],
  ...['+493012345', '+49 30 1234567', '+4930123456789', '+49-30-123', '+494012345', '+49 40 1234567'],
  ...['+442012345', '+44 20 7946 0001', '+442079460002', '+44 (20) 7946 0003', '+44.20.7946.0004', '+442099999999999'],
];
/** Premium, satellite, shared-cost, Caribbean behind +1, and everything else outside of the prefixes. */
const elsewhere = [
  ...['+19005550123', '+19765550123', '+18765550123', '+18095550123', '+12845550123', '+14735550123', '+16495550123'],
  ...['+881612345678', '+88213212345', '+88234512345', '+883510012345', '+870773123456', '+8835100123', '+87812345678'],
  ...['+97912345678', '+80012345678', '+80812345678', '+88812345678', '+99112345678', '+2471234567', '+2901234567'],
  ...[
    '+447012345678',
    '+449098790001',
    '+448712345678',
    '+449012345678',
    '+4490012345',
    '+491805123456',
    '+4990012345678',
  ],
  ...['+4913712345678', '+3389912345', '+34803123456', '+39892123456', '+41901123456', '+43900123456', '+48700123456'],
  ...['+2521234567', '+2411234567', '+22412345678', '+23276123456', '+25361234567', '+2691234567', '+67712345678'],
  ...['+6881234567', '+6741234567', '+5312345678', '+53512345678', '+37112345678', '+37212345678', '+12035550123'],
];
/** What is no E.164 number, whatever a switch behind us would make of it. */
const malformed: unknown[] = [
  ...['0018816123456', '01188161234567', '900', '112', '911', '*67+12025550123', '+12025550123#', '#31#+12025550123'],
  ...['+12025550123;phone-context=+881', '+12025550123,,881', '+12025550123p9', '+12025550123w9', '+12025550123x1'],
  ...['tel:+12025550123', '+12025550123@evil.example', '+12025550123\r\nX: y', 'client:', 'client:../x', 'client:a b'],
  ...[
    'sip:',
    'sip:example.com',
    'sip:+12025550123',
    'sip:a@10.0.0.1',
    'sip:a@localhost',
    'sip:a:b@example.com',
    'sips:a@[::1]',
  ],
  ...[
    '+12025550123\u0000',
    '+１２０２５５５０１２３',
    '+١٢٠٢٥٥٥٠١٢٣',
    '+0012025550123',
    '++12025550123',
    '+',
    '',
    '+1202555012345678',
    '+12',
  ],
  ...[
    '12025550123',
    '+1202555012e3',
    '+1%32025550123',
    '+1/202/5550123',
    '＋12025550123',
    '+1\t2025550123',
    12025550123,
    null,
    ['+12025550123'],
  ],
];

describe('numbers', () => {
  beforeEach(() => limit({ allowed_prefixes: ['+1202', '+4930', '+4940', '+4420'] }));

  it(`a table of ${allowed.length + elsewhere.length + malformed.length}: nothing but E.164, nothing outside of the prefixes`, async () => {
    expect(allowed.length + elsewhere.length + malformed.length).toBeGreaterThanOrEqual(100);
    const found: [unknown, string][] = [];
    const wanted: [unknown, string][] = [];
    const ask = async (to: unknown, expected: string[]) => {
      const { status, body } = await post(to);
      const said = status === 201 ? 'called' : `${status} ${body.code}`;
      found.push([to, said]);
      wanted.push([to, expected.includes(said) ? said : expected.join(' or ')]);
    };
    for (const to of allowed) await ask(to, ['called']);
    for (const to of elsewhere) await ask(to, ['403 DESTINATION_NOT_ALLOWED']);
    for (const to of malformed) await ask(to, ['400 INVALID_PHONE_NUMBER', '400 VALIDATION_ERROR']);
    expect(found).toEqual(wanted);
    expect(started).toEqual(allowed.map((to) => to.replace(/[ \-.()]/g, '')));
  });

  it('a caller id that is not its own is refused, and one of another organization is as unknown as none', async () => {
    const scope = { organizationId: api.b.organizationId, mode: 'live' } as const;
    await api.store.phoneNumbers.create(scope, { number: '+12025550199', endpointId: null });
    for (const from of ['+12025550199', '+12025550177', '+15005550006'])
      expect((await post('+12025550123', from)).body.code).toBe('CALLER_ID_NOT_ALLOWED');
    expect(started).toEqual([]);
  });
});

describe('a stolen key', () => {
  const burst = async (count: number) => {
    const answers = await Promise.all(Array.from({ length: count }, () => post('+12025550123')));
    return answers.filter(({ status }) => status === 201).length;
  };

  it('starts no more calls at once than the organization may have', async () => {
    await limit({ concurrent_calls: 7, requests_per_second: 100_000 });
    expect(await burst(200)).toBe(7);
    expect(started).toHaveLength(7);
  });

  it('starts no more calls in a second', async () => {
    await limit({ calls_per_second: 3, requests_per_second: 100_000 });
    expect(await burst(100)).toBe(3);
  });

  it('spends no more a day, whatever the balance', async () => {
    const perMinute = { microcentsPerMinute: 10e6, initialIncrementSec: 60, incrementSec: 60 };
    await api.store.accounts.setRates(api.a.organizationId, [{ direction: 'outbound', prefix: '', ...perMinute }]);
    await api.store.accounts.credit(api.a.organizationId, 100_000, '');
    await limit({ daily_spend_cents: 45, requests_per_second: 100_000 });
    expect(await burst(50)).toBe(4); // of 10 cents each
    expect((await post('+12025550123')).body.code).toBe('SPEND_LIMIT_EXCEEDED');
  });
});
