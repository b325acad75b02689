import { fork } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { QualityMetrics, Turn } from '../../src/store/calls/call-records.js';
import { isPassing, sqliteCode } from '../../src/store/database/errors.js';
import { migrations } from '../../src/store/database/migrations/index.js';
import { migrateFile } from '../../src/store/sqlite/connection.js';
import { driverPackages, loadDriver } from '../../src/store/sqlite/driver.js';
import { SqliteDatabase } from '../../src/store/sqlite/sqlite-database.js';
import { Store } from '../../src/store/store.js';

let dir: string;
let file: string;

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-database-'));
  file = path.join(dir, 'data', 'trunkline.db');
});
afterEach(() => rmSync(dir, { recursive: true }));

const Driver = loadDriver();
function query(sql: string): unknown[] {
  const database = new Driver(file);
  try {
    return database.prepare(sql).all();
  } finally {
    database.close();
  }
}
const tables = () => query("select name from sqlite_master where type = 'table' order by name").length;

describe('opening', () => {
  it('makes folder and file, with WAL', () => {
    migrateFile(file, () => 7);
    expect(query('pragma journal_mode')).toEqual([{ journal_mode: 'wal' }]);
    expect(query('select * from schema_migrations')).toEqual(
      Object.keys(migrations).map((name) => ({ name, applied_at: 7 })),
    );
  });

  it('brings what was committed into the file itself, in a thread beside the one that writes', async () => {
    const database = SqliteDatabase.open({ file, now: () => 7 });
    const add = (id: string) =>
      database.transaction((transaction) =>
        transaction.write('insert into request_days (organization_id, day, requests) values (?, 1, 1)', id),
      );
    for (let i = 0; i < 100; i++) await add(`o${i}`);
    const copy = path.join(dir, 'copy.db');
    const inFileAlone = () => {
      copyFileSync(file, copy);
      const alone = new Driver(copy);
      try {
        return alone.prepare('select count(*) from request_days').pluck().get();
      } finally {
        alone.close();
      }
    };
    await vi.waitFor(() => expect(inFileAlone()).toBe(100), 10_000);
    await database.close();
  }, 15_000);

  it.each([
    ['normal', 1],
    ['full', 2],
  ] as const)('the thread that writes enforces references, and syncs as asked: %s', async (durability, synchronous) => {
    const database = SqliteDatabase.open({ file, now: () => 7, durability });
    const pragmas = await database.transaction(async (transaction) => [
      await transaction.row('pragma foreign_keys'),
      await transaction.row('pragma synchronous'),
    ]);
    expect(pragmas).toEqual([{ foreign_keys: 1 }, { synchronous }]);
    await database.close();
  });

  it('the connection of this thread cannot write', async () => {
    const database = SqliteDatabase.open({ file, now: () => 7 });
    await expect(database.rows('delete from users returning id')).rejects.toThrow();
    await database.close();
  });

  it('says in one sentence why it cannot', () => {
    mkdirSync(path.dirname(file));
    writeFileSync(file, 'this is not a database, it is a text of some length that SQLite will not like at all');
    expect(() => migrateFile(file, Date.now)).toThrow(`Cannot open the database ${file}: file is not a database`);
    const below = path.join(file, 'x.db');
    expect(() => migrateFile(below, Date.now)).toThrow(`Cannot open the database ${below}: `);
  });
});

describe('an error of the moment', () => {
  it.each([
    [{ code: 'SQLITE_BUSY', message: 'database is locked' }, true],
    [{ code: 'ERR_SQLITE_ERROR', sqliteCodeName: 'SQLITE_IOERR_WRITE', message: 'disk I/O error' }, true],
    [{ code: 'ERR_SQLITE_ERROR', message: 'database is locked' }, true],
    [{ code: 'ERR_SQLITE_ERROR', message: 'database or disk is full' }, true],
    [{ code: 'ERR_SQLITE_ERROR', message: 'no such table: database is locked' }, false],
    [{ code: 'SQLITE_CONSTRAINT', message: 'UNIQUE constraint failed: calls.id' }, false],
    [new Error('out of range'), false],
    [undefined, false],
  ])('%j: %s', (error, is) => {
    expect(isPassing(error)).toBe(is);
  });
});

