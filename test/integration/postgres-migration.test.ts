import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { runCli } from '../../src/cli/program.js';
import { Store } from '../../src/store/store.js';
import { query } from '../support/postgres-server.js';

const root = path.resolve(import.meta.dirname, '../..');
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
const server = process.env.TEST_POSTGRES_URL ?? '';
let folder: string;
let file: string;
let url: string;
let made = 0;

beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'trunkline-copy-'));
  file = path.join(folder, 'trunkline.db');
  made += 1;
  url = `${server}/copied_${process.pid}_${made}`;
  await query(`${server}/postgres`, `create database copied_${process.pid}_${made}`);
});
afterEach(() => rmSync(folder, { recursive: true }));

async function db(...words: string[]): Promise<{ exitCode: number; out: string; err: string }> {
  const said = { out: '', err: '' };
  const env = { TRUNKLINE_DATABASE_URL: `sqlite:${file}` };
  const exitCode = await runCli(['db', ...words], {
    env,
    out: (line) => {
      said.out += `${line}\n`;
    },
    err: (line) => {
      said.err += `${line}\n`;
    },
  });
  return { exitCode, ...said };
}

/** A SQLite database with endpoints that refer to each other, and calls with a webhook's deliveries. */
async function fill(calls: number): Promise<{ organizationId: string; callId: string }> {
  const store = await Store.open({ file });
  const { id: organizationId } = await store.organizations.create({ name: 'A', tier: 'pro', metered: true });
  await store.accounts.credit(organizationId, 100, 'first');
  const scope = { organizationId, mode: 'live' } as const;
  const config = { events_url: 'https://events.test' };
  const about = {
    name: 'W',
    type: 'webhook',
    target: 'https://calls.test',
    provider: null,
    providerConfig: config,
  } as const;
  const fallback = await store.endpoints.create(scope, about);
  const { record } = await store.endpoints.create(scope, { ...about, fallbackEndpointId: fallback.record.id });
  let callId = '';
  for (let n = 0; n < calls; n += 1) {
    const of = {
      direction: 'inbound',
      fromNumber: '+1',
      toNumber: '+2',
      phoneNumberId: 'n',
      endpointId: record.id,
    } as const;
    callId = store.calls.begin({ ...scope, ...of, metadata: { note: 'NUL \u0000 in it' } });
    store.calls.event(callId, 'dtmf.received', { digit: '1' });
    store.calls.finish(callId, {
      ...end,
      trace: [{ at: '2026-01-01T00:00:00Z', direction: 'sent', peer: null, message: 'BYE' }],
    });
  }
  await store.calls.flush();
  await store.close();
  return { organizationId, callId };
}

describe('trunkline db migrate', () => {
  test('copies everything, compares the counts, and a server goes on with the copy', async () => {
    const { organizationId, callId } = await fill(30);
    const { exitCode, out, err } = await db('migrate', '--to', url);
    expect([exitCode, err]).toEqual([0, '']);
    expect(out).toMatch(/call_events +90 +90/);
    expect(out).toMatch(/webhook_deliveries +90 +90/);
    expect(out).toMatch(/copied \d+ rows; now start with TRUNKLINE_DATABASE_URL=postgres:\/\/trunkline@/);
    const before = await Store.open({ file });
    const copy = await Store.open({ url });
    const scope = { organizationId, mode: 'live' } as const;
    const whole = async (store: Store) => ({
      call: await store.records.detail(scope, callId),
      trace: await store.records.trace(scope, callId),
      stats: await store.records.stats(scope, {}),
      balance: await store.accounts.balance(organizationId),
      endpoints: (await store.endpoints.list(scope, {}, { limit: 10, offset: 0 })).data.map(({ id }) => id),
    });
    const { metadata, ...call } = (await whole(before)).call ?? { metadata: null };
    const copied = await whole(copy);
    expect({ ...copied, call: { ...copied.call, metadata: null } }).toEqual({
      ...(await whole(before)),
      call: { ...call, metadata: null },
    });
    expect([metadata, copied.call?.metadata]).toEqual([{ note: 'NUL \u0000 in it' }, { note: 'NUL \u0000 in it' }]); // JSON writes it as an escape
    await before.close();
    await copy.close();
    const again = await db('migrate', '--to', url);
    expect([again.exitCode, again.err]).toEqual([1, expect.stringContaining('in use: it must be empty')]);
  });

  test('that was killed goes on where it stopped, and no server starts on half a copy', {
    timeout: 90_000,
  }, async () => {
    await fill(2_500);
    const program = `import { copyToPostgres } from ${JSON.stringify(`${root}/dist/src/store/maintenance/copy-to-postgres.js`)};
      await copyToPostgres(process.argv[1], process.argv[2], ({ table }) => { if (table === 'call_events') process.kill(process.pid, 'SIGKILL'); });`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program, file, url], { stdio: 'inherit' });
    expect((await once(child, 'exit'))[1]).toBe('SIGKILL');
    const copied = await query(
      url,
      'select (select count(*) from calls) as calls, (select count(*) from call_events) as events',
    );
    expect(copied).toEqual([{ calls: 2_500, events: 1_000 }]);
    await expect(Store.open({ url })).rejects.toThrow('The database is a copy that is not finished');
    const { exitCode, out } = await db('migrate', '--to', url);
    expect([exitCode, out]).toEqual([0, expect.stringMatching(/call_events +7500 +7500/)]);
    await (await Store.open({ url })).close();
  });

  test('refuses a source in use, one that has changed since, and a target that is none', async () => {
    const { organizationId } = await fill(1_200);
    const store = await Store.open({ file });
    expect((await db('migrate', '--to', url)).err).toMatch(/uses .* stop it first/);
    await store.close();
    expect((await db('migrate', '--to', 'mysql://a/b')).err).toContain('--to must be postgres://');
    expect((await db('migrate', '--to', url.replace(/\/[^/]*$/, '/nowhere'))).err).toContain('has no such database');
    const { copyToPostgres } = await import('../../src/store/maintenance/copy-to-postgres.js');
    const stopped = copyToPostgres(file, url, ({ table }) => {
      if (table === 'calls') throw new Error('stopped');
    });
    await expect(stopped).rejects.toThrow('stopped');
    const changed = await Store.open({ file });
    await changed.accounts.credit(organizationId, 1, '');
    await changed.close();
    expect((await db('migrate', '--to', url)).err).toContain('has changed since the copy began');
    rmSync(file);
    expect((await db('migrate', '--to', url)).err).toContain('There is no database at');
  });
});

test('trunkline db check and backup over PostgreSQL', async () => {
  await fill(3);
  await db('migrate', '--to', url);
  file = path.join(folder, 'unused.db');
  const over = async (...words: string[]) => {
    const lines: string[] = [];
    const add = (line: string) => void lines.push(line);
    const env = { TRUNKLINE_DATABASE_URL: url };
    const exitCode = await runCli(['db', ...words], { env, out: add, err: add });
    return { exitCode, out: lines.join('\n') };
  };
  expect(await over('check')).toMatchObject({ exitCode: 0, out: expect.stringContaining('figures (3 calls)') });
  await query(url, 'update call_days set completed = 9');
  expect(await over('check')).toMatchObject({ exitCode: 1, out: expect.stringContaining('9 completed live calls') });
  const dump = path.join(folder, 'backup.dump');
  expect(await over('backup', dump)).toMatchObject({ exitCode: 0, out: expect.stringContaining('backed up postgres') });
  const taken = path.join(folder, 'taken');
  writeFileSync(taken, '');
  expect((await over('backup', taken)).exitCode).toBe(1);
});
