import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { plainIdentity } from '../../src/store/routing/trunks.js';
import { type TestApi, testApi } from '../support/api.js';

let api: TestApi;
beforeEach(async () => {
  api = await testApi();
});
afterEach(() => api.close());

const absentId = '0198aaaa-0000-7000-8000-00000000dead';
const post = (url: string, body: object, options = {}) => api.request('POST', url, { body, ...options });
const patch = (url: string, body: object, options = {}) => api.request('PATCH', url, { body, ...options });
const agent = { name: 'A', type: 'agent', target: 'wss://agent.example.com/x', provider_config: {} };
const variables = (of: object) => ({ ...agent, provider_config: { variables: of } });
const paths = (answer: { body: { details: { fields: { path: string }[] } } }) =>
  answer.body.details.fields.map(({ path }) => path);

describe('endpoints', () => {
  const keys = [
    'id',
    'organization_id',
    'name',
    'type',
    'target',
    'provider',
    'provider_config',
    'record',
    'status',
    'health',
    'fallback_endpoint_id',
    'events_disabled_at',
    'created_at',
    'updated_at',
  ].sort();

  it('an agent is created with defaults, and shows exactly its fields', async () => {
    const { status, body } = await post('/v1/endpoints', agent);
    expect(status).toBe(201);
    expect(Object.keys(body).sort()).toEqual(keys);
    expect(body).toMatchObject({
      organization_id: api.a.organizationId,
      provider: 'custom',
      record: false,
      status: 'active',
      health: 'unknown',
      fallback_endpoint_id: null,
    });
    expect((await api.request('GET', `/v1/endpoints/${body.id}`)).body).toEqual(body);
  });

  it('a webhook gets a secret that is shown once', async () => {
    const { status, body } = await post('/v1/endpoints', {
      name: 'W',
      type: 'webhook',
      target: 'https://example.com/in',
    });
    expect(status).toBe(201);
    expect(body.webhook_secret).toMatch(/^whsec_[A-Za-z0-9+/=]{32}$/);
    expect(body.provider).toBeNull();
    const read = await api.request('GET', `/v1/endpoints/${body.id}`);
    expect(Object.keys(read.body).sort()).toEqual(keys);
    expect((await api.request('GET', '/v1/endpoints')).text).not.toContain('whsec_');
    expect(api.store.endpoints.getForCall(body.id)?.webhookSecret).toBe(body.webhook_secret);
  });

  it('a target has the scheme of its protocol', async () => {
    const socket = { ...agent, provider_config: { protocol: 'audiosocket' } };
    const refused = [
      { ...agent, target: 'tcp://agent.example.com:9092' },
      socket,
      { ...socket, target: 'tcp://agent.example.com' },
      { ...socket, target: 'tcp://agent.example.com:9092/path' },
      { ...socket, target: 'tcp://LOCALHOST:9092' },
      { ...socket, target: 'tcp://2130706433:9092' },
      { ...socket, target: 'tcp://[::1]:9092' },
    ];
    for (const body of refused) expect(paths(await post('/v1/endpoints', body)), body.target).toEqual(['target']);
    const { status, body } = await post('/v1/endpoints', { ...socket, target: 'tcp://agent.example.com:9092' });
    expect(status).toBe(201);
    const url = `/v1/endpoints/${body.id}`;
    expect(paths(await patch(url, { provider_config: { protocol: 'raw' } }))).toEqual(['provider_config.protocol']);
    expect(paths(await patch(url, { target: 'wss://agent.example.com/x' }))).toEqual(['target']);
    const both = { target: 'wss://agent.example.com/x', provider_config: { protocol: 'raw' } };
    expect((await patch(url, both)).status).toBe(200);
  });

  it('Amazon Nova Sonic has the address of its region, and its secrets are masked', async () => {
    const config = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 's', session_token: 't', region: 'eu-north-1' };
    const nova = { name: 'N', type: 'agent', provider: 'amazon_nova_sonic', provider_config: config };
    const { status, body } = await post('/v1/endpoints', nova);
    expect([status, body.target]).toEqual([201, 'https://bedrock-runtime.eu-north-1.amazonaws.com']);
    expect(body.provider_config).toMatchObject({ secret_access_key: '********', session_token: '********' });
    expect(paths(await post('/v1/endpoints', { ...nova, target: 'wss://example.com/' }))).toEqual(['target']);
  });

  it('a named provider whose address is known may leave the target out', async () => {
    const openai = await post('/v1/endpoints', {
      name: 'O',
      type: 'agent',
      provider: 'openai',
      provider_config: { model: 'x', api_key: 'k' },
    });
    expect([openai.status, openai.body.target]).toEqual([201, 'wss://api.openai.com/v1/realtime']);
    const livekit = await post('/v1/endpoints', { name: 'L', type: 'agent', provider: 'livekit', provider_config: {} });
    expect([livekit.status, paths(livekit)]).toEqual([400, ['target']]);
  });

  it.each<[string, object, string[]]>([
    ['no name', { ...agent, name: undefined }, ['name']],
    ['an empty name', { ...agent, name: '' }, ['name']],
    ['a name with a line break', { ...agent, name: 'a\nb' }, ['name']],
    ['no type', { ...agent, type: undefined }, ['type']],
    ['another type', { ...agent, type: 'bot' }, ['type']],
    ['no target', { ...agent, target: undefined }, ['target']],
    ['an http target of an agent', { ...agent, target: 'https://example.com' }, ['target']],
    ['a ws target of a webhook', { name: 'W', type: 'webhook', target: 'wss://example.com' }, ['target']],
    ['a target without a host', { ...agent, target: 'wss://' }, ['target']],
    ['a target with a space', { ...agent, target: 'wss://example.com/a b' }, ['target']],
    ['a target with a line break', { ...agent, target: 'wss://example.com\n' }, ['target']],
    ['no configuration of an agent', { ...agent, provider_config: undefined }, ['provider_config']],
    [
      'a provider of a webhook',
      { name: 'W', type: 'webhook', target: 'https://e.com', provider: 'custom' },
      ['provider'],
    ],
    ['an unknown provider', { ...agent, provider: 'acme' }, ['provider']],
    ['an unknown setting', { ...agent, provider_config: { modle: 'x' } }, ['provider_config.modle']],
    [
      "another provider's setting",
      { ...agent, provider: 'hume', provider_config: { agent_id: 'x' } },
      ['provider_config.agent_id'],
    ],
    ['no key for a provider that wants one', { ...agent, provider: 'openai' }, ['provider_config.api_key']],
    ['no agent of ElevenLabs', { ...agent, provider: 'elevenlabs' }, ['provider_config.agent_id']],
    ['a setting of webhooks', { ...agent, provider_config: { format: 'twiml' } }, ['provider_config.format']],
    ['an unknown protocol', { ...agent, provider_config: { protocol: 'sip' } }, ['provider_config.protocol']],
    [
      'a rate of another protocol',
      { ...agent, provider_config: { sample_rate: 16000 } },
      ['provider_config.sample_rate'],
    ],
    [
      'an encoding of another protocol',
      { ...agent, provider_config: { encoding: 'l16' } },
      ['provider_config.encoding'],
    ],
    [
      'a header with a line break',
      { ...agent, provider_config: { headers: { a: 'x\r\nb: c' } } },
      ['provider_config.headers.a'],
    ],
    ['the mask as a secret', { ...agent, provider_config: { api_key: '********' } }, ['provider_config.api_key']],
    [
      'a private base_url',
      { ...agent, provider_config: { base_url: 'http://10.0.0.1' } },
      ['provider_config.base_url'],
    ],
    ['a status that is not ours', { ...agent, status: 'paused' }, ['status']],
    ['health, which is read-only', { ...agent, health: 'healthy' }, ['health']],
    ['an unknown template', variables({ a: '{{call.form}}' }), ['provider_config.variables.a']],
    ['half a placeholder', variables({ a: 'x {{call.from' }), ['provider_config.variables.a']],
    ['a variable with a space', variables({ 'a b': 'x' }), ['provider_config.variables.a b']],
    ['a long template', variables({ a: 'x'.repeat(1025) }), ['provider_config.variables.a']],
    [
      'variables for a SIP target',
      { ...variables({ a: 'x' }), target: 'sip:bot@example.com' },
      ['provider_config.variables'],
    ],
    [
      'a private pre_connect_url',
      { ...agent, provider_config: { pre_connect_url: 'http://127.0.0.1/' } },
      ['provider_config.pre_connect_url'],
    ],
    [
      'a short pre_connect_secret',
      { ...agent, provider_config: { pre_connect_secret: 'whsec_x' } },
      ['provider_config.pre_connect_secret'],
    ],
    ['a number as a flag', { ...agent, record: 1 }, ['record']],
    ['text as a flag', { ...agent, record: 'true' }, ['record']],
    ['text for remove_echo', { ...agent, provider_config: { remove_echo: 'yes' } }, ['provider_config.remove_echo']],
  ])('refuses %s', async (_what, body, fields) => {
    const answer = await post('/v1/endpoints', body);
    expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect(paths(answer)).toEqual(expect.arrayContaining(fields));
  });

  it.each<[string, object]>([
    ['custom', { protocol: 'raw', sample_rate: 24000, encoding: 'l16' }],
    ['custom', { protocol: 'raw', encoding: 'ulaw', sample_rate: 8000 }],
    ['custom', { protocol: 'twilio', auth_token: 't', headers: { 'x-a': 'b' } }],
    ['custom', { protocol: 'vonage', sample_rate: 16000 }],
    ['elevenlabs', { agent_id: 'x', api_key: 'k', override: { a: { b: 1 } }, first_audio_timeout_s: 0 }],
    ['vapi', { assistant_id: 'x', api_key: 'k', base_url: 'https://api.vapi.ai' }],
    ['livekit', { api_key: 'k', api_secret: 's' }],
    ['custom', { variables: { caller: '{{call.from}}', tier: 'gold' }, pre_connect_url: 'https://example.com/who' }],
  ])('takes %s with %j', async (provider, provider_config) => {
    expect((await post('/v1/endpoints', { ...agent, provider, provider_config })).status).toBe(201);
  });

  it('refuses literal addresses inside our network, however they are spelled, unless that is allowed', async () => {
    const hosts = [
      '127.0.0.1',
      '127.1',
      '2130706433',
      '0x7f.0.0.1',
      '017700000001',
      '10.1.2.3',
      '172.16.0.1',
      '192.168.1.1',
      '169.254.169.254',
      '100.64.0.1',
      '0.0.0.0',
      '[::1]',
      '[::]',
      '[::ffff:10.0.0.1]',
      '[fe80::1]',
      '[fd00::1]',
      'localhost',
      'LOCALHOST.',
      'a.localhost',
      '１２７.0.0.1',
    ];
    for (const host of hosts) {
      const answer = await post('/v1/endpoints', { ...agent, target: `wss://${host}/x` });
      expect([answer.status, host]).toEqual([400, host]);
      const webhook = await post('/v1/endpoints', { name: 'W', type: 'webhook', target: `http://${host}:8080/x` });
      expect([webhook.status, host]).toEqual([400, host]);
    }
    for (const host of ['127.0.0.1', '[::1]', 'localhost', '10.0.0.1:5070;transport=tcp']) {
      expect((await post('/v1/endpoints', { ...agent, target: `sip:bot@${host}` })).status, host).toBe(400);
    }
    for (const host of ['agent.example.com', '8.8.8.8', '[2606:4700::1111]', '8.8.8.8:8443']) {
      expect((await post('/v1/endpoints', { ...agent, target: `wss://${host}/x` })).status, host).toBe(201);
      expect((await post('/v1/endpoints', { ...agent, target: `sip:bot@${host};transport=tls` })).status, host).toBe(
        201,
      );
    }
    await api.close();
    api = await testApi({ allowPrivateTargets: true });
    for (const host of hosts) {
      expect((await post('/v1/endpoints', { ...agent, target: `wss://${host}/x` })).status, host).toBe(201);
    }
  });

  it('a PATCH leaves what it does not name, and merges provider_config', async () => {
    const config = {
      protocol: 'raw',
      sample_rate: 16000,
      auth_token: 'secret',
      headers: { a: '1', b: '2' },
      model: 'm',
    };
    const { body } = await post('/v1/endpoints', { ...agent, provider_config: config });
    api.clock.advance(1000);
    const change = {
      provider_config: {
        sample_rate: 24000,
        model: null,
        auth_token: '********',
        headers: { a: '********', b: null, c: '3' },
      },
    };
    const changed = await patch(`/v1/endpoints/${body.id}`, change);
    expect(changed.status).toBe(200);
    expect(changed.body).toEqual({
      ...body,
      provider_config: {
        protocol: 'raw',
        sample_rate: 24000,
        auth_token: '********',
        headers: { a: '********', c: '********' },
      },
      updated_at: '2026-01-15T12:00:01.000Z',
    });
    expect(api.store.endpoints.getForCall(body.id)?.providerConfig).toEqual({
      protocol: 'raw',
      sample_rate: 24000,
      auth_token: 'secret',
      headers: { a: '1', c: '3' },
    });
    const renamed = await patch(`/v1/endpoints/${body.id}`, { name: 'New', status: 'inactive', record: true });
    expect(renamed.body).toMatchObject({ name: 'New', status: 'inactive', record: true, target: agent.target });
    expect(api.store.endpoints.getForCall(body.id)?.providerConfig.auth_token).toBe('secret');
  });

  it('a PATCH is judged by its result', async () => {
    const { body } = await post('/v1/endpoints', {
      ...agent,
      provider_config: { protocol: 'raw', sample_rate: 16000 },
    });
    const url = `/v1/endpoints/${body.id}`;
    expect(paths(await patch(url, { provider_config: { protocol: 'twilio' } }))).toEqual([
      'provider_config.sample_rate',
    ]);
    expect(paths(await patch(url, { provider_config: { auth_token: '********' } }))).toEqual([
      'provider_config.auth_token',
    ]);
    expect(paths(await patch(url, { type: 'webhook' }))).toEqual(['type']);
    expect(paths(await patch(url, { provider: 'openai' }))).toEqual(['provider']);
    expect(paths(await patch(url, { target: 'https://example.com' }))).toEqual(['target']);
    expect(paths(await patch(url, { fallback_endpoint_id: body.id }))).toEqual(['fallback_endpoint_id']);
    expect((await api.request('GET', url)).body).toEqual(body);
    expect((await patch(url, {})).status).toBe(200);
  });

  it('a built-in agent on a private address can still be renamed', async () => {
    const { record } = await api.store.endpoints.create(
      { organizationId: api.a.organizationId, mode: 'live' },
      {
        name: 'Echo',
        type: 'agent',
        target: 'ws://127.0.0.1:9',
        provider: 'custom',
        providerConfig: { protocol: 'raw' },
      },
    );
    expect((await patch(`/v1/endpoints/${record.id}`, { name: 'Echo 2' })).status).toBe(200);
  });

  it('lists newest first, with filters, limit and offset', async () => {
    for (const name of ['1', '2', '3']) await post('/v1/endpoints', { ...agent, name });
    await post('/v1/endpoints', { name: '4', type: 'webhook', target: 'https://e.com', status: 'inactive' });
    const names = async (query: string) => {
      const { body } = await api.request('GET', `/v1/endpoints${query}`);
      return [body.data.map(({ name }: { name: string }) => name).join(''), body.total, body.limit, body.offset];
    };
    expect(await names('')).toEqual(['4321', 4, 50, 0]);
    expect(await names('?limit=2&offset=1')).toEqual(['32', 4, 2, 1]);
    expect(await names('?type=agent')).toEqual(['321', 3, 50, 0]);
    expect(await names('?status=inactive')).toEqual(['4', 1, 50, 0]);
    expect(await names('?offset=999999999999999')).toEqual(['', 4, 50, 999999999999999]);
    for (const query of ['limit=0', 'limit=101', 'offset=-1', 'type=x', 'status=x']) {
      expect((await api.request('GET', `/v1/endpoints?${query}`)).status, query).toBe(400);
    }
  });

  it('a deleted one is let go of by numbers, routes and fallbacks', async () => {
    const gone = (await post('/v1/endpoints', agent)).body.id;
    const kept = (await post('/v1/endpoints', { ...agent, fallback_endpoint_id: gone.toUpperCase() })).body.id;
    const number = await post('/v1/phone-numbers', {
      number: '+15551234567',
      endpoint_id: gone,
      fallback_endpoint_id: gone,
      routes: [{ endpoint_id: gone }, { endpoint_id: kept, weight: 2 }],
    });
    expect(number.status).toBe(201);
    const answer = await api.request('DELETE', `/v1/endpoints/${gone}`);
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect((await api.request('GET', `/v1/endpoints/${gone}`)).status).toBe(404);
    expect((await api.request('GET', `/v1/phone-numbers/${number.body.id}`)).body).toMatchObject({
      endpoint_id: null,
      fallback_endpoint_id: null,
      routes: [{ endpoint_id: kept, weight: 2 }],
    });
    expect((await api.request('GET', `/v1/endpoints/${kept}`)).body.fallback_endpoint_id).toBeNull();
  });

  it('names of other organizations are not found', async () => {
    const foreign = (await post('/v1/endpoints', agent, { key: api.b.key })).body.id;
    for (const id of [foreign, absentId]) {
      expect((await post('/v1/endpoints', { ...agent, fallback_endpoint_id: id })).status).toBe(404);
      expect((await post('/v1/phone-numbers', { number: '+15551234567', endpoint_id: id })).status).toBe(404);
      const routes = [{ endpoint_id: id }];
      expect((await post('/v1/phone-numbers', { number: '+15551234567', routes })).body.code).toBe('NOT_FOUND');
    }
    expect((await api.request('GET', '/v1/phone-numbers')).body.total).toBe(0);
  });
});

