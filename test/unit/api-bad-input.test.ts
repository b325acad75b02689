import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { providersSelectedBy } from '../../media/agents/providers/registry.js';
import { patternRule } from '../../src/api/schemas/patterns.js';
import { type TestApi, testApi } from '../support/api.js';

/** What a bad request is told: what was wrong, what is allowed, and where. */

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.close());

const problems = async (method: string, url: string, body?: unknown): Promise<Record<string, string>> => {
  const answer = await api.request(method, url, body === undefined ? {} : { body });
  expect([answer.status, answer.body.code], `${method} ${url}`).toEqual([400, 'VALIDATION_ERROR']);
  return Object.fromEntries(
    answer.body.details.fields.map(({ path, message }: { path: string; message: string }) => [path, message]),
  );
};

const named = (field: 'provider' | 'protocol') => providersSelectedBy(field).map(({ provider }) => provider);

describe('a bad field', () => {
  it.each([
    ['status=done', { status: 'must be one of completed, failed, in_progress, no_answer, busy' }],
    ['action=sum', { action: 'must be one of stats, trends' }],
    ['limit=0', { limit: 'must be at least 1' }],
    ['limit=101', { limit: 'must be at most 100' }],
    ['limit=many', { limit: 'must be a whole number' }],
    ['phone_number_id=7', { phone_number_id: 'must be a UUID, like 0198c0de-0000-7000-8000-000000000000' }],
    ['start_date=soon', { start_date: 'must be a date, like 2026-01-31' }],
  ])('of a query: %s', async (query, expected) => {
    expect(await problems('GET', `/v1/calls?${query}`)).toEqual(expected);
  });

  it('of a body', async () => {
    expect(await problems('POST', '/v1/endpoints', { name: '', type: 'fax', record: 1, provider: 'x' })).toMatchObject({
      name: 'must have at least 1 character',
      type: 'must be one of agent, webhook',
      record: 'must be true or false',
      provider: `must be one of ${[...named('provider'), 'custom'].join(', ')}`,
    });
    const agent = { name: 'A', type: 'agent', target: 'wss://a.example.com' };
    expect(
      await problems('POST', '/v1/endpoints', { ...agent, provider_config: { protocol: 'morse', sample_rate: 1 } }),
    ).toEqual({
      'provider_config.protocol': `must be one of ${named('protocol').join(', ')}`,
      'provider_config.sample_rate': 'must be one of 8000, 16000, 24000, 48000',
    });
  });
});

const nameRule = 'must be text without control characters, invisible ones and those that change the direction of text';

