import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { migrations } from '../../src/store/database/migrations/index.js';
import { migrateFile } from '../../src/store/sqlite/connection.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { type Answer, type TestApi, testApi } from '../support/api.js';
import { type IdentityProvider, identityProvider } from '../support/identity-provider.js';

/** A kept answer belongs to the caller who asked for it, and never holds a secret. */

let api: TestApi;
let provider: IdentityProvider;
let callers: Record<string, string>;
let made: number;

beforeEach(async () => {
  made = 0;
  provider = await identityProvider();
  api = await testApi({
    tokens: provider.settings,
    outboundCalls: { refusal: () => null, start: () => {} },
  });
  const { organizationId } = api.a;
  const ada = await api.store.organizations.createUser({ name: 'Ada', subject: 'ada' });
  await api.store.organizations.addMember(organizationId, ada.id, 'owner');
  const second = { userId: api.a.userId, organizationId: null, mode: 'live', name: 'Second' } as const;
  callers = {
    owner: api.a.key,
    'the same owner with another key': (await api.store.apiKeys.create(second)).key,
    'another owner': await api.addKey({ organizationId, role: 'owner' }),
    admin: await api.addKey({ organizationId, role: 'admin' }),
    member: await api.addKey({ organizationId, role: 'member' }),
    'test key': await api.addKey({ organizationId, role: 'owner', mode: 'test' }),
    'other organization': api.b.key,
    token: await provider.token({ sub: 'ada' }, api.clock.now()),
  };
});
afterEach(async () => {
  provider.close();
  await api.close();
});

const secretText = /trunkline_(live|test)_[0-9A-Za-z]{32}|whsec_[\w+/=-]+|hunter2/;

/** Every POST that creates, by the description: its path, and a body for organization A. */
async function creating(): Promise<[path: string, body: () => object][]> {
  const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
  const agent = { type: 'agent', target: 'wss://a.example.com', provider: 'custom', providerConfig: {} } as const;
  const { record } = await api.store.endpoints.create(scope, { name: 'E', ...agent });
  await api.store.phoneNumbers.create(scope, { number: '+15551112222', endpointId: record.id });
  const call = { to_number: '+15551234567', from_number: '+15551112222', endpoint_id: record.id };
  const bodies: Record<string, () => object> = {
    '/v1/api-keys': () => ({ name: 'K', mode: 'test' }),
    '/v1/endpoints': () => ({ name: 'W', type: 'webhook', target: 'https://example.com/calls' }),
    '/v1/phone-numbers': () => ({ number: '+15559990000' }),
    '/v1/trunks': () => ({ name: 'T', username: 'u', password: 'hunter2' }),
    '/v1/outbound-calls': () => call,
    '/v1/organizations': () => ({ name: 'O' }),
    '/v1/organizations/{id}/credits': () => ({ amount_cents: 1, note: 'n' }),
    '/v1/organizations/{id}/members': () => ({ subject: 'someone', role: 'member' }),
  };
  const { body } = await api.request('GET', '/openapi.json', { key: null });
  const described = Object.entries<Record<string, { responses: object }>>(body.paths)
    .filter(([, { post }]) => post && '201' in post.responses)
    .map(([path]) => path);
  expect(described.sort()).toEqual(Object.keys(bodies).sort());
  return described.map((path) => [path, bodies[path] as () => object]);
}

const post = (url: string, caller: string, body: object, key = 'the-same'): Promise<Answer> =>
  api.request('POST', url.replace('{id}', api.a.organizationId), {
    key: callers[caller] as string,
    body,
    headers: { 'idempotency-key': key },
  });

