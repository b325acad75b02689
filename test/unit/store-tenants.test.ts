import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Store } from '../../src/store/store.js';
import { apiKeyPattern, makeApiKey } from '../../src/store/tenants/api-keys.js';
import { bootstrap } from '../../src/store/tenants/bootstrap.js';
import { secretMask } from '../../src/store/tenants/secrets.js';
import { FakeClock } from '../support/fake-clock.js';

let dir: string;
let file: string;
let clock: FakeClock;
let store: Store;

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-tenants-'));
  file = path.join(dir, 'trunkline.db');
  clock = new FakeClock(Date.UTC(2026, 0, 15, 12));
  store = Store.open({ file, clock });
});
afterEach(() => {
  store.close();
  rmSync(dir, { recursive: true });
});

const echoAgent = { target: 'ws://127.0.0.1:9/echo', providerConfig: { protocol: 'raw' } };

describe('the first start', () => {
  it('makes an organization, its owner, a key, a number with an echo, and the loopback trunk', () => {
    const first = bootstrap(store, { echoAgent, loopbackTrunk: true });
    expect(first?.apiKey).toMatch(apiKeyPattern);
    const key = store.apiKeys.authenticate(first?.apiKey ?? '');
    const memberships = store.organizations.memberships(key?.userId ?? '');
    expect(memberships).toMatchObject([{ role: 'owner', organization: { name: 'Default', tier: 'enterprise' } }]);
    expect(store.organizations.user(key?.userId ?? '')?.platformOwner).toBe(true);
    const number = store.phoneNumbers.findDialled('15550100', 'live');
    expect(number).toMatchObject({ number: '+15550100', endpointId: first?.endpointId });
    expect(store.endpoints.getForCall(number?.endpointId ?? '')).toMatchObject({
      target: 'ws://127.0.0.1:9/echo',
      provider: 'custom',
      providerConfig: { protocol: 'raw' },
    });
    expect(store.trunks.allForSip()).toMatchObject([{ organizationId: null, addresses: ['127.0.0.0/8', '::1/128'] }]);
  });

  it('happens once', () => {
    bootstrap(store, { echoAgent, loopbackTrunk: true });
    expect(bootstrap(store, { echoAgent, loopbackTrunk: true })).toBeNull();
    expect(store.organizations.count()).toBe(1);
    expect(store.trunks.allForSip()).toHaveLength(1);
  });

  it('installs the key of the settings and does not repeat it', () => {
    const key = makeApiKey('live');
    expect(bootstrap(store, { key, echoAgent, loopbackTrunk: false })?.apiKey).toBeNull();
    expect(store.apiKeys.authenticate(key)?.mode).toBe('live');
    expect(store.trunks.allForSip()).toEqual([]);
  });

  it.each(['secret', makeApiKey('test'), `${makeApiKey('live')}x`])('refuses %s as key, and makes nothing', (key) => {
    expect(() => bootstrap(store, { key, echoAgent, loopbackTrunk: true })).toThrow(/TRUNKLINE_BOOTSTRAP_KEY/);
    expect(store.organizations.count()).toBe(0);
  });
});

