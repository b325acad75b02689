import { fork } from 'node:child_process';
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StoreError } from '../../src/store/database/errors.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import type { Store } from '../../src/store/store.js';
import { FakeClock } from '../support/fake-clock.js';
import { onPostgres, openStore } from '../support/open-store.js';

let dir: string;
let file: string;
let clock: FakeClock;
let store: Store;
let organizationId: string;

beforeEach(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-store-'));
  file = path.join(dir, 'trunkline.db');
  clock = new FakeClock(Date.UTC(2026, 0, 15, 12));
  store = await openStore({ file, clock });
  organizationId = (await store.organizations.create({ name: 'A', tier: 'free' })).id;
});

afterEach(async () => {
  vi.restoreAllMocks();
  await store.close();
  expect(clock.pending).toBe(0);
  rmSync(dir, { recursive: true });
});

const builtDriver = new URL('../../dist/src/store/sqlite/driver.js', import.meta.url).href;
const numberId = '0198aaaa-0000-7000-8000-000000000001';
const newCall = {
  mode: 'live',
  direction: 'inbound',
  fromNumber: 'anonymous',
  toNumber: '+15550100',
  phoneNumberId: numberId,
  endpointId: null,
} as const;
const begin = (over: object = {}) => store.calls.begin({ organizationId, ...newCall, ...over });
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
const live = () => ({ organizationId, mode: 'live' }) as const;
const detail = (id: string) => store.records.detail(live(), id);

