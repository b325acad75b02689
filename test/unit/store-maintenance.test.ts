import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runCli } from '../../src/cli/program.js';
import { progressText } from '../../src/cli/progress-line.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { Store } from '../../src/store/store.js';

const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
let folder: string;
let file: string;
let store: Store;
let organizationId: string;

beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'trunkline-maintenance-'));
  file = path.join(folder, 'trunkline.db');
  store = await Store.open({ file });
  organizationId = (await store.organizations.create({ name: 'A', tier: 'pro' })).id;
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

function call(): string {
  const about = {
    direction: 'inbound',
    fromNumber: '+1',
    toNumber: '+2',
    phoneNumberId: 'n',
    endpointId: null,
  } as const;
  const id = store.calls.begin({ organizationId, mode: 'live', ...about });
  store.calls.finish(id, end);
  return id;
}

async function db(...words: string[]): Promise<{ exitCode: number; out: string; err: string }> {
  const said = { out: '', err: '' };
  const exitCode = await runCli(['db', ...words], {
    env: { TRUNKLINE_DATABASE_URL: `sqlite:${file}` },
    out: (line) => {
      said.out += `${line}\n`;
    },
    err: (line) => {
      said.err += `${line}\n`;
    },
  });
  return { exitCode, ...said };
}

describe('trunkline db backup', () => {
  it('copies the database as of one moment while it is written, for its owner only', async () => {
    for (let n = 0; n < 200; n += 1) call();
    await store.calls.flush();
    const into = path.join(folder, 'backup.db');
    const backing = db('backup', into);
    let during = 0;
    let isOver = false;
    void backing.then(() => {
      isOver = true;
    });
    while (!isOver) {
      call();
      during += 1;
      await store.calls.flush();
    }
    const { exitCode, out } = await backing;
    expect([exitCode, out]).toEqual([
      0,
      expect.stringMatching(/^backed up sqlite: \d+ calls, .* MB in .* s to .*backup\.db\n$/),
    ]);
    expect(during).toBeGreaterThan(1);
    expect(statSync(into).mode & 0o777).toBe(0o600);
    const copy = new (loadDriver())(into, { readonly: true });
    const counted = copy.prepare('select count(*) from calls').pluck().get() as number;
    expect(
      copy.prepare("select sum(completed) + sum(in_progress) from call_days where phone_number_id = ''").pluck().get(),
    ).toBe(counted);
    copy.close();
    expect(counted).toBeGreaterThanOrEqual(200);
    const restored = await Store.open({ file: into });
    expect(restored.organizations.get(organizationId)?.name).toBe('A');
    await restored.close();
  });

  it('overwrites nothing, and leaves nothing half done', async () => {
    const into = path.join(folder, 'backup.db');
    writeFileSync(into, 'mine');
    const taken = await db('backup', into);
    expect([taken.exitCode, taken.err]).toEqual([1, expect.stringContaining('exists already; it is not overwritten')]);
    expect(readFileSync(into, 'utf8')).toBe('mine');
    const nowhere = await db('backup', path.join(folder, 'no', 'backup.db'));
    expect([nowhere.exitCode, nowhere.err]).toEqual([1, expect.stringContaining('ENOENT')]);
    await store.close();
    writeFileSync(file, 'not a database');
    rmSync(`${file}-wal`, { force: true });
    const other = path.join(folder, 'other.db');
    const broken = await db('backup', other);
    expect([broken.exitCode, broken.err]).toEqual([
      1,
      expect.stringContaining('The backup failed: file is not a database'),
    ]);
    expect(existsSync(other)).toBe(false);
    rmSync(file);
    expect((await db('backup', other)).err).toContain('There is no database at');
  });
});

describe('trunkline db check', () => {
  it('finds nothing wrong with a database in use', async () => {
    call();
    await store.calls.flush();
    const { exitCode, out } = await db('check');
    expect([exitCode, out]).toEqual([0, expect.stringContaining('ok       figures (1 calls)')]);
    expect(out).toContain('no problem');
  });

  it('names figures that are wrong, gaps between events and recordings that are missing', async () => {
    const id = call();
    store.calls.recorded(id, 'file:///nowhere/at-all.wav');
    await store.calls.flush();
    const sqlite = new (loadDriver())(file);
    sqlite.exec('update call_days set completed = completed + 1');
    sqlite.exec("update call_events set sequence = 7 where event_type = 'call.ended'");
    sqlite.exec("update call_events set sequence = 7 where event_type = 'call.completed'");
    sqlite.close();
    const { exitCode, out } = await db('check');
    expect(exitCode).toBe(1);
    expect(out).toMatch(/\d{4}-\d\d-\d\d: 2 completed live calls of .* are counted, 1 are recorded/);
    expect(out).toContain(`call ${id} has 2 events, the last is number 7`);
    expect(out).toContain('at-all.wav is missing');
    expect(out).toContain('3 problems');
    const { out: json } = await db('check', '--json');
    expect(JSON.parse(json)).toMatchObject({ ok: false, findings: expect.any(Array) });
  });

  it('finds damaged pages', async () => {
    for (let n = 0; n < 200; n += 1) call();
    await store.close();
    const bytes = readFileSync(file);
    bytes.fill(0xaa, Math.floor(bytes.length / 2), Math.floor(bytes.length / 2) + 8_192);
    writeFileSync(file, bytes);
    const { exitCode, out, err } = await db('check');
    expect(exitCode, out + err).toBe(1);
    expect(out + err).toMatch(/problem {2}file|Cannot read the database/);
  });
});

it('a progress bar has the share, the table and the time left', () => {
  expect(progressText('calls', 5, 10, 150_000)).toBe('[############------------] 50 %  calls  3 min left');
  expect(progressText('calls', 5, 10, 10_100)).toContain('11 s left');
  expect(progressText('calls', 1, 10, 7_200_000)).toContain('2.0 h left');
  expect(progressText('12 MB', 5, null, null)).toBe('12 MB');
});
