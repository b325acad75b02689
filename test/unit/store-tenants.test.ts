import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.js';
import { apiKeyPattern, makeApiKey } from '../../src/store/tenants/api-keys.js';
import { bootstrap, undoBootstrap } from '../../src/store/tenants/bootstrap.js';
import { secretMask } from '../../src/store/tenants/secrets.js';
import { FakeClock } from '../support/fake-clock.js';
import { onPostgres, openStore } from '../support/open-store.js';

let dir: string;
let file: string;
let clock: FakeClock;
let store: Store;

beforeEach(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-tenants-'));
  file = path.join(dir, 'trunkline.db');
  clock = new FakeClock(Date.UTC(2026, 0, 15, 12));
  store = await openStore({ file, clock });
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

const echoAgent = { target: 'ws://127.0.0.1:9/echo', providerConfig: { protocol: 'raw' } };

describe('the first start', () => {
  it('makes an organization, its owner, a key, a number with an echo, and the loopback trunk', async () => {
    const first = await bootstrap(store, { echoAgent, loopbackTrunk: true });
    expect(first?.apiKey).toMatch(apiKeyPattern);
    const key = await store.apiKeys.authenticate(first?.apiKey ?? '');
    const memberships = await store.organizations.memberships(key?.userId ?? '');
    expect(memberships).toMatchObject([{ role: 'owner', organization: { name: 'Default', tier: 'enterprise' } }]);
    expect((await store.organizations.user(key?.userId ?? ''))?.platformOwner).toBe(true);
    const number = store.phoneNumbers.findDialled('15550100', 'live');
    expect(number).toMatchObject({ number: '+15550100', endpointId: first?.endpointId });
    expect(store.endpoints.getForCall(number?.endpointId ?? '')).toMatchObject({
      target: 'ws://127.0.0.1:9/echo',
      provider: 'custom',
      providerConfig: { protocol: 'raw' },
    });
    expect(await store.trunks.allForSip()).toMatchObject([
      { organizationId: null, addresses: ['127.0.0.0/8', '::1/128'] },
    ]);
  });

  it('happens once', async () => {
    await bootstrap(store, { echoAgent, loopbackTrunk: true });
    expect(await bootstrap(store, { echoAgent, loopbackTrunk: true })).toBeNull();
    expect(await store.organizations.count()).toBe(1);
    expect(await store.trunks.allForSip()).toHaveLength(1);
  });

  it('can be undone: nothing of it is left, and the next one is the first', async () => {
    const first = await bootstrap(store, { echoAgent, loopbackTrunk: true });
    await undoBootstrap(store, first!);
    expect(await store.apiKeys.authenticate(first?.apiKey ?? '')).toBeUndefined();
    expect(await store.organizations.user(first!.ownerId)).toBeUndefined();
    expect(store.phoneNumbers.findDialled('15550100', 'live')).toBeUndefined();
    expect(await store.trunks.allForSip()).toEqual([]);
    expect((await bootstrap(store, { echoAgent, loopbackTrunk: true }))?.apiKey).toMatch(apiKeyPattern);
  });

  it('installs the key of the settings and does not repeat it', async () => {
    const key = makeApiKey('live');
    expect((await bootstrap(store, { key, echoAgent, loopbackTrunk: false }))?.apiKey).toBeNull();
    expect((await store.apiKeys.authenticate(key))?.mode).toBe('live');
    expect(await store.trunks.allForSip()).toEqual([]);
  });

  it.each(['secret', makeApiKey('test'), `${makeApiKey('live')}x`])(
    'refuses %s as key, and makes nothing',
    async (key) => {
      await expect(bootstrap(store, { key, echoAgent, loopbackTrunk: true })).rejects.toThrow(
        /TRUNKLINE_BOOTSTRAP_KEY/,
      );
      expect(await store.organizations.count()).toBe(0);
    },
  );
});

describe('API keys', () => {
  const user = async () => {
    const organizationId = (await store.organizations.create({ name: 'A', tier: 'free' })).id;
    const userId = (await store.organizations.createUser({ name: 'U' })).id;
    await store.organizations.addMember(organizationId, userId, 'owner');
    return { organizationId, userId };
  };

  it('look as documented and are all different', () => {
    const keys = Array.from({ length: 200 }, () => makeApiKey('test'));
    expect(new Set(keys).size).toBe(200);
    for (const key of keys) expect(key).toMatch(/^trunkline_test_[0-9A-Za-z]{32}$/);
  });

  it.skipIf(onPostgres)('are kept as SHA-256 and a visible beginning only', async () => {
    const { record, key } = await store.apiKeys.create({ ...(await user()), mode: 'live', name: 'K' });
    expect(key.startsWith(record.prefix)).toBe(true);
    expect(record.prefix.length).toBeLessThan(key.length - 20);
    await store.close();
    const bytes = readFileSync(file).toString('latin1');
    expect(bytes).not.toContain(key);
    expect(bytes).toContain(createHash('sha256').update(key).digest('hex'));
  });

  it('are refused when malformed, unknown or revoked', async () => {
    const { userId, organizationId } = await user();
    const { record, key } = await store.apiKeys.create({ userId, organizationId, mode: 'live', name: 'K' });
    for (const wrong of ['', 'x', `${key} `, key.replace('live', 'test'), key.slice(0, -1), makeApiKey('live')]) {
      expect(await store.apiKeys.authenticate(wrong), wrong).toBeUndefined();
    }
    expect((await store.apiKeys.authenticate(key))?.id).toBe(record.id);
    const scope = { organizationId, userId, mode: 'live' } as const;
    expect(await store.apiKeys.revoke(scope, record.id)).toBe(true);
    expect(await store.apiKeys.authenticate(key)).toBeUndefined();
    expect(await store.apiKeys.revoke(scope, record.id)).toBe(false);
    expect((await store.apiKeys.list(scope, { limit: 10, offset: 0 })).total).toBe(0);
  });

  it('note when they were used, to the minute', async () => {
    const { userId, organizationId } = await user();
    const { record, key } = await store.apiKeys.create({ userId, organizationId, mode: 'live', name: 'K' });
    expect(record.lastUsedAt).toBeNull();
    // noted beside the request, which does not wait for it
    const usedAt = async () =>
      (await store.apiKeys.list({ organizationId, userId, mode: 'live' }, { limit: 1, offset: 0 })).data[0]?.lastUsedAt;
    await store.apiKeys.authenticate(key);
    const first = new Date(clock.now());
    await expect.poll(usedAt).toEqual(first);
    clock.advance(59_000);
    await store.apiKeys.authenticate(key);
    expect(await usedAt()).toEqual(first);
    clock.advance(1_000);
    await store.apiKeys.authenticate(key);
    await expect.poll(usedAt).toEqual(new Date(clock.now()));
  });
});

describe('a user', () => {
  it('has their organizations in order of joining', async () => {
    const userId = (await store.organizations.createUser({ name: 'U' })).id;
    const x = await store.organizations.create({ name: 'X', tier: 'pro' });
    const y = await store.organizations.create({ name: 'Y', tier: 'pro' });
    await store.organizations.addMember(y?.id ?? '', userId, 'admin');
    clock.advance(1);
    await store.organizations.addMember(x?.id ?? '', userId, 'member');
    const names = (await store.organizations.memberships(userId)).map(({ organization, role }) => [
      organization.name,
      role,
    ]);
    expect(names).toEqual([
      ['Y', 'admin'],
      ['X', 'member'],
    ]);
  });
});

describe('dialled numbers', () => {
  it('match with and without +, per mode, in any organization', async () => {
    const a = (await store.organizations.create({ name: 'A', tier: 'free' })).id;
    const b = (await store.organizations.create({ name: 'B', tier: 'free' })).id;
    await store.phoneNumbers.create({ organizationId: a ?? '', mode: 'live' }, { number: '+4930123456' });
    await store.phoneNumbers.create({ organizationId: b ?? '', mode: 'test' }, { number: '+4930123456' });
    expect(store.phoneNumbers.findDialled('+4930123456', 'live')?.organizationId).toBe(a);
    expect(store.phoneNumbers.findDialled('4930123456', 'live')?.organizationId).toBe(a);
    expect(store.phoneNumbers.findDialled('4930123456', 'test')?.organizationId).toBe(b);
    for (const wrong of ['++4930123456', '493012345', '%', '', 'anonymous', '0'.repeat(500)]) {
      expect(store.phoneNumbers.findDialled(wrong, 'live'), wrong).toBeUndefined();
    }
  });
});

describe('secrets', () => {
  it('are masked everywhere but for the call itself and the SIP side', async () => {
    const organizationId = (await store.organizations.create({ name: 'A', tier: 'free' })).id;
    const scope = { organizationId, mode: 'live' } as const;
    const config = { api_key: 's1', auth_token: 's2', headers: { authorization: 's3' }, model: 'm' };
    const { record } = await store.endpoints.create(scope, {
      name: 'E',
      type: 'agent',
      target: 'wss://x.example',
      provider: 'custom',
      providerConfig: config,
    });
    const masked = { api_key: secretMask, auth_token: secretMask, headers: { authorization: secretMask }, model: 'm' };
    const shown = [
      record.providerConfig,
      (await store.endpoints.get(scope, record.id))?.providerConfig,
      (await store.endpoints.list(scope, {}, { limit: 5, offset: 0 })).data[0]?.providerConfig,
      (await store.endpoints.update(scope, record.id, { providerConfig: masked }))?.providerConfig,
    ];
    for (const each of shown) expect(each).toEqual(masked);
    expect(store.endpoints.getForCall(record.id)?.providerConfig).toEqual(config);
  });
});