describe('migrating', () => {
  it('does nothing the second time', () => {
    migrateFile(file, () => 7);
    const before = query('select sql from sqlite_master');
    migrateFile(file, () => 8);
    expect(query('select sql from sqlite_master')).toEqual(before);
    expect(query('select applied_at from schema_migrations')).toEqual(
      Object.keys(migrations).map(() => ({ applied_at: 7 })),
    );
  });

  it('says what is missing before it changes a file of an older version, and nothing of a new or current one', () => {
    const said: (readonly string[])[] = [];
    const older = Object.fromEntries(Object.entries(migrations).slice(0, -2));
    const migrate = (which = migrations) =>
      migrateFile(
        file,
        () => 7,
        which,
        (names) => said.push(names),
      );
    migrate(older);
    migrate(older);
    expect(said).toEqual([]);
    migrate();
    migrate();
    expect(said).toEqual([Object.keys(migrations).slice(-2)]);
  });

  it('leaves the old schema when a migration fails half way, and goes on from there', () => {
    migrateFile(file, () => 7);
    const before = tables();
    const broken = { ...migrations, '0098-more': { statements: ['create table more (id text)', 'create tabel oops'] } };
    expect(() => migrateFile(file, () => 8, broken)).toThrow(/Cannot open the database/);
    expect(tables()).toBe(before);
    const mended = { ...migrations, '0098-more': { statements: ['create table more (id text)'] } };
    migrateFile(file, () => 9, mended);
    expect(tables()).toBe(before + 1);
    expect(query('select name from schema_migrations order by name')).toHaveLength(Object.keys(migrations).length + 1);
  });

  it('of a file whose counters triggers kept: code goes on with them, and counts the same', async () => {
    const before = Object.fromEntries(Object.entries(migrations).filter(([name]) => name < '0018'));
    expect(Object.keys(before).at(-1)).toBe('0017-encrypted-endpoints');
    migrateFile(file, () => 7, before);
    const day = 20_468;
    const startedMs = day * 86_400_000 + 3_600_000;
    const hop = (ms: number) => ({ p50_ms: ms - 1, p95_ms: ms, max_ms: ms + 1 });
    const quality = {
      mos: 4.237,
      audio_delay: { caller_network: hop(99), gateway_uplink: hop(617), gateway_playout: hop(4_411) },
    };
    const turns = [7, 96, 997, 4_980, 61_000].map((responseMs) => ({ speaker: 'agent', responseMs }));
    const old = new Driver(file);
    old.exec(`insert into organizations (id, name, tier, limits, created_at, updated_at) values ('o', 'O', 'free', '{}', 7, 7);
      insert into endpoints (id, organization_id, mode, name, type, target, provider_config, webhook_secret, has_events_url, record, status, health, created_at, updated_at)
        values ('e', 'o', 'live', 'E', 'webhook', 'https://e.example', '{"events_url":"https://e.example/events"}', 's', 1, 0, 'active', 'unknown', 7, 7);
      insert into calls (id, organization_id, mode, instance_id, direction, from_number, to_number, status, phone_number_id, endpoint_id, trunk_id, created_at,
        duration_sec, cost_microcents, latency_ms) values ('c', 'o', 'live', 'gone', 'inbound', 'x', 'y', 'in_progress', 'n', 'e', 't', ${startedMs}, 0, 0, 0);
      insert into call_events values ('v', 'c', 1, 'call.initiated', '{}', ${startedMs})`);
    old
      .prepare(
        "update calls set status = 'completed', answered_at = ?, completed_at = ?, quality = ?, turns = ? where id = 'c'",
      )
      .run(startedMs, startedMs, JSON.stringify(quality), JSON.stringify(turns));
    old.close();
    const counted = 'select grouped_by, group_id, figure, bucket, n from call_insights order by 1, 2, 3, 4';
    const byTriggers = query(counted) as { n: number }[];
    expect(byTriggers).toHaveLength(3 * (2 + 1 + 3 + 5));

    const store = await Store.open({ file });
    try {
      const scope = { organizationId: 'o', mode: 'live' } as const;
      const id = store.calls.begin({
        ...{ organizationId: 'o', mode: 'live', direction: 'inbound', fromNumber: 'x', toNumber: 'y' },
        ...{ phoneNumberId: 'n', endpointId: 'e', trunkId: 't', createdAt: new Date(startedMs) },
      });
      store.calls.answered(id, { latencyMs: 1 });
      store.calls.finish(id, {
        ...{ status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 1 },
        ...{ quality: quality as unknown as QualityMetrics, turns: turns as unknown as Turn[] },
      });
      expect(await store.calls.flush()).toBe(true);
      expect(query(counted)).toEqual(byTriggers.map((row) => ({ ...row, n: 2 * row.n })));
      expect((await store.records.stats(scope, {})).completed).toBe(2);
      const { data } = await store.webhookDeliveries.list(scope, {}, { limit: 10, offset: 0 });
      expect(data.map(({ eventType, callId }) => `${eventType} ${callId === id}`).sort()).toEqual(
        ['call.initiated false', 'call.answered true', 'call.completed true', 'call.initiated true'].sort(),
      );
      await store.records.delete(scope, id);
      expect(query(`${counted.replace(' order', ' where n > 0 order')}`)).toEqual(byTriggers);
    } finally {
      await store.close();
    }
  });

  it('refuses a database of a newer version', () => {
    migrateFile(file, () => 7, { ...migrations, '0099-later': { statements: [] } });
    expect(() => migrateFile(file, () => 8)).toThrow(/newer version \(unknown migration 0099-later\)/);
  });

  it('happens once when several processes start together', async () => {
    const built = new URL('../../dist/src/store/sqlite/connection.js', import.meta.url).href;
    const script = path.join(dir, 'open.mjs');
    writeFileSync(
      script,
      `import { migrateFile } from ${JSON.stringify(built)};
process.once('message', () => { migrateFile(${JSON.stringify(file)}, Date.now); process.disconnect(); });
process.send('ready');`,
    );
    const children = Array.from({ length: 4 }, () => fork(script, { execArgv: [] }));
    await Promise.all(children.map((child) => new Promise((resolve) => child.once('message', resolve))));
    const exits = children.map((child) => new Promise((resolve) => child.once('exit', resolve)));
    for (const child of children) child.send('go');
    expect(await Promise.all(exits)).toEqual([0, 0, 0, 0]);
    expect(query('select name from schema_migrations')).toHaveLength(Object.keys(migrations).length);
  });
});

