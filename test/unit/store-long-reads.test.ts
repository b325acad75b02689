import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { type LongReadLimits, LongReadProcess } from '../../src/store/sqlite/long-read-process.js';
import { Store } from '../../src/store/store.js';

let dir: string;
let store: Store;
let organizationId: string;
const processes: LongReadProcess[] = [];

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-long-'));
  store = await Store.open({ file: path.join(dir, 'trunkline.db') });
  organizationId = (await store.organizations.create({ name: 'A', tier: 'free', metered: true })).id;
  await store.accounts.credit(organizationId, 7, 'first');
});
afterEach(() => {
  for (const reader of processes.splice(0)) reader.close();
});
afterAll(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

function processWith(limits: Partial<LongReadLimits> = {}): LongReadProcess {
  const all = { limitMs: 30_000, mostWaiting: 10, mostOfOne: 5, ...limits };
  const reader = new LongReadProcess(path.join(dir, 'trunkline.db'), all);
  processes.push(reader);
  return reader;
}
const ledger = (reader: LongReadProcess, of = organizationId) => reader.ask('ledger', of, { limit: 10, offset: 0 });

describe('the process of long questions', () => {
  it('answers as the store does, of what is on disk, and goes on seeing what comes', async () => {
    const reader = processWith();
    const slice = { limit: 10, offset: 0 };
    expect(await ledger(reader)).toEqual(await store.accounts.ledger(organizationId, slice));
    await store.accounts.credit(organizationId, 5, 'second');
    const answers = await Promise.all([ledger(reader), ledger(reader)]);
    for (const answer of answers) expect(answer).toEqual(await store.accounts.ledger(organizationId, slice));
    expect(answers[0]?.total).toBe(2);
    const scope = { organizationId, mode: 'live' } as const;
    expect((await reader.ask('insights', scope, { firstDay: 1, lastDay: 9 })).total.calls).toBe(0);
  });

  it('refuses more than may wait, of one organization and of all', async () => {
    const reader = processWith({ mostWaiting: 4, mostOfOne: 2 });
    const asked = [1, 2, 3].map(() => ledger(reader));
    await expect(asked[2]).rejects.toMatchObject({ code: 'too_many' });
    const others = ['b', 'c', 'd'].map((of) => ledger(reader, of));
    await expect(others[2]).rejects.toMatchObject({ code: 'too_many' });
    expect((await Promise.all([...asked.slice(0, 2), ...others.slice(0, 2)])).map(({ total }) => total)).toEqual([
      2, 2, 0, 0,
    ]);
  });

  it('gives up on what takes too long, in a clear sentence', async () => {
    const reader = processWith({ limitMs: 1 }); // it cannot even start in that time
    const asked = [ledger(reader), ledger(reader, 'b')];
    for (const each of await Promise.allSettled(asked))
      expect(each).toMatchObject({ reason: { code: 'too_slow', message: 'The query takes longer than 0.001 s' } });
  });

  it('gives up within a statement that never ends, and goes on with the next question', async () => {
    const endless = path.join(dir, 'endless.db');
    const writing = new (loadDriver())(endless);
    writing.exec(`create view ledger as with recursive n (x) as (select 1 union all select x + 1 from n)
      select 'l' as id, 'endless' as organization_id, x as created_at from n`);
    writing.close();
    // long enough for a late machine to start the next process in
    const reader = new LongReadProcess(endless, { limitMs: 5_000, mostWaiting: 10, mostOfOne: 5 });
    processes.push(reader);
    await expect(ledger(reader, 'endless')).rejects.toMatchObject({ code: 'too_slow' });
    // the next process answers: the file has no such table
    const scope = { organizationId, mode: 'live' } as const;
    await expect(reader.ask('insights', scope, { firstDay: 1, lastDay: 2 })).rejects.toThrow(/no such table/);
  });

  it('answers what waits when it is closed, and is asked no more', async () => {
    const reader = processWith();
    const asked = [ledger(reader), ledger(reader)];
    reader.close();
    for (const each of [...asked, ledger(reader)]) await expect(each).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('goes on after a question that fails', async () => {
    const reader = processWith();
    // It throws within the reader.
    const broken = reader.ask('nothing' as 'ledger', organizationId, { limit: 1, offset: 0 });
    const next = ledger(reader);
    await expect(broken).rejects.toThrow(/not a function/);
    expect((await next).total).toBe(2);
  });
});
