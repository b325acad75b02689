/** What a store over PostgreSQL does when its server fails, and when several processes share it. */
import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/store/database/clock.js';
import { migrations } from '../../src/store/postgres/migrations/index.js';
import { Store } from '../../src/store/store.js';
import { databaseOf } from '../support/open-store.js';
import { PostgresRelay } from '../support/postgres-relay.js';
import { query } from '../support/postgres-server.js';

let url: string;
let relay: PostgresRelay;
const open: Store[] = [];

beforeEach(async () => {
  url = await databaseOf(randomBytes(8).toString('hex'));
  relay = await PostgresRelay.to(Number(new URL(url).port));
});
afterEach(async () => {
  for (const store of open.splice(0)) await store.close();
  await relay.close();
});

async function start(to = url): Promise<Store> {
  const store = await Store.open({ url: to, clock: systemClock, holdGraceSec: 1 });
  open.push(store);
  return store;
}

async function organizationOf(store: Store): Promise<string> {
  return (await store.organizations.create({ name: 'A', tier: 'free' })).id;
}

const newCall = {
  mode: 'live',
  direction: 'inbound',
  fromNumber: 'anonymous',
  toNumber: '+15550100',
  phoneNumberId: 'n',
  endpointId: null,
} as const;
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
const written = (store: Store, limitMs = 20_000) =>
  expect.poll(() => store.calls.unwritten, { timeout: limitMs }).toBe(0);

describe('a start', () => {
  const address = (database: string, user = 'trunkline') => {
    const other = new URL(url);
    other.pathname = database;
    other.username = user;
    return other.href;
  };

  it('says in a sentence what is wrong', async () => {
    await expect(start(address('absent'))).rejects.toMatchObject({
      ...{ code: 'cannot_open', message: expect.stringContaining('create it with createdb') },
    });
    await expect(start(address('postgres', 'nobody'))).rejects.toThrow('refuses the user or the password');
    await expect(start('postgres://trunkline:secret@127.0.0.1:1/x')).rejects.toThrow(/No PostgreSQL server answers/);
    await expect(start('postgres://trunkline:secret@127.0.0.1:1/x')).rejects.not.toThrow('secret');
  });

  it('refuses a database of a newer version, and one whose user may make no tables', async () => {
    await query(url, "insert into schema_migrations values ('0099-later', 0)");
    await expect(start()).rejects.toMatchObject({ code: 'newer_schema' });
    const role = `guest_${randomBytes(6).toString('hex')}`;
    const empty = `d_${randomBytes(6).toString('hex')}`;
    await query(url, `create role ${role} login`);
    await query(url, `create database ${empty}`);
    await expect(start(address(empty, role))).rejects.toThrow('may not create or use the tables');
  });

  it('does not wait for ever for a server that accepts and never answers', async () => {
    const mute: Server = createServer(() => {});
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    const { port } = mute.address() as { port: number };
    const startedMs = performance.now();
    await expect(start(`postgres://u@127.0.0.1:${port}/d`)).rejects.toThrow('does not answer in time');
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    mute.close();
  });

  it('of several processes at once makes the tables once', async () => {
    const empty = `d_${randomBytes(6).toString('hex')}`;
    await query(url, `create database ${empty}`);
    const stores = await Promise.all([1, 2, 3].map(() => start(address(empty))));
    expect(await stores[0]?.organizations.count()).toBe(0);
    expect(await query(address(empty), 'select count(*)::int as n from schema_migrations')).toEqual([
      { n: Object.keys(migrations).length },
    ]);
  });
});