describe('the life of a call', () => {
  it.skipIf(onPostgres)('is a row and call.initiated on disk at once when nothing was written lately', async () => {
    const id = begin({ metadata: { order: 7 } });
    expect(store.calls.unwritten).toBe(1);
    await expect.poll(() => store.calls.unwritten).toBe(0); // no time passes on the clock
    const other = new (loadDriver())(file, { readonly: true });
    expect(other.prepare('select status from calls where id = ?').get(id)).toEqual({ status: 'in_progress' });
    expect(other.prepare('select event_type, sequence from call_events where call_id = ?').all(id)).toEqual([
      { event_type: 'call.initiated', sequence: 1 },
    ]);
    other.close();
  });

  it('numbers events at once, and shares a commit among all that comes within 20 ms of the last one', async () => {
    const id = begin();
    await expect.poll(() => store.calls.unwritten).toBe(0);
    expect(store.calls.event(id, 'call.ringing')).toBe(2);
    expect(store.calls.event(id, 'media.started', { at_ms: 3 })).toBe(3);
    const others = Array.from({ length: 50 }, () => begin());
    clock.advance(19);
    await store.records.get({ organizationId: numberId, mode: 'live' }, id).catch(() => {}); // a turn of the loop
    expect(store.calls.unwritten).toBe(0); // a read brings everything to disk
    const later = others.map((other) => store.calls.event(other, 'call.ringing'));
    expect(later).toEqual(others.map(() => 2));
    expect(store.calls.unwritten).toBe(50);
    clock.advance(20);
    await expect.poll(() => store.calls.unwritten).toBe(0);
    expect((await detail(id))?.events.map((event) => event.sequence)).toEqual([1, 2, 3]);
  });

  it('brings waiting events to disk before a detail is read', async () => {
    const id = begin();
    store.calls.event(id, 'call.ringing');
    expect((await detail(id))?.events.map((event) => event.type)).toEqual(['call.initiated', 'call.ringing']);
  });

  it('ends exactly once, with row, event and trace', async () => {
    const id = begin();
    clock.advance(2000);
    store.calls.answered(id, { latencyMs: 41.6 });
    clock.advance(3400);
    const trace = [{ at: '2026-01-15T12:00:00.000Z', direction: 'received' as const, peer: null, message: 'INVITE' }];
    const more = { quality: { mos: 4.2 }, timings: { setupMs: 12 }, transcript: 'hello', trace, costMicrocents: 5 };
    expect(store.calls.finish(id, { ...end, ...more, ringSeconds: 2 })).toBe(true);
    expect(store.calls.finish(id, { ...end, status: 'failed', hangupCause: 'timeout' })).toBe(false);
    const call = await detail(id);
    expect(call).toMatchObject({
      status: 'completed',
      hangupCause: 'normal_clearing',
      hangupSource: 'caller',
      durationSec: 3,
      latencyMs: 42,
      ringSeconds: 2,
      quality: { mos: 4.2 },
      timings: { setupMs: 12 },
      transcript: 'hello',
      costMicrocents: 5,
      answeredAt: new Date(Date.UTC(2026, 0, 15, 12, 0, 2)),
      completedAt: new Date(Date.UTC(2026, 0, 15, 12, 0, 5, 400)),
    });
    expect(call?.events.map((event) => event.type)).toEqual(['call.initiated', 'call.answered', 'call.completed']);
    expect(await store.records.trace(live(), id)).toEqual(trace);
  });

  it.each([
    ['completed', 'call.completed'],
    ['failed', 'call.failed'],
    ['busy', 'call.busy'],
    ['no_answer', 'call.no_answer'],
  ] as const)('status %s ends with %s', async (status, type) => {
    const id = begin();
    store.calls.finish(id, { ...end, status });
    expect((await detail(id))?.events.at(-1)?.type).toBe(type);
  });

  it('accepts only settlement and the like after the end', async () => {
    const id = begin();
    store.calls.finish(id, end);
    expect(store.calls.event(id, 'media.started')).toBeNull();
    expect(store.calls.event(id, 'call.ringing')).toBeNull();
    expect(store.calls.event(id, 'call.cost_settled')).toBe(3);
    expect(store.calls.event(id, 'recording.completed')).toBe(4);
    await store.calls.flush();
    // no longer in memory: the database numbers them, each on its own
    expect(store.calls.event(id, 'webhook.delivered')).toBe('later');
    expect(store.calls.event(id, 'webhook.delivered')).toBe('later');
    store.calls.answered(id, { latencyMs: 9 });
    expect(await detail(id)).toMatchObject({ latencyMs: 0, answeredAt: null });
    expect((await detail(id))?.events.map((event) => event.sequence)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('refuses events of a call nobody began', () => {
    expect(store.calls.event(numberId, 'media.started')).toBeNull();
    expect(store.calls.finish(numberId, end)).toBe(false);
  });

  it('keeps event times in order when the clock is set back', async () => {
    const id = begin();
    clock.set(clock.now() - 3_600_000);
    store.calls.event(id, 'call.ringing');
    const times = (await detail(id))?.events.map((event) => event.createdAt.getTime()) ?? [];
    expect(times[1]).toBeGreaterThanOrEqual(times[0] ?? Number.POSITIVE_INFINITY);
  });

  it('tells the asker when a row can never be written, and writes the others', async () => {
    const other = begin();
    const question = { concurrentCalls: null, rate: null };
    const { admission } = store.calls.beginAdmitted({ ...newCall, organizationId: numberId }, question);
    await expect(admission).rejects.toThrow(/foreign key/i);
    expect((await detail(other))?.status).toBe('in_progress');
  });

  it.skipIf(onPostgres)('forgets an event of a deleted call without holding up the others', async () => {
    const gone = begin();
    store.calls.finish(gone, end);
    const other = begin();
    await store.calls.flush();
    store.calls.event(gone, 'webhook.delivered');
    // Another process deletes the record while the event waits here.
    const Driver = loadDriver();
    const second = new Driver(file);
    second.pragma('foreign_keys = on');
    second.prepare('delete from calls where id = ?').run(gone);
    second.close();
    store.calls.event(other, 'call.ringing');
    expect((await detail(other))?.events).toHaveLength(2);
    expect(store.calls.unwritten).toBe(0);
  });
});

describe.skipIf(onPostgres)('a locked database', () => {
  let holder: InstanceType<ReturnType<typeof loadDriver>>;
  beforeEach(() => {
    const Driver = loadDriver();
    holder = new Driver(file);
  });
  afterEach(() => holder.close());
  const lock = () => holder.exec('begin exclusive');
  const unlock = () => holder.exec('rollback');

  it('keeps whole calls in memory and writes them, in order, when it can', async () => {
    const before = begin();
    await store.calls.flush();
    lock();
    store.calls.event(before, 'call.ringing');
    const during = begin();
    store.calls.event(during, 'call.ringing');
    expect(store.calls.finish(during, end)).toBe(true);
    expect(store.calls.finish(during, end)).toBe(false);
    expect(store.calls.event(during, 'media.started')).toBeNull();
    expect(store.calls.event(during, 'call.cost_settled')).toBe(4);
    expect(await store.calls.flush()).toBe(false);
    expect(store.calls.unwritten).toBe(5);
    unlock();
    await expect
      .poll(() => {
        clock.advance(250);
        return store.calls.unwritten;
      })
      .toBe(0);
    expect((await detail(before))?.events.map((event) => event.type)).toEqual(['call.initiated', 'call.ringing']);
    expect((await detail(during))?.status).toBe('completed');
    expect((await detail(during))?.events.map((event) => [event.sequence, event.type])).toEqual([
      [1, 'call.initiated'],
      [2, 'call.ringing'],
      [3, 'call.completed'],
      [4, 'call.cost_settled'],
    ]);
  });

  it('does not keep a read waiting: it shows what is on disk', async () => {
    const id = begin();
    await store.calls.flush();
    holder.exec('begin immediate');
    store.calls.event(id, 'call.ringing');
    expect((await detail(id))?.events).toHaveLength(1);
    holder.exec('rollback');
    expect((await detail(id))?.events).toHaveLength(2);
  });

  it('refuses a change of a setting, and forgets it', async () => {
    lock();
    await expect(store.organizations.update(organizationId, { name: 'B' })).rejects.toThrow(StoreError);
    unlock();
    expect(store.organizations.get(organizationId)?.name).toBe('A');
    await store.organizations.update(organizationId, { name: 'C' });
    expect(store.organizations.get(organizationId)?.name).toBe('C');
  });

  it('waits for the lock when it closes: there is no later', async () => {
    const id = begin();
    const script = `const { loadDriver } = await import(${JSON.stringify(builtDriver)});
const database = new (loadDriver())(${JSON.stringify(file)});
database.exec('begin exclusive');
process.send('locked');
setTimeout(() => { database.exec('rollback'); process.disconnect(); }, 400);`;
    const process = fork('data:text/javascript,', [], { execArgv: ['--input-type=module', '--eval', script] });
    await new Promise((resolve) => process.once('message', resolve));
    const exited = new Promise((resolve) => process.once('exit', resolve));
    expect(store.calls.finish(id, end)).toBe(true);
    expect(store.calls.unwritten).toBe(1);
    await store.close();
    await exited;
    store = await openStore({ file, clock });
    expect((await detail(id))?.status).toBe('completed');
  });

  it('refuses new calls when memory is full too, and still lets calls end', async () => {
    const id = begin();
    lock();
    while (store.calls.event(id, 'mark.reached') !== null);
    expect(() => begin()).toThrow(StoreError);
    expect(store.calls.finish(id, end)).toBe(true);
    unlock();
    await expect
      .poll(
        () => {
          clock.advance(250);
          return store.calls.unwritten;
        },
        { timeout: 30_000 },
      )
      .toBe(0);
    const events = (await detail(id))?.events ?? [];
    expect(events.map((event) => event.sequence)).toEqual(events.map((_, i) => i + 1));
    expect(events.at(-1)?.type).toBe('call.completed');
  });
});

const allWritten = () =>
  expect
    .poll(() => {
      clock.advance(250);
      return store.calls.unwritten;
    })
    .toBe(0);

describe('the thread that writes', () => {
  it.skipIf(onPostgres)(
    'that dies again and again is started at growing intervals, is reported, and loses nothing',
    async () => {
      const id = begin();
      await allWritten();
      const away = `${file}.away`;
      for (const end of ['', '-wal', '-shm']) if (existsSync(file + end)) renameSync(file + end, away + end);
      await store.killWriter();
      store.calls.event(id, 'call.ringing');
      const startedMs = performance.now();
      await expect.poll(() => store.problem).toContain('died 5 times in a row (');
      expect(performance.now() - startedMs).toBeGreaterThan(100 + 200 + 400); // ms of pauses
      expect(await store.writable()).toBe(false);
      for (const end of ['', '-wal', '-shm']) if (existsSync(away + end)) renameSync(away + end, file + end);
      await allWritten();
      expect(store.problem).toBeNull();
      expect(await store.writable()).toBe(true);
      expect((await detail(id))?.events.map(({ type }) => type)).toEqual(['call.initiated', 'call.ringing']);
    },
  );

  it('may die at any time: nothing is lost, and nothing is written twice', async () => {
    const ids: string[] = [];
    for (let round = 0; round < 5; round += 1) {
      for (let i = 0; i < 20; i += 1) {
        const id = begin();
        ids.push(id);
        store.calls.event(id, 'call.ringing');
        store.calls.finish(id, end);
      }
      const sent = store.calls.flush();
      await new Promise((resolve) => setTimeout(resolve, round * 2)); // somewhere in the batch
      await store.killWriter();
      await sent;
      await allWritten();
    }
    expect(store.writersReplaced).toBe(5);
    for (const id of ids) {
      const call = await detail(id);
      expect(call?.events.map(({ sequence, type }) => [sequence, type])).toEqual([
        [1, 'call.initiated'],
        [2, 'call.ringing'],
        [3, 'call.completed'],
      ]);
    }
    expect((await store.records.stats(live(), {})).completed).toBe(ids.length);
  });

  it.skipIf(onPostgres)('ends with a transaction that is open: it is undone, and the next one begins', async () => {
    const undone = store.transaction(async (transaction) => {
      await store.organizations.update(organizationId, { name: 'B' }).catch(() => {});
      return transaction;
    });
    undone.catch(() => {});
    await store.killWriter();
    await expect(undone).rejects.toThrow(StoreError);
    await store.organizations.update(organizationId, { name: 'C' });
    expect(store.organizations.get(organizationId)?.name).toBe('C');
  });
});

describe('admission', () => {
  const rate = { microcentsPerMinute: 60_000_000, initialIncrementSec: 60, incrementSec: 60 };
  const ask = (question: { concurrentCalls: number | null; rate: typeof rate | null }) =>
    store.calls.beginAdmitted({ organizationId, ...newCall }, question);

  it('lets exactly as many calls in as the cap allows, asked in one batch', async () => {
    const asked = Array.from({ length: 5 }, () => ask({ concurrentCalls: 1, rate: null }));
    const kinds = (await Promise.all(asked.map(({ admission }) => admission))).map(({ kind }) => kind);
    expect(kinds).toEqual(['admitted', 'full', 'full', 'full', 'full']);
  });

  it('holds no more than the balance, and settles what was held', async () => {
    await store.accounts.credit(organizationId, 150, ''); // of five calls at 60 each: two, and half of a third
    const asked = Array.from({ length: 5 }, () =>
      ask({ concurrentCalls: null, rate: { ...rate, initialIncrementSec: 30, incrementSec: 30 } }),
    );
    const answers = await Promise.all(asked.map(({ admission }) => admission));
    expect(answers.map(({ kind }) => kind)).toEqual(['admitted', 'admitted', 'admitted', 'no_balance', 'no_balance']);
    expect(answers.map((answer) => (answer.kind === 'admitted' ? answer.fundedSec : 0))).toEqual([60, 60, 30, 0, 0]);
    expect((await store.accounts.balance(organizationId)).heldMicrocents).toBe(150_000_000);
    for (const { id } of asked) store.calls.finish(id, { ...end, durationSec: 60 });
    await store.calls.flush();
    expect(await store.accounts.balance(organizationId)).toEqual({ microcents: 0, heldMicrocents: 0 });
  });

  it('charges in full a call that went on because no more could be held', async () => {
    await store.accounts.credit(organizationId, 100, '');
    const { id, admission } = ask({ concurrentCalls: null, rate });
    await admission;
    store.calls.finish(id, { ...end, durationSec: 120, wentOnUnfunded: true });
    await store.calls.flush();
    expect((await store.accounts.balance(organizationId)).microcents).toBe(-20_000_000);
  });
});
