import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Database } from '../../src/store/database/database.js';
import { loadDriver } from '../../src/store/database/driver.js';
import { StoreError } from '../../src/store/database/errors.js';
import { Store } from '../../src/store/store.js';
import { FakeClock } from '../support/fake-clock.js';

let dir: string;
let file: string;
let clock: FakeClock;
let store: Store;
let organizationId: string;

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-store-'));
  file = path.join(dir, 'trunkline.db');
  clock = new FakeClock(Date.UTC(2026, 0, 15, 12));
  store = Store.open({ file, clock });
  organizationId = store.organizations.create({ name: 'A', tier: 'free' }).id;
});

afterEach(() => {
  vi.restoreAllMocks();
  store.close();
  expect(clock.pending).toBe(0);
  rmSync(dir, { recursive: true });
});

const builtDriver = new URL('../../dist/src/store/database/driver.js', import.meta.url).href;
const numberId = '0198aaaa-0000-7000-8000-000000000001';
const begin = (over: object = {}) =>
  store.calls.begin({
    organizationId,
    mode: 'live',
    direction: 'inbound',
    fromNumber: 'anonymous',
    toNumber: '+15550100',
    phoneNumberId: numberId,
    endpointId: null,
    ...over,
  });
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
const live = () => ({ organizationId, mode: 'live' }) as const;
const detail = (id: string) => store.records.detail(live(), id);

describe('the life of a call', () => {
  it('is a row and call.initiated at once, readable by another connection before any flush', () => {
    const id = begin({ metadata: { order: 7 } });
    const Driver = loadDriver();
    const other = new Driver(file, { readonly: true });
    expect(other.prepare('select status from calls where id = ?').get(id)).toEqual({ status: 'in_progress' });
    expect(other.prepare('select event_type, sequence from call_events where call_id = ?').all(id)).toEqual([
      { event_type: 'call.initiated', sequence: 1 },
    ]);
    other.close();
  });

  it('numbers events at once and writes them within 50 ms', () => {
    const id = begin();
    expect(store.calls.event(id, 'call.ringing')).toBe(2);
    expect(store.calls.event(id, 'media.started', { at_ms: 3 })).toBe(3);
    expect(store.calls.unwritten).toBe(2);
    clock.advance(49);
    expect(store.calls.unwritten).toBe(2);
    clock.advance(1);
    expect(store.calls.unwritten).toBe(0);
  });

  it('writes at once when 200 events wait', () => {
    const id = begin();
    for (let i = 0; i < 199; i += 1) store.calls.event(id, 'mark.reached');
    expect(store.calls.unwritten).toBe(199);
    store.calls.event(id, 'mark.reached');
    expect(store.calls.unwritten).toBe(0);
    expect(detail(id)?.events.map((event) => event.sequence)).toEqual(Array.from({ length: 201 }, (_, i) => i + 1));
  });

  it('shares a commit from the third in 20 ms on, and then every one while calls come so fast', () => {
    const other = new (loadDriver())(file, { readonly: true });
    const onDisk = () => other.prepare('select count(*) from calls').pluck().get();
    const threeBegin = () => [begin(), begin(), begin()];
    threeBegin();
    expect(onDisk()).toBe(2);
    clock.advance(20);
    expect(onDisk()).toBe(3);
    threeBegin();
    expect(onDisk()).toBe(3);
    clock.advance(19);
    expect(onDisk()).toBe(3);
    clock.advance(1);
    expect(onDisk()).toBe(6);
    begin();
    expect(onDisk()).toBe(6);
    clock.advance(20);
    expect(onDisk()).toBe(7);
    begin();
    expect(onDisk()).toBe(8);
    other.close();
  });

  it('brings waiting events to disk before a detail is read', () => {
    const id = begin();
    store.calls.event(id, 'call.ringing');
    expect(detail(id)?.events.map((event) => event.type)).toEqual(['call.initiated', 'call.ringing']);
  });

  it('ends exactly once, with row, event and trace', () => {
    const id = begin();
    clock.advance(2000);
    store.calls.answered(id, { latencyMs: 41.6 });
    clock.advance(3400);
    const trace = [{ at: '2026-01-15T12:00:00.000Z', direction: 'received' as const, peer: null, message: 'INVITE' }];
    const more = { quality: { mos: 4.2 }, timings: { setupMs: 12 }, transcript: 'hello', trace, costMicrocents: 5 };
    expect(store.calls.finish(id, { ...end, ...more, ringSeconds: 2 })).toBe(true);
    expect(store.calls.finish(id, { ...end, status: 'failed', hangupCause: 'timeout' })).toBe(false);
    const call = detail(id);
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
    expect(store.records.trace(live(), id)).toEqual(trace);
  });

  it.each([
    ['completed', 'call.completed'],
    ['failed', 'call.failed'],
    ['busy', 'call.busy'],
    ['no_answer', 'call.no_answer'],
  ] as const)('status %s ends with %s', (status, type) => {
    const id = begin();
    store.calls.finish(id, { ...end, status });
    expect(detail(id)?.events.at(-1)?.type).toBe(type);
  });

  it('accepts only settlement and the like after the end', () => {
    const id = begin();
    store.calls.finish(id, end);
    expect(store.calls.event(id, 'media.started')).toBeNull();
    expect(store.calls.event(id, 'call.ringing')).toBeNull();
    expect(store.calls.event(id, 'call.cost_settled')).toBe(3);
    expect(store.calls.event(id, 'recording.completed')).toBe(4);
    store.calls.flush();
    expect(store.calls.event(id, 'webhook.delivered')).toBe(5);
    store.calls.answered(id, { latencyMs: 9 });
    expect(detail(id)).toMatchObject({ latencyMs: 0, answeredAt: null });
    expect(detail(id)?.events.map((event) => event.sequence)).toEqual([1, 2, 3, 4, 5]);
  });

  it('refuses events of a call nobody began', () => {
    expect(store.calls.event(numberId, 'media.started')).toBeNull();
    expect(store.calls.finish(numberId, end)).toBe(false);
  });

  it('keeps event times in order when the clock is set back', () => {
    const id = begin();
    clock.set(clock.now() - 3_600_000);
    store.calls.event(id, 'call.ringing');
    const times = detail(id)?.events.map((event) => event.createdAt.getTime()) ?? [];
    expect(times[1]).toBeGreaterThanOrEqual(times[0] ?? Number.POSITIVE_INFINITY);
  });

  it('tells the caller when a row can never be written', () => {
    expect(() => begin({ organizationId: numberId })).toThrow(/FOREIGN KEY/);
  });

  it('forgets an event of a deleted call without holding up the others', () => {
    const gone = begin();
    store.calls.finish(gone, end);
    const other = begin();
    store.calls.event(gone, 'webhook.delivered');
    // Another process deletes the record while the event waits here.
    const Driver = loadDriver();
    const second = new Driver(file);
    second.pragma('foreign_keys = on');
    second.prepare('delete from calls where id = ?').run(gone);
    second.close();
    store.calls.event(other, 'call.ringing');
    clock.advance(50);
    expect(store.calls.unwritten).toBe(0);
    expect(detail(other)?.events).toHaveLength(2);
  });
});

