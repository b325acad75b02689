import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.js';
import type { Scope } from '../../src/store/tenants/scope.js';
import { onPostgres, openStore } from '../support/open-store.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'trunkline-vault-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const open = (secretsKey: string | null) => openStore({ file: path.join(folder, 'trunkline.db'), secretsKey });
/** Everything that lies in the folder, also what is still in the write-ahead log. */
const onDisk = () =>
  ['trunkline.db', 'trunkline.db-wal']
    .map((name) => {
      try {
        return readFileSync(path.join(folder, name), 'latin1');
      } catch {
        return '';
      }
    })
    .join('');

async function fill(store: Store): Promise<{ id: string; webhookSecret: string; scope: Scope }> {
  const { id: organizationId } = await store.organizations.create({ name: 'A', tier: 'free' });
  const scope = { organizationId, mode: 'live' } as const;
  const agent = { name: 'A', type: 'agent' as const, target: 'wss://a.example', provider: 'openai' };
  const { record } = await store.endpoints.create(scope, {
    ...agent,
    providerConfig: { api_key: 'sk-very-secret', override: { token: 'also-secret' } },
  });
  const hook = { name: 'W', type: 'webhook' as const, target: 'https://w.example', provider: null, providerConfig: {} };
  const { webhookSecret } = await store.endpoints.create(scope, hook);
  const trunk = { name: 'T', direction: 'both' as const, addresses: [], username: 'u', gateways: [], shared: false };
  const rest = {
    transport: 'udp' as const,
    srtp: 'off' as const,
    register: false,
    codecs: [],
    status: 'active' as const,
  };
  await store.trunks.create({ ...scope, shared: false }, { ...trunk, ...rest, password: 'pass-secret' });
  return { id: record.id, webhookSecret: webhookSecret ?? '', scope };
}

describe('secrets at rest', () => {
  it('with a key nothing of them is in the file, and calls get them in clear', async () => {
    const store = await open('a key of some length');
    const { id, webhookSecret, scope } = await fill(store);
    await store.endpoints.update(scope, id, { providerConfig: { api_key: '********', model: 'm' } });
    expect(store.endpoints.getForCall(id)?.providerConfig).toEqual({ api_key: 'sk-very-secret', model: 'm' });
    expect((await store.endpoints.get(scope, id))?.providerConfig).toEqual({ api_key: '********', model: 'm' });
    expect((await store.trunks.allForSip())[0]?.password).toBe('pass-secret');
    await store.close();
    for (const secret of ['sk-very-secret', 'also-secret', 'pass-secret', webhookSecret]) {
      expect(secret).not.toBe('');
      expect(onDisk()).not.toContain(secret);
    }
  });

  it('events of calls to an encrypted webhook endpoint are written, and sent if it has an events_url', async () => {
    const deliveriesOf = async (store: Store, scope: Scope, providerConfig: Record<string, string>) => {
      const hook = { name: 'W', type: 'webhook' as const, target: 'https://w.example', provider: null, providerConfig };
      const { record } = await store.endpoints.create(scope, hook);
      return eventOf(store, scope, record.id);
    };
    const eventOf = async (store: Store, scope: Scope, endpointId: string) => {
      const phoneNumberId = scope.organizationId;
      const id = store.calls.begin({
        ...{ ...scope, direction: 'inbound', fromNumber: 'x', toNumber: 'y', phoneNumberId, endpointId },
      });
      store.calls.event(id, 'dtmf.received', { digit: '1' });
      await store.calls.flush();
      expect((await store.records.detail(scope, id))?.events.map(({ type }) => type)).toContain('dtmf.received');
      return (await store.webhookDeliveries.list(scope, { callId: id }, { limit: 10, offset: 0 })).data;
    };
    const store = await open('a key of some length');
    const { scope } = await fill(store);
    expect(await deliveriesOf(store, scope, {})).toEqual([]);
    expect((await deliveriesOf(store, scope, { events_url: 'https://w.example/events' })).length).toBeGreaterThan(0);
    const [endpoint] = (await store.endpoints.list(scope, { type: 'webhook' }, { limit: 1, offset: 0 })).data;
    await store.endpoints.update(scope, endpoint!.id, { providerConfig: {} });
    expect(await eventOf(store, scope, endpoint!.id)).toEqual([]);
    await store.close();
  });

  it.skipIf(onPostgres)('what was in clear is encrypted at the first start with a key', async () => {
    const clear = await open(null);
    const { id, webhookSecret } = await fill(clear);
    await clear.close();
    expect(onDisk()).toContain('sk-very-secret');
    const sealed = await open('a key of some length');
    expect(sealed.endpoints.getForCall(id)?.providerConfig.api_key).toBe('sk-very-secret');
    expect((await sealed.trunks.allForSip())[0]?.password).toBe('pass-secret');
    await sealed.close();
    expect(webhookSecret).toMatch(/^whsec_/);
    await expect(open(null)).rejects.toThrow('set TRUNKLINE_SECRETS_KEY');
    await expect(open('another key, as long')).rejects.toThrow('is not the key');
    const again = await open('a key of some length');
    expect(again.endpoints.getForCall(id)?.providerConfig.api_key).toBe('sk-very-secret');
    await again.close();
  });

  it('an encrypted webhook still gets the events of its calls', async () => {
    const store = await open('a key of some length');
    const { scope } = await fill(store);
    const providerConfig = { events_url: 'https://w.example/events' };
    const hook = { name: 'E', type: 'webhook' as const, target: 'https://w.example', provider: null, providerConfig };
    const { record } = await store.endpoints.create(scope, hook);
    const about = { fromNumber: 'x', toNumber: 'y', phoneNumberId: 'n', direction: 'inbound' } as const;
    const callId = store.calls.begin({ ...scope, ...about, endpointId: record.id });
    await store.calls.flush();
    const { data } = await store.webhookDeliveries.list(scope, { callId }, { limit: 10, offset: 0 });
    expect(data.map(({ eventType }) => eventType)).toEqual(['call.initiated']);
    await store.close();
  });

  it.skipIf(onPostgres)('a changed byte is noticed', async () => {
    const store = await open('a key of some length');
    const { id } = await fill(store);
    const database = (store as unknown as { database: import('../../src/store/database/database.js').Database })
      .database;
    const row = await database.get(database.sql.selectFrom('endpoints').selectAll().where('id', '=', id));
    const bytes = Buffer.from(row?.provider_config.slice('sealed:1:'.length) ?? '', 'base64');
    bytes[bytes.length - 1]! ^= 1;
    const provider_config = `sealed:1:${bytes.toString('base64')}`;
    await database.run(database.sql.updateTable('endpoints').set({ provider_config }).where('id', '=', id));
    expect(() => store.endpoints.getForCall(id)).toThrow('is not the key');
    await store.close();
  });
});