describe('a kept answer', () => {
  it('is given to nobody but the caller who asked', async () => {
    for (const [path, body] of await creating()) {
      const firsts = new Map<string, Answer>();
      for (const caller of Object.keys(callers)) {
        const answer = await post(path, caller, body());
        expect(answer.headers, `${path} ${caller}`).not.toHaveProperty('idempotent-replayed');
        firsts.set(caller, answer);
      }
      const created = [...firsts].filter(([, { status }]) => status === 201);
      expect(created.map(([caller]) => caller)).toContain('owner');
      expect(new Set(created.map(([, answer]) => answer.body.id)).size, path).toBe(created.length);
      for (const [caller, first] of firsts) {
        const again = await post(path, caller, body());
        const where = `${path} ${caller}`;
        if (first.status !== 201) {
          expect([again.status, again.headers['idempotent-replayed']], where).toEqual([first.status, undefined]);
          continue;
        }
        const { key: _key, webhook_secret: _secret, ...rest } = first.body;
        expect([again.status, again.headers['idempotent-replayed']], where).toEqual([201, 'true']);
        expect(again.body, where).toEqual(rest);
        expect(again.text, where).not.toMatch(secretText);
      }
    }
    expect(JSON.stringify(await api.rows('select * from idempotency_keys'))).not.toMatch(secretText);
  });

  it('lacks the secret that the first answer showed', async () => {
    const key = await post('/v1/api-keys', 'owner', { name: 'K', mode: 'live' });
    expect(key.body.key).toMatch(/^trunkline_live_/);
    expect((await post('/v1/api-keys', 'owner', { name: 'K', mode: 'live' })).body).not.toHaveProperty('key');
    const webhook = { name: 'W', type: 'webhook', target: 'https://example.com/calls' };
    expect((await post('/v1/endpoints', 'owner', webhook)).body.webhook_secret).toMatch(/^whsec_/);
    expect((await post('/v1/endpoints', 'owner', webhook)).body).not.toHaveProperty('webhook_secret');
  });

  it('does not say that another caller has a request under way', async () => {
    const answers = await Promise.all(
      Object.keys(callers)
        .filter((caller) => caller !== 'member' && caller !== 'other organization')
        .map((caller) => post('/v1/trunks', caller, { name: `T${made++}` })),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
  });

  it('is found by the path, whatever query, case or encoding it is written with', async () => {
    const headers = { 'idempotency-key': 'k' };
    const ask = (url: string, body: object) => api.request('POST', url, { body, headers });
    const trunk = { name: 'T' };
    const { body: first } = await ask('/v1/trunks', trunk);
    for (const url of ['/v1/trunks?', '/v1/%74runks', '/v1/trunks#x']) {
      const again = await api.app.inject({
        method: 'POST',
        url,
        payload: trunk,
        headers: { ...headers, authorization: `Bearer ${api.a.key}` },
      });
      expect([url, again.headers['idempotent-replayed'], again.json().id]).toEqual([url, 'true', first.id]);
    }
    const { organizationId } = api.a;
    const credit = { amount_cents: 5, note: 'n' };
    const { body: entry } = await ask(`/v1/organizations/${organizationId}/credits`, credit);
    const again = await ask(`/v1/organizations/${organizationId.toUpperCase()}/credits`, credit);
    expect(again.body).toEqual(entry);
  });

  it('of the caller is another one in each of their organizations', async () => {
    const { body: second } = await api.request('POST', '/v1/organizations', { body: { name: 'Second' } });
    const inSecond = { 'idempotency-key': 'k', 'x-organization-id': second.id };
    const first = await api.request('POST', '/v1/trunks', { body: { name: 'T' }, headers: { 'idempotency-key': 'k' } });
    const other = await api.request('POST', '/v1/trunks', { body: { name: 'T' }, headers: inSecond });
    expect([other.body.organization_id, other.body.id === first.body.id]).toEqual([second.id, false]);
  });
});

it('an answer kept by an older version is dropped: it names no caller and may hold a secret', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-kept-'));
  const file = path.join(folder, 'trunkline.db');
  const older = Object.entries(migrations).filter(([name]) => name < '0014');
  migrateFile(file, () => 1, Object.fromEntries(older));
  const Driver = loadDriver();
  const before = new Driver(file);
  before.exec(`insert into organizations (id, name, tier, limits, created_at, updated_at) values ('o', 'O', 'free', '{}', 1, 1);
    insert into idempotency_keys values ('o', 'live', '/v1/api-keys', 'k', 'h', 201, '{"body":"{}","headers":{}}', 1)`);
  before.close();
  migrateFile(file, () => 2);
  const after = new Driver(file, { readonly: true });
  expect(after.prepare('select count(*) from idempotency_keys').pluck().get()).toBe(0);
  after.close();
  rmSync(folder, { recursive: true });
});
