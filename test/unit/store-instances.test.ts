import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OrphanedCall } from '../../src/store/nodes/orphans.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import type { Store } from '../../src/store/store.js';
import { FakeClock } from '../support/fake-clock.js';
import { onPostgres, openStore } from '../support/open-store.js';

let dir: string;
let file: string;
/** One clock per process: a process that dies has timers that never fire again. */
let clocks: FakeClock[];
let open: Store[];

/** When the row of a silent process was last renewed, and when it is dead. */
const [renewedEveryMs, leaseMs] = onPostgres ? [2_000, 8_000] : [5_000, 15_000];
const startMs = Date.UTC(2026, 0, 15, 12);
const alive = new Set<number>();

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-instances-'));
  file = path.join(dir, 'trunkline.db');
  clocks = [];
  open = [];
  alive.clear();
});

afterEach(async () => {
  for (const store of open) await store.close();
  rmSync(dir, { recursive: true });
});

interface Process {
  store: Store;
  clock: FakeClock;
  orphans: OrphanedCall[];
}

async function start(pid: number, atMs = startMs, host = 'one'): Promise<Process> {
  const clock = new FakeClock(atMs);
  const orphans: OrphanedCall[] = [];
  alive.add(pid);
  const store = await openStore({
    file,
    clock,
    process: { pid, host, isAlive: (other) => alive.has(other) },
    onOrphans: (calls) => orphans.push(...calls),
  });
  clocks.push(clock);
  open.push(store);
  return { store, clock, orphans };
}

let organizationId = '';
async function begin({ store, clock }: Process): Promise<string> {
  if ((await store.organizations.count()) === 0)
    organizationId = (await store.organizations.create({ name: 'A', tier: 'free' })).id;
  const id = store.calls.begin({
    organizationId,
    mode: 'live',
    direction: 'inbound',
    fromNumber: 'x',
    toNumber: 'y',
    phoneNumberId: '0198aaaa-0000-7000-8000-000000000001',
    endpointId: null,
    sipCallId: 'abc@host',
    createdAt: new Date(clock.now()),
  });
  await store.calls.flush();
  return id;
}
const detail = ({ store }: Process, id: string) => store.records.detail({ organizationId, mode: 'live' }, id);
/** On PostgreSQL a process judges others only after a whole lease of its own. */
const judging = async (...processes: Process[]) => {
  if (onPostgres) await pass(leaseMs + renewedEveryMs, processes);
};
/** All living processes see the same time pass. */
const pass = async (ms: number, processes: Process[]) => {
  for (let elapsed = 0; elapsed < ms; elapsed += 1000)
    for (const { clock, store } of processes) {
      clock.advance(1000);
      await store.lease.settled();
    }
};