describe('the driver', () => {
  it.each([
    ['20.19.0', ['@photostructure/sqlite']],
    ['22.13.1', ['@photostructure/sqlite']],
    ['22.14.0', ['better-sqlite3', '@photostructure/sqlite']],
    ['24.1.0', ['better-sqlite3', '@photostructure/sqlite']],
  ])('of Node %s is %j', (version, packages) => {
    expect(driverPackages(version)).toEqual(packages);
  });

  it('falls back to the next one that loads', () => {
    const driver = loadDriver(['missing', 'present'], (name) => {
      if (name === 'missing') throw new Error('Cannot find module');
      return Driver;
    });
    expect(driver).toBe(Driver);
  });

  it('keeps what follows a NUL in a text, and tells the codes of SQLite', () => {
    const database = new Driver(':memory:');
    try {
      database.exec('create table texts (id integer primary key, value text not null) strict');
      database.prepare('insert into texts values (1, ?)').run('before\0after');
      const value = database.prepare('select value from texts where value = ?').pluck().get('before\0after');
      expect(value).toMatch(/^before[\0\ufffd]after$/);
      expect(value).toHaveLength('before after'.length);
      let code = '';
      try {
        database.prepare('insert into texts values (1, ?)').run('again');
      } catch (error) {
        code = sqliteCode(error);
      }
      expect(code).toMatch(/^SQLITE_CONSTRAINT/);
    } finally {
      database.close();
      database.close(); // twice does no harm
    }
  });

  it('brings the log into the file when it closes, whatever statements are left', () => {
    mkdirSync(path.dirname(file), { recursive: true });
    const database = new Driver(file);
    database.pragma('journal_mode = WAL');
    database.exec('create table texts (value text not null) strict');
    const insert = database.prepare('insert into texts values (?)');
    insert.run('kept in the file');
    database.close();
    expect(readFileSync(file).includes('kept in the file')).toBe(true);
    expect(() => insert.run('too late')).toThrow();
  });

  it('opens no file that must exist and does not', () => {
    const file = path.join(dir, 'missing.db');
    expect(() => new Driver(file, { fileMustExist: true })).toThrow(/unable to open database file/);
    expect(existsSync(file)).toBe(false);
  });

  it('says what was tried when none loads', () => {
    const broken = () => {
      throw new Error('Could not locate the bindings file\n  tried: /x');
    };
    expect(() => loadDriver(['better-sqlite3'], broken)).toThrow(
      /^No SQLite driver loads on Node [\d.]+ \(better-sqlite3: Could not locate the bindings file\)\. Run npm ci again/,
    );
  });
});
