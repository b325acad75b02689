/** Partitions of calls by month: they are made ahead, an older database keeps its rows, and a month goes as a whole. */
import { randomBytes, randomUUID } from 'node:crypto';
import pg from 'pg';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Retention } from '../../src/retention.js';
import { boundOf, newId, timeOf } from '../../src/store/database/ids.js';
import { checkPostgres } from '../../src/store/maintenance/check.js';
import { makeMonths, startOfMonth } from '../../src/store/postgres/call-partitions.js';
import { executing, withConnection } from '../../src/store/postgres/connections.js';
import { migrate } from '../../src/store/postgres/migrate.js';
import { migrations } from '../../src/store/postgres/migrations/index.js';
import { Store } from '../../src/store/store.js';
import type { Scope } from '../../src/store/tenants/scope.js';
import { FakeClock } from '../support/fake-clock.js';
import { databaseOf } from '../support/open-store.js';
import { query } from '../support/postgres-server.js';

const dayMs = 86_400_000;
const nowMs = Date.UTC(2026, 5, 1);
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
let url: string;
let store: Store;
const open: Store[] = [];

beforeEach(async () => {
  url = await databaseOf(randomBytes(8).toString('hex'));
});
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

async function start(): Promise<void> {
  store = await Store.open({ url, clock: new FakeClock(nowMs), poolSize: 3 });
  open.push(store);
}

/** The id of a call that began at this time. */
const idAt = (ms: number) => `${boundOf(ms)}-7${randomUUID().slice(15)}`;
const partitionOf = async (id: string) =>
  (await query(url, `select tableoid::regclass::text as name from calls where id = '${id}'`))[0]?.name;
const exists = async (table: string) =>
  (await query(url, `select to_regclass('${table}') is not null as it`))[0]?.it === true;
/** Of figures, numbers of events and the like; the files of recordings are made up. */
const problems = async () =>
  (await checkPostgres(url))
    .flatMap((finding) => finding.problems)
    .filter((problem) => !problem.endsWith('is missing'));

describe('ids and months', () => {
  it('an id is in the month that it was made in', () => {
    const before = Date.now();
    const id = newId();
    expect(timeOf(id)).toBeGreaterThanOrEqual(before);
    expect(timeOf(id)).toBeLessThanOrEqual(Date.now());
    const monthMs = startOfMonth(timeOf(id));
    expect(boundOf(monthMs) < id && id < boundOf(startOfMonth(monthMs, 1))).toBe(true);
    expect(new Date(startOfMonth(Date.UTC(2026, 10, 30, 23), 2)).toISOString()).toBe('2027-01-01T00:00:00.000Z');
  });
});

describe('a new database', () => {
  it('has room for this month and the next two, and everything of a call is in its month', async () => {
    await start();
    const { id: organizationId } = await store.organizations.create({ name: 'A', tier: 'free' });
    const about = { mode: 'live', direction: 'inbound', fromNumber: '1', toNumber: '2', phoneNumberId: 'n' } as const;
    const id = store.calls.begin({ organizationId, ...about, endpointId: null });
    store.calls.finish(id, end);
    expect(await store.calls.flush()).toBe(true);
    const month = (later: number) =>
      new Date(startOfMonth(timeOf(id), later)).toISOString().slice(0, 7).replace('-', '_');
    expect(await partitionOf(id)).toBe(`calls_${month(0)}`);
    for (const later of [1, 2])
      for (const table of ['calls', 'call_events', 'call_traces', 'call_quality'])
        expect(await exists(`${table}_${month(later)}`)).toBe(true);
    expect(await exists('calls_before')).toBe(false);
    expect(await query(url, 'select count(*) as n from calls_other')).toEqual([{ n: 0 }]);
  });
});