describe('a server', () => {
  it('whose connection is cut between commit and answer: everything is there, and nothing twice', async () => {
    const store = await start(relay.url(url));
    const organizationId = await organizationOf(store);
    await store.accounts.credit(organizationId, 1_000, '');
    await store.accounts.setRates(organizationId, [
      { direction: 'inbound', prefix: '', microcentsPerMinute: 60_000_000, initialIncrementSec: 1, incrementSec: 1 },
    ]);
    const rate = store.funds.rateOf({ organizationId, ...newCall });
    const ids: string[] = [];
    for (let round = 0; round < 5; round += 1) {
      relay.cutCommits(1);
      const asked = Array.from({ length: 5 }, () =>
        store.calls.beginAdmitted({ organizationId, ...newCall }, { concurrentCalls: 100, rate }),
      );
      for (const { id, admission } of asked) {
        expect(await admission).toMatchObject({ kind: 'admitted', fundedSec: 60 });
        ids.push(id);
      }
      relay.cutCommits(1);
      for (const { id } of asked) store.calls.finish(id, end);
      await written(store);
    }
    expect(relay.cuts).toBe(10);
    const scope = { organizationId, mode: 'live' } as const;
    for (const id of ids)
      expect(
        (await store.records.detail(scope, id))?.events.map(({ sequence, type }) => `${sequence} ${type}`),
      ).toEqual([...['1 call.initiated', '2 call.completed', '3 call.cost_settled']]);
    expect((await store.records.stats(scope, {})).completed).toBe(ids.length);
    expect(await store.accounts.balance(organizationId)).toEqual({
      ...{ microcents: (1_000 - 3 * ids.length) * 1_000_000, heldMicrocents: 0 },
    });
  });

  it('that is gone: what was known is known, records wait, and settings are refused; then all of it is there', async () => {
    const store = await start(relay.url(url));
    const organizationId = await organizationOf(store);
    relay.goAway();
    const asked = Array.from({ length: 50 }, () =>
      store.calls.beginAdmitted({ organizationId, ...newCall }, { concurrentCalls: null, rate: null }),
    );
    for (const { id } of asked) store.calls.event(id, 'call.ringing');
    expect(store.organizations.get(organizationId)?.name).toBe('A');
    await expect(store.organizations.update(organizationId, { name: 'B' })).rejects.toMatchObject({
      code: 'unavailable',
    });
    await expect.poll(() => store.writable()).toBe(false);
    for (const { id } of asked) store.calls.finish(id, end);
    expect(await store.calls.flush()).toBe(false);
    relay.comeBack();
    await written(store);
    const scope = { organizationId, mode: 'live' } as const;
    expect(await store.records.stats(scope, {})).toMatchObject({ completed: 50, in_progress: 0 });
    for (const { id, admission } of asked) {
      expect(await admission).toMatchObject({ kind: 'admitted' });
      expect((await store.records.detail(scope, id))?.events.map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
    }
    expect(await store.writable()).toBe(true);
  });
});

describe('two processes', () => {
  it('see each other’s settings', async () => {
    const [one, two] = [await start(), await start()];
    const id = await organizationOf(one);
    await expect.poll(() => two.organizations.get(id)?.name).toBe('A');
    await two.organizations.update(id, { name: 'B' });
    expect(two.organizations.get(id)?.name).toBe('B'); // its own at once
    await expect.poll(() => one.organizations.get(id)?.name).toBe('B');
  });

  it('hold no more than the balance, however many ask at once', async () => {
    const stores = [await start(), await start()];
    const organizationId = await organizationOf(stores[0]!);
    await stores[0]!.accounts.credit(organizationId, 16 * 60, '');
    const rate = { microcentsPerMinute: 60_000_000, initialIncrementSec: 60, incrementSec: 60 };
    const asked = Array.from({ length: 50 }, (_, i) =>
      stores[i % 2]!.calls.beginAdmitted({ organizationId, ...newCall }, { concurrentCalls: null, rate }),
    );
    const kinds = (await Promise.all(asked.map(({ admission }) => admission))).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'admitted')).toHaveLength(16);
    expect(kinds.filter((kind) => kind === 'no_balance')).toHaveLength(34);
    expect((await stores[1]!.accounts.balance(organizationId)).heldMicrocents).toBe(16 * 60_000_000);
  });

  it('count together what they write side by side', async () => {
    const stores = [await start(), await start()];
    const organizationId = await organizationOf(stores[0]!);
    for (let round = 0; round < 10; round += 1) {
      for (const store of stores) {
        const id = store.calls.begin({ organizationId, ...newCall });
        store.calls.finish(id, end);
      }
      await Promise.all(stores.map((store) => written(store)));
    }
    const scope = { organizationId, mode: 'live' } as const;
    for (const store of stores) expect((await store.records.stats(scope, {})).completed).toBe(20);
  });
});
