import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type LongReadLimits, LongReadThread } from '../../src/store/sqlite/long-read-thread.js';
import { Store } from '../../src/store/store.js';

let dir: string;
let store: Store;
let organizationId: string;
const threads: LongReadThread[] = [];

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-long-'));
  store = await Store.open({ file: path.join(dir, 'trunkline.db') });
  organizationId = (await store.organizations.create({ name: 'A', tier: 'free', metered: true })).id;
  await store.accounts.credit(organizationId, 7, 'first');
});
afterEach(() => {
  for (const thread of threads.splice(0)) thread.close();
});
afterAll(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

function threadWith(limits: Partial<LongReadLimits> = {}): LongReadThread {
  const all = { limitMs: 30_000, mostWaiting: 10, mostOfOne: 5, ...limits };
  const thread = new LongReadThread(path.join(dir, 'trunkline.db'), all);
  threads.push(thread);
  return thread;
}
const ledger = (thread: LongReadThread, of = organizationId) => thread.ask('ledger', of, { limit: 10, offset: 0 });

describe('the thread of long questions', () => {
  it('answers as the store does, of what is on disk, and goes on seeing what comes', async () => {
    const thread = threadWith();
    const slice = { limit: 10, offset: 0 };
    expect(await ledger(thread)).toEqual(await store.accounts.ledger(organizationId, slice));
    await store.accounts.credit(organizationId, 5, 'second');
    const answers = await Promise.all([ledger(thread), ledger(thread)]);
    for (const answer of answers) expect(answer).toEqual(await store.accounts.ledger(organizationId, slice));
    expect(answers[0]?.total).toBe(2);
    const scope = { organizationId, mode: 'live' } as const;
    expect((await thread.ask('insights', scope, { firstDay: 1, lastDay: 9 })).total.calls).toBe(0);
  });

  it('refuses more than may wait, of one organization and of all', async () => {
    const thread = threadWith({ mostWaiting: 4, mostOfOne: 2 });
    const asked = [1, 2, 3].map(() => ledger(thread));
    await expect(asked[2]).rejects.toMatchObject({ code: 'too_many' });
    const others = ['b', 'c', 'd'].map((of) => ledger(thread, of));
    await expect(others[2]).rejects.toMatchObject({ code: 'too_many' });
    expect((await Promise.all([...asked.slice(0, 2), ...others.slice(0, 2)])).map(({ total }) => total)).toEqual([
      2, 2, 0, 0,
    ]);
  });

  it('gives up on what takes too long, in a clear sentence', async () => {
    const thread = threadWith({ limitMs: 1 }); // it cannot even start in that time
    const asked = [ledger(thread), ledger(thread, 'b')];
    for (const each of await Promise.allSettled(asked))
      expect(each).toMatchObject({ reason: { code: 'too_slow', message: 'The query takes longer than 0.001 s' } });
  });

  it('answers what waits when it is closed, and is asked no more', async () => {
    const thread = threadWith();
    const asked = [ledger(thread), ledger(thread)];
    thread.close();
    for (const each of [...asked, ledger(thread)]) await expect(each).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('goes on after a question that fails', async () => {
    const thread = threadWith();
    // It throws within the thread.
    const broken = thread.ask('nothing' as 'ledger', organizationId, { limit: 1, offset: 0 });
    const next = ledger(thread);
    await expect(broken).rejects.toThrow(/not a function/);
    expect((await next).total).toBe(2);
  });
});