describe('a list of calls', () => {
  const scope: Scope = { organizationId: 'o', mode: 'live' };
  /** Calls at these times, whose ids were made then or at another time; returned newest first. */
  async function callsAt(times: { ms: number; idMs?: number }[]): Promise<string[]> {
    await start();
    await query(
      url,
      `insert into organizations (id, name, tier, limits, created_at, updated_at) values ('o', 'A', 'free', '{}', 1, 1)`,
    );
    const months = [...new Set(times.map(({ ms }) => startOfMonth(ms)))];
    await withConnection(url, (client) => makeMonths(executing(client), months));
    const calls = times.map(({ ms, idMs = ms }) => ({ ms, id: idAt(idMs) }));
    for (const { ms, id } of calls) {
      await query(
        url,
        `insert into calls (id, organization_id, mode, instance_id, direction, from_number, to_number, status, phone_number_id, created_at)
           values ('${id}', 'o', 'live', 'i', 'inbound', '1', '2', 'completed', 'n', ${ms})`,
      );
      for (const [table, bucket, lengthMs] of [
        ['call_days', 'day', dayMs],
        ['call_hours', 'hour', dayMs / 24],
      ] as const)
        await query(
          url,
          `insert into ${table} (organization_id, mode, phone_number_id, ${bucket}, direction, completed, failed, in_progress, no_answer, busy)
             values ('o', 'live', '', ${Math.floor(ms / lengthMs)}, 'inbound', 1, 0, 0, 0, 0)
             on conflict (organization_id, mode, phone_number_id, ${bucket}, direction) do update set completed = ${table}.completed + 1`,
        );
    }
    return calls.sort((a, b) => b.ms - a.ms).map(({ id }) => id);
  }
  const pages = async (limit: number, of: number) => {
    const found: string[] = [];
    for (let offset = 0; offset < of; offset += limit)
      found.push(...(await store.records.list(scope, {}, { limit, offset })).data.map(({ id }) => id));
    return found;
  };
  const monthMs = (later: number) => startOfMonth(nowMs, later);

  it('has every call once and in order, also on pages that span months', async () => {
    const times = [-3, -2, -2, -1].flatMap((later, n) =>
      [0, dayMs - 1, dayMs, 20 * dayMs].map((ms) => ({ ms: monthMs(later) + ms + 10 * n })),
    );
    const newestFirst = await callsAt([...times, { ms: monthMs(-3) - 1 }]);
    for (const limit of [1, 3, 7, 100])
      expect(await pages(limit, newestFirst.length), `${limit} a page`).toEqual(newestFirst);
  });

  it('has calls whose ids a wrong clock made', async () => {
    const newestFirst = await callsAt([
      { ms: monthMs(-3) + dayMs, idMs: monthMs(-1) },
      { ms: monthMs(-1) + 3 * dayMs, idMs: monthMs(-3) + dayMs },
    ]);
    expect(await pages(1, 2)).toEqual(newestFirst);
    expect(await pages(10, 2)).toEqual(newestFirst);
  });
});

describe('a database of an older version', () => {
  it('keeps its rows where they are, also when two processes bring it up to date, and takes new calls', async () => {
    const name = `older_${randomBytes(6).toString('hex')}`;
    const server = url.slice(0, url.lastIndexOf('/'));
    await query(`${server}/postgres`, `create database ${name}`);
    url = `${server}/${name}`;
    const { '0004-partitions': _, ...older } = migrations;
    await migrate(url, Date.now, { migrations: older });
    const old = idAt(Date.UTC(2025, 3, 10));
    const event = newId();
    await query(
      url,
      `insert into organizations (id, name, tier, limits, created_at, updated_at) values ('o', 'A', 'free', '{}', 1, 1);
       insert into calls (id, organization_id, mode, instance_id, direction, from_number, to_number, status, phone_number_id, created_at)
         values ('${old}', 'o', 'live', 'i', 'inbound', '1', '2', 'completed', 'n', ${Date.UTC(2025, 3, 10)});
       insert into call_events values ('${event}', '${old}', 1, 'call.initiated', '{}', 5);
       insert into call_traces values ('${old}', '[]');
       insert into call_days values ('o', 'live', '', ${Date.UTC(2025, 3, 10) / dayMs}, 'inbound', 1, 0, 0, 0, 0)`,
    );
    const upgrades: (readonly string[])[] = [];
    const onUpgrade = (names: readonly string[]) => void upgrades.push(names);
    await Promise.all([migrate(url, Date.now, { onUpgrade }), migrate(url, Date.now, { onUpgrade })]);
    expect(upgrades).toEqual([['0004-partitions']]); // by one of the two
    await start();
    const own = "select count(*) as n from pg_index where indrelid = 'calls_before'::regclass";
    expect(await query(url, own)).toEqual([{ n: 8 }]); // as before: none was built again
    expect(await partitionOf(old)).toBe('calls_before');
    const scope: Scope = { organizationId: 'o', mode: 'live' };
    const detail = await store.records.detail(scope, old);
    expect(detail?.events.map(({ type }) => type)).toEqual(['call.initiated']);
    expect(await store.records.trace(scope, old)).toEqual([]);
    const about = { direction: 'inbound', fromNumber: '1', toNumber: '2', phoneNumberId: 'n' } as const;
    const fresh = store.calls.begin({ ...scope, ...about, endpointId: null });
    store.calls.finish(fresh, end);
    expect(await store.calls.flush()).toBe(true);
    expect(await partitionOf(fresh)).toBe('calls_before'); // until the month is over
    const next = idAt(startOfMonth(Date.now(), 1) + dayMs);
    store.calls.begin({ id: next, ...scope, ...about, endpointId: null });
    expect(await store.calls.flush()).toBe(true);
    expect(await partitionOf(next)).toMatch(/^calls_20\d\d_\d\d$/);
  });
});

it('trunkline db check names what belongs to a call that is not there', async () => {
  await start();
  expect(await problems()).toEqual([]);
  await query(url, "insert into call_traces values ('gone', '[]')");
  expect(await problems()).toEqual(['a row of call_traces belongs to call gone, which is not there']);
});