describe('a locked database', () => {
  let holder: InstanceType<ReturnType<typeof loadDriver>>;
  beforeEach(() => {
    const Driver = loadDriver();
    holder = new Driver(file);
  });
  afterEach(() => holder.close());
  const lock = () => holder.exec('begin exclusive');
  const unlock = () => holder.exec('rollback');

  it('keeps whole calls in memory and writes them, in order, when it can', () => {
    const before = begin();
    lock();
    store.calls.event(before, 'call.ringing');
    const during = begin();
    store.calls.event(during, 'call.ringing');
    expect(store.calls.finish(during, end)).toBe(true);
    expect(store.calls.finish(during, end)).toBe(false);
    expect(store.calls.event(during, 'media.started')).toBeNull();
    expect(store.calls.event(during, 'call.cost_settled')).toBe(4);
    clock.advance(1000);
    expect(store.calls.unwritten).toBe(5);
    unlock();
    clock.advance(250);
    expect(store.calls.unwritten).toBe(0);
    expect(detail(before)?.events.map((event) => event.type)).toEqual(['call.initiated', 'call.ringing']);
    expect(detail(during)?.status).toBe('completed');
    expect(detail(during)?.events.map((event) => [event.sequence, event.type])).toEqual([
      [1, 'call.initiated'],
      [2, 'call.ringing'],
      [3, 'call.completed'],
      [4, 'call.cost_settled'],
    ]);
  });

  it('numbers late events on from what still waits, when the lock comes back half way', () => {
    const id = begin();
    lock();
    expect(store.calls.finish(id, end)).toBe(true);
    for (let i = 0; i < 250; i += 1) store.calls.event(id, 'webhook.delivered');
    unlock();
    // The first 200 get through, then another process is faster.
    const transaction = vi.spyOn(Database.prototype, 'transaction');
    transaction.mockImplementation(function (this: Database, ...args) {
      transaction.mockRestore();
      try {
        return this.transaction(...args);
      } finally {
        vi.spyOn(Database.prototype, 'transaction').mockImplementation(() => {
          throw new StoreError('unavailable', 'locked');
        });
      }
    });
    clock.advance(250);
    expect(store.calls.unwritten).toBe(51);
    expect(store.calls.event(id, 'webhook.delivered')).toBe(253);
    vi.restoreAllMocks();
    clock.advance(250);
    expect(detail(id)?.events.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 253 }, (_, i) => i + 1));
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
    store.close();
    await exited;
    store = Store.open({ file, clock });
    expect(detail(id)?.status).toBe('completed');
  });

  it('refuses new calls when memory is full too, and still lets calls end', () => {
    const id = begin();
    lock();
    while (store.calls.event(id, 'mark.reached') !== null);
    expect(() => begin()).toThrow(StoreError);
    expect(store.calls.finish(id, end)).toBe(true);
    unlock();
    clock.advance(250);
    const events = detail(id)?.events ?? [];
    expect(events.map((event) => event.sequence)).toEqual(events.map((_, i) => i + 1));
    expect(events.at(-1)?.type).toBe('call.completed');
  });
});