describe('calls of a dead process', () => {
  it('end as system_restart when it was last heard of', async () => {
    const dead = await start(1, startMs, 'one');
    const answered = await begin(dead);
    const ringing = await begin(dead);
    dead.clock.advance(2000);
    dead.store.calls.answered(answered, { latencyMs: 5 });
    dead.clock.advance(10_500); // renews the lease, and flushes the answer
    await dead.store.lease.settled();
    const lastMs = Math.floor(12_500 / renewedEveryMs) * renewedEveryMs;
    const next = await start(2, startMs + 40_000, 'two');
    await judging(next);
    expect(next.orphans.map((call) => call.id).sort()).toEqual([answered, ringing].sort());
    expect(next.orphans[0]).toMatchObject({ sipCallId: 'abc@host', organizationId });
    const call = await detail(next, answered);
    expect(call).toMatchObject({ status: 'failed', hangupCause: 'system_restart', hangupSource: 'system' });
    expect(call?.completedAt).toEqual(new Date(startMs + lastMs));
    expect(call?.durationSec).toBe(lastMs / 1000 - 2);
    expect(call?.events.map(({ sequence, type }) => [sequence, type])).toEqual([
      [1, 'call.initiated'],
      [2, 'call.answered'],
      [3, 'call.failed'],
    ]);
    expect(await detail(next, ringing)).toMatchObject({ status: 'failed', durationSec: 0, answeredAt: null });
    expect(await next.store.closeOrphans()).toEqual([]);
  });

  it('have lasted a second when they were answered at all, also while their agent was not ready yet', async () => {
    const dead = await start(1, startMs, 'one');
    const answered = await begin(dead);
    dead.clock.advance(9_900);
    dead.store.calls.pickedUp(answered, new Date(startMs + 9_900));
    dead.clock.advance(1_000); // the lease is renewed at 10 s
    await dead.store.lease.settled();
    const next = await start(2, startMs + 40_000, 'two');
    await judging(next);
    expect(await detail(next, answered)).toMatchObject({ durationSec: 1, answeredAt: new Date(startMs + 9_900) });
  });

  it('end at once when the process is gone from this machine', async () => {
    const dead = await start(1);
    const id = await begin(dead);
    alive.delete(1);
    const next = await start(2, startMs + 1000);
    expect(await detail(next, id)).toMatchObject({ status: 'failed', hangupCause: 'system_restart' });
    expect((await detail(next, id))?.completedAt?.getTime()).toBe(startMs);
  });

  it('are not ended for a process id that is missing on another machine', async () => {
    const other = await start(1, startMs, 'elsewhere');
    const id = await begin(other);
    alive.delete(1);
    const next = await start(2, startMs + 1000, 'here');
    expect((await detail(next, id))?.status).toBe('in_progress');
  });

  it(`end ${onPostgres ? '10' : '20'} s later while another process runs`, async () => {
    const dead = await start(1, startMs, 'one');
    const living = await start(2, startMs, 'two');
    const lost = await begin(dead);
    const own = await begin(living);
    await pass(leaseMs - 1_000, [living]);
    expect((await detail(living, lost))?.status).toBe('in_progress');
    await pass(renewedEveryMs + 1_000, [living]);
    expect(await detail(living, lost)).toMatchObject({ status: 'failed', hangupCause: 'system_restart' });
    expect((await detail(living, own))?.status).toBe('in_progress');
    expect(living.orphans.map((call) => call.id)).toEqual([lost]);
  });

  it('are closed by exactly one of two processes, and the late owner gets an error', async () => {
    const frozen = await start(1, startMs, 'one');
    const id = await begin(frozen);
    const second = await start(2, startMs + 60_000, 'two');
    const third = await start(3, startMs + 60_000, 'three');
    await judging(second, third);
    expect([second.orphans.length, third.orphans.length]).toEqual([1, 0]);
    // It was not dead after all: its own end comes too late.
    const end = {
      status: 'completed',
      hangupCause: 'normal_clearing',
      hangupSource: 'caller',
      durationSec: 9,
    } as const;
    expect(frozen.store.calls.finish(id, end)).toBe(true); // as far as it knows
    await frozen.store.calls.flush();
    const call = await detail(second, id);
    expect(call?.hangupCause).toBe('system_restart');
    expect(call?.events.filter(({ type }) => type !== 'call.initiated')).toHaveLength(1);
  });
});

describe('calls of a living process', () => {
  it('are never touched, however often others sweep', async () => {
    const one = await start(1, startMs, 'one');
    const two = await start(2, startMs, 'two');
    const ids = [await begin(one), await begin(two)];
    await pass(120_000, [one, two]);
    await one.store.closeOrphans();
    await two.store.closeOrphans();
    for (const id of ids) expect((await detail(one, id))?.status).toBe('in_progress');
    expect([...one.orphans, ...two.orphans]).toEqual([]);
  });

  it.skipIf(onPostgres)('outlive a lock that kept everybody from beating', async () => {
    const one = await start(1, startMs, 'one');
    const two = await start(2, startMs, 'two');
    const id = await begin(one);
    const Driver = loadDriver();
    const holder = new Driver(file);
    holder.exec('begin exclusive');
    await pass(30_000, [one, two]);
    holder.exec('rollback');
    holder.close();
    await pass(60_000, [two, one]); // the other process gets to beat first
    expect((await detail(two, id))?.status).toBe('in_progress');
  });
});