describe('phone numbers', () => {
  it('are stored as E.164 and show exactly their fields', async () => {
    const { status, body } = await post('/v1/phone-numbers', { number: '+1 (555) 123-45.67', name: 'Main' });
    expect(status).toBe(201);
    expect(body).toEqual({
      id: body.id,
      organization_id: api.a.organizationId,
      number: '+15551234567',
      name: 'Main',
      endpoint_id: null,
      fallback_endpoint_id: null,
      routes: [],
      status: 'active',
      status_callback_url: null,
      status_callback_method: 'POST',
      created_at: '2026-01-15T12:00:00.000Z',
      updated_at: '2026-01-15T12:00:00.000Z',
    });
  });

  it('keep where the end of their calls is reported, until it is taken away', async () => {
    const url = 'https://app.example/ended?who=1';
    const made = await post('/v1/phone-numbers', { number: '+15551234500', status_callback_url: url });
    expect(made.body).toMatchObject({ status_callback_url: url, status_callback_method: 'POST' });
    const path = `/v1/phone-numbers/${made.body.id}`;
    expect((await patch(path, { status_callback_method: 'GET' })).body).toMatchObject({
      ...{ status_callback_url: url, status_callback_method: 'GET' },
    });
    for (const wrong of ['ftp://app.example', 'http://10.0.0.1/x', 'https://u:p@app.example/', 'no'])
      expect(paths(await patch(path, { status_callback_url: wrong }))).toEqual(['status_callback_url']);
    expect((await patch(path, { status_callback_method: 'PUT' })).status).toBe(400);
    expect((await patch(path, { status_callback_url: null })).body.status_callback_url).toBeNull();
  });

  it.each([
    '5551234567',
    '+0551234567',
    '+123456',
    '+1234567890123456',
    '+1555abc4567',
    '',
    '++15551234567',
    '+１５５５１２３４５',
  ])('refuses %j and names field and value', async (number) => {
    const { status, body } = await post('/v1/phone-numbers', { number });
    expect([status, body.code, body.details]).toEqual([
      400,
      'INVALID_PHONE_NUMBER',
      { field: 'number', value: number },
    ]);
  });

  it('a missing number is a validation error', async () => {
    for (const body of [{}, { number: 15551234567 }, { number: null }]) {
      expect((await post('/v1/phone-numbers', body)).body.code).toBe('VALIDATION_ERROR');
    }
  });

  it('exist once per mode; the other record is named only to its owner', async () => {
    const first = await post('/v1/phone-numbers', { number: '+15551234567' });
    const own = await post('/v1/phone-numbers', { number: '+15551234567' });
    expect([own.status, own.body.code, own.body.details]).toEqual([409, 'NUMBER_TAKEN', { id: first.body.id }]);
    const foreign = await post('/v1/phone-numbers', { number: '+15551234567' }, { key: api.b.key });
    expect([foreign.status, foreign.body.details]).toEqual([409, {}]);
    const test = await api.addKey({ organizationId: api.b.organizationId, mode: 'test' });
    expect((await post('/v1/phone-numbers', { number: '+15551234567' }, { key: test })).status).toBe(201);
    await api.request('DELETE', `/v1/phone-numbers/${first.body.id}`);
    expect((await post('/v1/phone-numbers', { number: '+15551234567' }, { key: api.b.key })).status).toBe(201);
  });

  it('change, but for the number itself', async () => {
    const endpoint = (await post('/v1/endpoints', agent)).body.id;
    const { body } = await post('/v1/phone-numbers', { number: '+15551234567' });
    const url = `/v1/phone-numbers/${body.id}`;
    const schedule = { timezone: 'Europe/Berlin', days: [1, 5], start: '09:00', end: '17:30' };
    const routes = [{ endpoint_id: endpoint, weight: 3, schedule, from_prefix: '+49' }];
    const changed = await patch(url, { endpoint_id: endpoint.toUpperCase(), routes, status: 'inactive' });
    expect(changed.body).toMatchObject({ endpoint_id: endpoint, routes, status: 'inactive', name: '' });
    expect((await patch(url, { endpoint_id: null })).body).toMatchObject({ endpoint_id: null, routes });
    expect(paths(await patch(url, { number: '+15551234568' }))).toEqual(['number']);
    const nowhere = { ...schedule, timezone: 'Mars/Base' };
    expect(paths(await patch(url, { routes: [{ endpoint_id: endpoint, schedule: nowhere }] }))).toEqual([
      'routes.0.schedule.timezone',
    ]);
  });

  it('are listed by endpoint and status', async () => {
    const endpoint = (await post('/v1/endpoints', agent)).body.id;
    await post('/v1/phone-numbers', { number: '+15551234567', endpoint_id: endpoint });
    await post('/v1/phone-numbers', { number: '+15551234568', status: 'inactive' });
    const total = async (query: string) => (await api.request('GET', `/v1/phone-numbers?${query}`)).body.total;
    expect(
      await Promise.all(['', `endpoint_id=${endpoint}`, 'status=inactive', `endpoint_id=${absentId}`].map(total)),
    ).toEqual([2, 1, 1, 0]);
  });
});

