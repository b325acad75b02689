/** A process that is killed while it migrates: the database is the old one, whole, and the next start goes on from there (X9). */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { migrations } from '../../src/store/database/migrations/index.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { startTestApp } from '../support/app.js';
import { FarEnds } from '../support/far-ends.js';
import { demo } from '../support/fault-scene.js';
import { expectInvariants } from '../support/invariants.js';

const root = path.resolve(import.meta.dirname, '../..');
const old = 3;
/** An old database with something in it; then all other migrations, and after them one that never ends. */
const program = `
const [file] = process.argv.slice(1);
const load = (name) => import(${JSON.stringify(`file://${root}/dist`)} + name);
const { migrateFile } = await load('/src/store/sqlite/connection.js');
const { loadDriver } = await load('/src/store/sqlite/driver.js');
const { migrations } = await load('/src/store/database/migrations/index.js');
migrateFile(file, Date.now, Object.fromEntries(Object.entries(migrations).slice(0, ${old})));
const first = new (loadDriver())(file);
first.prepare("insert into users (id, name, subject, platform_owner, created_at) values ('kept', 'Kept', null, 0, 0)").run();
first.close();
const endless = ['create table half (x)', "insert into half with recursive c(n) as (select 1 union all select n + 1 from c) select hex(randomblob(500)) from c"];
migrateFile(file, Date.now, { ...migrations, '9999-endless': { statements: endless } });
`;

it('killed half way: nothing of it is there, and the next process migrates and takes calls', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-migration-'));
  const file = path.join(folder, 'trunkline.db');
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, file], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  try {
    // what does not fit into the cache any more is written before the transaction ends
    const written = () => (existsSync(`${file}-wal`) ? statSync(`${file}-wal`).size : 0);
    await expect.poll(written, { timeout: 30_000, interval: 20 }).toBeGreaterThan(8_000_000);
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
    const Driver = loadDriver();
    const database = new Driver(file);
    const names = () => database.prepare('select name from schema_migrations').pluck().all();
    expect(names()).toEqual(Object.keys(migrations).slice(0, old));
    expect(database.prepare("select count(*) from sqlite_master where name = 'half'").pluck().get()).toBe(0);
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok');

    const app = await startTestApp({ TRUNKLINE_DATA_DIR: folder }, { t1: 50, t2: 400, t4: 500 });
    const ends = await FarEnds.open(app.sip.addresses[0]!.port);
    try {
      expect(names()).toEqual(Object.keys(migrations));
      expect((await app.store.organizations.user('kept'))?.name).toBe('Kept');
      const call = ends.call(demo);
      expect(await call.final()).toBe(200);
      await call.bye();
      await expectInvariants({ file, app, farEnds: ends.calls.values(), records: 1 });
    } finally {
      database.close();
      await ends.close();
      await app.end();
    }
  } finally {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}, 60_000);