describe('a month of calls', () => {
  const january = Date.UTC(2026, 0, 1);
  const february = Date.UTC(2026, 1, 1);
  let limited: Scope;
  let removed: string[];

  beforeEach(async () => {
    await start();
    await withConnection(url, (client) => makeMonths(executing(client), [january, february, Date.UTC(2026, 4, 1)]));
    limited = await organization(30);
    removed = [];
  });

  const organization = async (days: number | null): Promise<Scope> => {
    const limits = { call_retention_days: days };
    return {
      organizationId: (await store.organizations.create({ name: 'A', tier: 'pro', limits })).id,
      mode: 'live',
    };
  };
  async function call(scope: Scope, beganMs: number, idMs = beganMs): Promise<string> {
    const about = { direction: 'inbound', fromNumber: '1', toNumber: '2', phoneNumberId: 'n' } as const;
    const id = store.calls.begin({
      ...{ id: idAt(idMs), ...scope, ...about },
      ...{ endpointId: null, createdAt: new Date(beganMs) },
    });
    store.calls.recorded(id, `file:///${id}.wav`);
    store.calls.finish(id, { ...end, quality: { mos: 4.2 } });
    expect(await store.calls.flush()).toBe(true);
    return id;
  }
  const cleaning = () =>
    new Retention({
      ...{ expired: store.expiredCalls, months: store.expiredMonths, isOurs: () => true },
      ...{ clock: new FakeClock(nowMs), log: pino({ level: 'silent' }) },
      removeFile: async (file) => {
        removed.push(file);
      },
    });
  const counted = (scope: Scope) => store.records.stats(scope, {});

  it('that no organization keeps is dropped with its recordings and figures, and those around it stay right', async () => {
    const inside = [await call(limited, january + 5 * dayMs), await call({ ...limited, mode: 'test' }, january)];
    const midnight = await call(limited, february - 20, february + 5); // came in January, its id is of February
    const young = await call(limited, Date.UTC(2026, 4, 20));
    await store.recordings.add({
      ...{ id: 'r', callId: inside[0] ?? '', token: 't', file: 'file:///take.wav', durationMs: 1, bytes: 4 },
      createdAt: new Date(january),
    });
    const retention = cleaning();
    await retention.look();
    for (const table of ['calls', 'call_events', 'call_traces', 'call_quality'])
      expect(await exists(`${table}_2026_01`)).toBe(false);
    expect([...removed].sort()).toEqual(
      [...inside, midnight]
        .map((id) => `file:///${id}.wav`)
        .concat('file:///take.wav')
        .sort(),
    );
    expect(retention.deleted).toBe(3);
    for (const id of [...inside, midnight])
      expect(await query(url, `select 1 from calls where id = '${id}'`)).toEqual([]);
    expect(await query(url, 'select id from recordings')).toEqual([]);
    expect(await counted(limited)).toMatchObject({ completed: 1 });
    expect(await store.records.detail(limited, young)).toMatchObject({ status: 'completed' });
    expect(await problems()).toEqual([]);
  });

  it('of which one organization keeps a call stays; the others’ calls go one by one', async () => {
    const kept = await organization(null);
    const theirs = await call(kept, january + dayMs);
    await call(limited, january + dayMs);
    await call(limited, february + dayMs);
    const retention = cleaning();
    await retention.look();
    expect(await exists('calls_2026_01')).toBe(true);
    expect(await exists('calls_2026_02')).toBe(false);
    expect(await store.records.detail(kept, theirs)).toMatchObject({ status: 'completed' });
    expect(await counted(limited)).toMatchObject({ completed: 0 });
    expect(retention.deleted).toBe(2);
    expect(await problems()).toEqual([]);
  });

  it('with a call that is not over, or with a file that cannot be deleted, is not dropped', async () => {
    const about = { direction: 'inbound', fromNumber: '1', toNumber: '2', phoneNumberId: 'n' } as const;
    const createdAt = new Date(january + dayMs);
    store.calls.begin({ id: idAt(january + dayMs), ...limited, ...about, endpointId: null, createdAt });
    const stuck = await call(limited, february + dayMs);
    const retention = new Retention({
      ...{ expired: store.expiredCalls, months: store.expiredMonths, isOurs: () => true },
      ...{ clock: new FakeClock(nowMs), log: pino({ level: 'silent' }) },
      removeFile: () => Promise.reject(new Error('EACCES')),
    });
    await retention.look();
    expect(await exists('calls_2026_01')).toBe(true);
    expect(await exists('calls_2026_02')).toBe(true);
    expect(await store.records.detail(limited, stuck)).toMatchObject({ status: 'completed' });
    expect(await counted(limited)).toMatchObject({ completed: 1, in_progress: 1 });
    expect(await problems()).toEqual([]);
  });

  it('that a long read uses is emptied in steps, and dropped later', async () => {
    await call(limited, january + dayMs);
    const reader = new pg.Client(url);
    await reader.connect();
    try {
      await reader.query('begin');
      await reader.query('select count(*) from calls_2026_01');
      const retention = cleaning();
      await retention.look();
      expect(await exists('calls_2026_01')).toBe(true);
      expect(await problems()).toEqual([]);
      await reader.query('commit');
      await expect
        .poll(
          async () => {
            await retention.look(); // gives up when the database is busy
            return exists('calls_2026_01');
          },
          { timeout: 20_000 },
        )
        .toBe(false);
      expect(await counted(limited)).toMatchObject({ completed: 0 });
    } finally {
      await reader.end();
    }
  });
});