describe('late events of one call', () => {
  it('of two processes at once get a number each, one after the other', async () => {
    const one = await start(1);
    const two = await start(2);
    const id = await begin(one);
    one.store.calls.finish(id, {
      status: 'completed',
      hangupCause: 'normal_clearing',
      hangupSource: 'caller',
      durationSec: 1,
    });
    await one.store.calls.flush();
    for (let round = 0; round < 5; round++) {
      for (const { store } of [one, two]) {
        expect(store.calls.event(id, 'webhook.delivered', { round })).toBe('later');
        expect(store.calls.event(id, 'webhook.failed', { round })).toBe('later');
      }
      await Promise.all(
        [one, two].map(({ store }) => expect.poll(() => store.calls.flush(), { timeout: 20_000 }).toBe(true)),
      );
    }
    // those of the process that had not the call follow when its own process can number no more
    expect((await detail(one, id))?.events).toHaveLength(12);
    await pass(30_000, [two, one]);
    const events = (await detail(one, id))?.events ?? [];
    expect(events.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 22 }, (_, i) => i + 1));
    const late = events.slice(2).map(({ type, data }) => `${type} ${(data as { round: number }).round}`);
    const each = (round: number) => ['webhook.delivered', 'webhook.failed'].map((type) => `${type} ${round}`);
    expect(late.sort()).toEqual([0, 1, 2, 3, 4].flatMap((round) => [...each(round), ...each(round)]).sort());
  });
});

describe('events about a running call of another process', () => {
  const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 1 } as const;
  const typesOf = async (process: Process, id: string) =>
    (await detail(process, id))?.events.map(({ sequence, type }) => [sequence, type]);

  it('are kept, and follow its end', async () => {
    const [one, two] = [await start(1), await start(2)];
    const id = await begin(one);
    expect(two.store.calls.event(id, 'webhook.failed', { message: 'x' })).toBe('later');
    await two.store.calls.flush();
    await pass(20_000, [one, two]);
    expect(await typesOf(one, id)).toEqual([[1, 'call.initiated']]);
    one.store.calls.event(id, 'call.ringing');
    one.store.calls.finish(id, end);
    one.store.calls.event(id, 'recording.completed');
    await one.store.calls.flush();
    const own = ['call.initiated', 'call.ringing', 'call.completed', 'recording.completed'];
    expect(await typesOf(one, id)).toEqual(own.map((type, i) => [i + 1, type]));
    await pass(30_000, [one, two]);
    const all = [...own, 'webhook.failed'].map((type, i) => [i + 1, type]);
    expect(await typesOf(one, id)).toEqual(all);
    await pass(30_000, [one, two]);
    expect(await typesOf(one, id)).toEqual(all);
  });

  it('follow the end that another process wrote, when its process has died', async () => {
    const [one, two] = [await start(1), await start(2)];
    const id = await begin(one);
    two.store.calls.event(id, 'webhook.failed', { message: 'x' });
    await two.store.calls.flush();
    alive.delete(1);
    await pass(leaseMs + 4 * renewedEveryMs, [two]);
    expect(await typesOf(two, id)).toEqual([
      [1, 'call.initiated'],
      [2, 'call.failed'],
      [3, 'webhook.failed'],
    ]);
  });
});

describe('leaving', () => {
  const instances = () => {
    const Driver = loadDriver();
    const database = new Driver(file, { readonly: true });
    const rows = database.prepare('select pid from instances').all();
    database.close();
    return rows;
  };

  it.skipIf(onPostgres)('removes the instance, writes what waits, and stops the timers', async () => {
    const one = await start(1);
    const watcher = await start(2);
    const id = await begin(one);
    one.store.calls.event(id, 'call.ringing');
    const end = {
      status: 'completed',
      hangupCause: 'normal_clearing',
      hangupSource: 'caller',
      durationSec: 0,
    } as const;
    one.store.calls.finish(id, end);
    one.store.calls.event(id, 'call.cost_settled');
    await one.store.close();
    await one.store.close();
    expect(one.clock.pending).toBe(0);
    expect(instances()).toEqual([{ pid: 2 }]);
    expect((await detail(watcher, id))?.events).toHaveLength(4);
  });

  it.skipIf(onPostgres)('stays known while calls of it are open, so that the next start closes them', async () => {
    const one = await start(1);
    const id = await begin(one);
    await one.store.close();
    alive.delete(1);
    expect(instances()).toEqual([{ pid: 1 }]);
    const next = await start(2, startMs + 2000);
    expect((await detail(next, id))?.hangupCause).toBe('system_restart');
    expect(instances()).toEqual([{ pid: 2 }]);
  });
});