describe('trunks', () => {
  const trunk = { name: 'Carrier', addresses: ['192.0.2.0/24', '198.51.100.7', '2001:db8::1'] };

  it('are created with defaults; the SIP side gets them with the password', async () => {
    const credentials = { username: 'u', password: 'p', gateways: [{ uri: 'sip:gw.example.com;transport=tcp' }] };
    const { status, body } = await post('/v1/trunks', { ...trunk, ...credentials });
    expect(status).toBe(201);
    expect(body).toEqual({
      id: body.id,
      organization_id: api.a.organizationId,
      name: 'Carrier',
      direction: 'both',
      addresses: ['192.0.2.0/24', '198.51.100.7/32', '2001:db8::1/128'],
      username: 'u',
      password: '********',
      gateways: [{ uri: 'sip:gw.example.com;transport=tcp', priority: 0, weight: 1 }],
      transport: 'udp',
      srtp: 'off',
      tls: { ca: null, certificate: null, key: null },
      register: false,
      codecs: ['PCMU', 'PCMA'],
      max_calls: null,
      calls_per_second: null,
      outbound: plainIdentity,
      status: 'active',
      health: 'unknown',
      created_at: '2026-01-15T12:00:00.000Z',
      updated_at: '2026-01-15T12:00:00.000Z',
    });
    expect(api.trunkChanges()).toBe(1);
    expect(await api.store.trunks.allForSip()).toMatchObject([{ username: 'u', password: 'p' }]);
    const url = `/v1/trunks/${body.id}`;
    await patch(url, { password: '********', codecs: ['PCMA'] });
    expect(await api.store.trunks.allForSip()).toMatchObject([{ password: 'p', codecs: ['PCMA'] }]);
    await patch(url, { password: 'new' });
    expect(await api.store.trunks.allForSip()).toMatchObject([{ password: 'new' }]);
    await patch(url, { status: 'inactive' });
    expect(await api.store.trunks.allForSip()).toEqual([]);
    expect((await api.request('DELETE', url)).status).toBe(204);
    expect(api.trunkChanges()).toBe(5);
  });

  it.each<[string, object, string]>([
    ['an address that is none', { name: 'T', addresses: ['example.com'] }, 'addresses.0'],
    ['a short address', { name: 'T', addresses: ['10.1'] }, 'addresses.0'],
    ['everybody', { name: 'T', addresses: ['0.0.0.0/0'] }, 'addresses'],
    ['a gateway that is no SIP address', { name: 'T', gateways: [{ uri: 'gw.example.com' }] }, 'gateways.0.uri'],
    ['an unknown gateway field', { name: 'T', gateways: [{ uri: 'sip:x', cost: 1 }] }, 'gateways.0.cost'],
    ['outbound without a gateway', { name: 'T', direction: 'outbound' }, 'gateways'],
    ['inbound that trusts nobody', { name: 'T', direction: 'inbound' }, 'addresses'],
    ['a user without a password', { name: 'T', username: 'u' }, 'password'],
    ['registering without a user', { name: 'T', register: true, gateways: [{ uri: 'sip:x.example' }] }, 'register'],
    ['the mask as a password', { name: 'T', username: 'u', password: '********' }, 'password'],
    ['an unknown codec', { name: 'T', codecs: ['MP3'] }, 'codecs.0'],
    ['an organization', { name: 'T', organization_id: absentId }, 'organization_id'],
  ])('refuse %s', async (_what, body, path) => {
    const answer = await post('/v1/trunks', body);
    expect([answer.status, answer.body.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect(paths(answer)).toContain(path);
    expect(api.trunkChanges()).toBe(0);
  });

  it('that all share belong to the platform owner', async () => {
    const shared = { ...trunk, organization_id: null };
    expect((await post('/v1/trunks', shared, { key: api.b.key })).status).toBe(403);
    const { status, body } = await post('/v1/trunks', shared);
    expect([status, body.organization_id]).toEqual([201, null]);
    expect((await api.request('GET', '/v1/trunks')).body.total).toBe(1);
    expect((await api.request('GET', '/v1/trunks', { key: api.b.key })).body.total).toBe(0);
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      const options = { key: api.b.key, ...(method === 'PATCH' && { body: { name: 'Mine' } }) };
      expect((await api.request(method, `/v1/trunks/${body.id}`, options)).status, method).toBe(404);
    }
    const own = await post('/v1/trunks', { ...trunk, name: 'Own' }, { key: api.b.key });
    expect(own.status).toBe(201);
    expect((await api.store.trunks.allForSip()).map(({ name }) => name)).toEqual(['Own', 'Carrier']);
  });
});

describe('API keys', () => {
  it('are shown once, work, and are gone when revoked', async () => {
    const { status, body } = await post('/v1/api-keys', { name: 'CI', mode: 'live' });
    expect(status).toBe(201);
    expect(body.key).toMatch(/^trunkline_live_[0-9A-Za-z]{32}$/);
    const list = await api.request('GET', '/v1/api-keys', { key: body.key });
    expect(list.text).not.toContain(body.key);
    expect(list.body.data[0]).toMatchObject({ id: body.id, name: 'CI', mode: 'live', organization_id: null });
    expect((await api.request('DELETE', `/v1/api-keys/${body.id}`)).status).toBe(204);
    expect((await api.request('GET', '/v1/me', { key: body.key })).status).toBe(401);
    expect((await api.request('DELETE', `/v1/api-keys/${body.id}`)).status).toBe(404);
  });

  it('never reach further than the one that made them', async () => {
    const { organizationId, userId } = api.a;
    const other = (await api.store.organizations.create({ name: 'Other', tier: 'free' })).id;
    await api.store.organizations.addMember(other, userId, 'member');
    const limited = (await post('/v1/api-keys', { name: 'L', mode: 'live', organization_id: organizationId })).body.key;
    const child = await post('/v1/api-keys', { name: 'C', mode: 'live' }, { key: limited });
    expect(child.body.organization_id).toBe(organizationId);
    expect(
      (await post('/v1/api-keys', { name: 'X', mode: 'live', organization_id: other }, { key: limited })).status,
    ).toBe(404);
    expect((await post('/v1/api-keys', { name: 'X', mode: 'live', organization_id: other })).status).toBe(403);
    expect(
      (await post('/v1/api-keys', { name: 'X', mode: 'live', organization_id: api.b.organizationId })).status,
    ).toBe(404);
    const first = (await api.request('GET', '/v1/api-keys')).body.data.find(
      ({ name }: { name: string }) => name === 'First',
    );
    expect((await api.request('DELETE', `/v1/api-keys/${first.id}`, { key: limited })).status).toBe(404);
    const test = (await post('/v1/api-keys', { name: 'T', mode: 'test' })).body.key;
    expect((await post('/v1/api-keys', { name: 'X', mode: 'live' }, { key: test })).status).toBe(403);
    const seen = await api.request('GET', '/v1/api-keys', { key: test });
    expect(seen.body.data.map(({ name }: { name: string }) => name)).toEqual(['T']);
  });
});

describe('modes', () => {
  it('a test key sees and makes test records only', async () => {
    const test = await api.addKey({ organizationId: api.a.organizationId, mode: 'test' });
    await post('/v1/endpoints', agent);
    await post('/v1/endpoints', { ...agent, name: 'Test' }, { key: test });
    const names = async (key: string) =>
      (await api.request('GET', '/v1/endpoints', { key })).body.data.map(({ name }: { name: string }) => name);
    expect(await names(api.a.key)).toEqual(['A']);
    expect(await names(test)).toEqual(['Test']);
  });
});