describe('API keys', () => {
  const user = () => {
    const organizationId = store.organizations.create({ name: 'A', tier: 'free' }).id;
    const userId = store.organizations.createUser({ name: 'U' }).id;
    store.organizations.addMember(organizationId, userId, 'owner');
    return { organizationId, userId };
  };

  it('look as documented and are all different', () => {
    const keys = Array.from({ length: 200 }, () => makeApiKey('test'));
    expect(new Set(keys).size).toBe(200);
    for (const key of keys) expect(key).toMatch(/^trunkline_test_[0-9A-Za-z]{32}$/);
  });

  it('are kept as SHA-256 and a visible beginning only', () => {
    const { record, key } = store.apiKeys.create({ ...user(), mode: 'live', name: 'K' });
    expect(key.startsWith(record.prefix)).toBe(true);
    expect(record.prefix.length).toBeLessThan(key.length - 20);
    store.close();
    const bytes = readFileSync(file).toString('latin1');
    expect(bytes).not.toContain(key);
    expect(bytes).toContain(createHash('sha256').update(key).digest('hex'));
  });

  it('are refused when malformed, unknown or revoked', () => {
    const { userId, organizationId } = user();
    const { record, key } = store.apiKeys.create({ userId, organizationId, mode: 'live', name: 'K' });
    for (const wrong of ['', 'x', `${key} `, key.replace('live', 'test'), key.slice(0, -1), makeApiKey('live')]) {
      expect(store.apiKeys.authenticate(wrong), wrong).toBeUndefined();
    }
    expect(store.apiKeys.authenticate(key)?.id).toBe(record.id);
    const scope = { organizationId, userId, mode: 'live' } as const;
    expect(store.apiKeys.revoke(scope, record.id)).toBe(true);
    expect(store.apiKeys.authenticate(key)).toBeUndefined();
    expect(store.apiKeys.revoke(scope, record.id)).toBe(false);
    expect(store.apiKeys.list(scope, { limit: 10, offset: 0 }).total).toBe(0);
  });

  it('note when they were used, to the minute', () => {
    const { userId, organizationId } = user();
    const { record, key } = store.apiKeys.create({ userId, organizationId, mode: 'live', name: 'K' });
    expect(record.lastUsedAt).toBeNull();
    const usedAt = () =>
      store.apiKeys.list({ organizationId, userId, mode: 'live' }, { limit: 1, offset: 0 }).data[0]?.lastUsedAt;
    store.apiKeys.authenticate(key);
    const first = usedAt();
    expect(first).toEqual(new Date(clock.now()));
    clock.advance(59_000);
    store.apiKeys.authenticate(key);
    expect(usedAt()).toEqual(first);
    clock.advance(1_000);
    store.apiKeys.authenticate(key);
    expect(usedAt()).toEqual(new Date(clock.now()));
  });
});

describe('a user', () => {
  it('has their organizations in order of joining', () => {
    const userId = store.organizations.createUser({ name: 'U' }).id;
    const [x, y] = ['X', 'Y'].map((name) => store.organizations.create({ name, tier: 'pro' }));
    store.organizations.addMember(y?.id ?? '', userId, 'admin');
    clock.advance(1);
    store.organizations.addMember(x?.id ?? '', userId, 'member');
    const names = store.organizations.memberships(userId).map(({ organization, role }) => [organization.name, role]);
    expect(names).toEqual([
      ['Y', 'admin'],
      ['X', 'member'],
    ]);
  });
});

describe('dialled numbers', () => {
  it('match with and without +, per mode, in any organization', () => {
    const [a, b] = ['A', 'B'].map((name) => store.organizations.create({ name, tier: 'free' }).id);
    store.phoneNumbers.create({ organizationId: a ?? '', mode: 'live' }, { number: '+4930123456' });
    store.phoneNumbers.create({ organizationId: b ?? '', mode: 'test' }, { number: '+4930123456' });
    expect(store.phoneNumbers.findDialled('+4930123456', 'live')?.organizationId).toBe(a);
    expect(store.phoneNumbers.findDialled('4930123456', 'live')?.organizationId).toBe(a);
    expect(store.phoneNumbers.findDialled('4930123456', 'test')?.organizationId).toBe(b);
    for (const wrong of ['++4930123456', '493012345', '%', '', 'anonymous', '0'.repeat(500)]) {
      expect(store.phoneNumbers.findDialled(wrong, 'live'), wrong).toBeUndefined();
    }
  });
});

describe('secrets', () => {
  it('are masked everywhere but for the call itself and the SIP side', () => {
    const organizationId = store.organizations.create({ name: 'A', tier: 'free' }).id;
    const scope = { organizationId, mode: 'live' } as const;
    const config = { api_key: 's1', auth_token: 's2', headers: { authorization: 's3' }, model: 'm' };
    const { record } = store.endpoints.create(scope, {
      name: 'E',
      type: 'agent',
      target: 'wss://x.example',
      provider: 'custom',
      providerConfig: config,
    });
    const masked = { api_key: secretMask, auth_token: secretMask, headers: { authorization: secretMask }, model: 'm' };
    const shown = [
      record.providerConfig,
      store.endpoints.get(scope, record.id)?.providerConfig,
      store.endpoints.list(scope, {}, { limit: 5, offset: 0 }).data[0]?.providerConfig,
      store.endpoints.update(scope, record.id, { providerConfig: masked })?.providerConfig,
    ];
    for (const each of shown) expect(each).toEqual(masked);
    expect(store.endpoints.getForCall(record.id)?.providerConfig).toEqual(config);
  });
});