describe('a value that does not match its pattern', () => {
  it.each<[string, string, object, string, string]>([
    ['POST', '/v1/endpoints', { name: 'a\tb' }, 'name', nameRule],
    ['POST', '/v1/endpoints', { name: 'Bank \u202egnp.exe' }, 'name', nameRule],
    ['POST', '/v1/trunks', { name: 'Carrier\u200b' }, 'name', nameRule],
    ['POST', '/v1/phone-numbers', { name: 'one\u2028two' }, 'name', nameRule],
    ['POST', '/v1/api-keys', { name: '\u0085' }, 'name', nameRule],
    [
      'POST',
      '/v1/trunks',
      { name: 'T', username: 'a b' },
      'username',
      'must be printable ASCII characters without spaces',
    ],
  ])('%s %s %o: the rule in words', async (method, url, body, path, rule) => {
    expect((await problems(method, url, body))[path]).toBe(rule);
  });

  it.each(['Zoë & Søn', '株式会社', 'می\u200cخواهم', '👩\u200d💻 on call', 'مكتب'])('%s is a name', async (name) => {
    expect(await problems('POST', '/v1/endpoints', { name })).not.toHaveProperty('name');
  });

  it('has a rule in words, whichever pattern of the description it is', async () => {
    const { body } = await api.request('GET', '/openapi.json', { key: null });
    const found = [...JSON.stringify(body).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(([, text]) =>
      JSON.parse(text!),
    );
    expect(found.length).toBeGreaterThan(10);
    expect(found.filter((source) => patternRule(source) === undefined)).toEqual([]);
  });
});

it('many unknown fields of a configuration are refused like one', async () => {
  const many = Object.fromEntries(Array.from({ length: 12 }, (_, n) => [`field_${n}`, {}]));
  const webhook = { name: 'W', type: 'webhook', target: 'https://example.com' };
  const told = await problems('POST', '/v1/endpoints', { ...webhook, provider_config: many });
  expect(told['provider_config.field_0']).toBe('is not a known field');
});

describe('half of a surrogate pair', () => {
  it.each([
    ['{"name":"x\\ud800"}', 'name'],
    ['{"name":"\\uDC00x"}', 'name'],
    ['{"name":"T","outbound":{"headers":{"X-A":"\\ud83d"}}}', 'outbound.headers.X-A'],
    ['{"name":"T","\\ud800":1}', '\ufffd'],
  ])('is refused with its place: %s', async (payload, path) => {
    const answer = await api.request('POST', '/v1/trunks', { payload });
    expect([answer.status, answer.body.details.fields]).toEqual([
      400,
      [{ path, message: 'has half of a surrogate pair (\\ud800 to \\udfff), which is not a character' }],
    ]);
    expect(await api.rows("select count(*) as n from trunks where name like 'x%'")).toEqual([{ n: 0 }]);
  });

  it('is not a whole one, nor the text of an escape', async () => {
    for (const name of ['"\\ud83d\\ude00"', '"😀"', '"\\\\ud800"'])
      expect((await api.request('POST', '/v1/trunks', { payload: `{"name":${name}}` })).status).toBe(201);
  });
});

describe('an address with a user and password', () => {
  const agent = { name: 'A', type: 'agent', provider_config: {} };
  const webhook = { name: 'W', type: 'webhook', target: 'https://example.com' };
  const start = 'must not contain a user and password, which every reader of the record would see; ';

  it.each([
    ['/v1/endpoints', { ...webhook, target: 'https://u:pw@example.com' }, 'target', 'requests are signed'],
    ['/v1/endpoints', { ...webhook, target: 'https://token@example.com' }, 'target', 'requests are signed'],
    ['/v1/endpoints', { ...agent, target: 'wss://u:pw@example.com' }, 'target', 'set Authorization in provider_config'],
    ['/v1/endpoints', { ...agent, target: 'sip:u:pw@example.com' }, 'target', 'set sip_username and sip_password'],
    [
      '/v1/endpoints',
      { ...webhook, provider_config: { events_url: 'https://u:pw@example.com' } },
      'provider_config.events_url',
      'requests are signed',
    ],
    [
      '/v1/endpoints',
      { ...agent, target: 'wss://a.example.com', provider_config: { base_url: 'https://u:pw@example.com' } },
      'provider_config.base_url',
      'set api_key or Authorization',
    ],
    ['/v1/trunks', { name: 'T', gateways: [{ uri: 'sip:u:pw@example.com' }] }, 'gateways.0.uri', 'set username and'],
  ])('is refused, and told where credentials go: %s %j', async (url, body, path, way) => {
    const told = await problems('POST', url, body);
    expect(told[path]?.startsWith(start + way), JSON.stringify(told)).toBe(true);
  });

  it('that an older version has kept is not shown', async () => {
    const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
    const { record } = await api.store.endpoints.create(scope, {
      name: 'Old',
      type: 'webhook',
      target: 'https://u:hunter2@example.com/calls',
      provider: null,
      providerConfig: { events_url: 'https://u:hunter2@example.com/events' },
    });
    const { body, text } = await api.request('GET', `/v1/endpoints/${record.id}`);
    expect(body.target).toBe('https://********@example.com/calls');
    expect(text).not.toContain('hunter2');
  });
});
