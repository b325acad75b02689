/**
 * What dies under live calls, on a whole gateway: threads, the disk, the database, an exception in one call. Calls go on or end truly, far ends
 * are told, records are right afterwards. `FAULTS=long` holds the lock for the full 30 s and makes 10,000 calls in a row.
 */
import { closeSync, fstatSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, vi } from 'vitest';
import { EmbeddedEngine } from '../../media/thread/main-side/engine.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { collectGarbage } from '../support/collect-garbage.js';
import type { FarCall } from '../support/far-ends.js';
import { answered, demo, faultScene, undisturbed } from '../support/fault-scene.js';
import { descriptors } from '../support/invariants.js';
import { startReceiver } from '../support/receiver.js';
import { webhookApp } from '../support/webhook-app.js';

const long = process.env.FAULTS === 'long';

const scene = faultScene({
  environment: { TRUNKLINE_LOG_LEVEL: 'silent' },
  timersMs: { t1: 50, t2: 400, t4: 500 },
  limitMs: 20_000,
  after: () => void vi.restoreAllMocks(),
});

const causes = async (calls: readonly FarCall[]) =>
  new Set(
    (await Promise.all(calls.map((call) => scene.recordOf(call)))).map((row) => `${row?.status} ${row?.hangupCause}`),
  );

describe('a thread dies', () => {
  it('of the media: its calls end as engine_gone, every far end has its BYE, and the next call finds a new one', async () => {
    scene.baseline = null; // the new thread has descriptors of its own
    const calls = await answered(scene.ends, 20);
    if (!(scene.app.media instanceof EmbeddedEngine)) throw new Error('There is no engine to crash');
    await scene.app.media.crash(0);
    for (const call of calls) await call.ended();
    await expect.poll(() => causes(calls)).toEqual(new Set(['failed engine_gone']));
    await expect.poll(() => scene.app.media.load().threads.every((thread) => thread.alive)).toBe(true);
    const [next] = await answered(scene.ends, 1);
    await next!.bye();
    expect(scene.app.media.load().threadsReplaced).toBe(1);
  });

  it('of the signalling: its calls end as signalling_lost, it is back on its port, and tells every far end', async () => {
    scene.baseline = null;
    const calls = await answered(scene.ends, 20);
    await terminateSipWorker();
    for (const call of calls) await call.ended();
    await expect.poll(() => causes(calls)).toEqual(new Set(['failed signalling_lost']));
    await expect.poll(() => scene.app.sip.connected).toBe(true);
    const [next] = await answered(scene.ends, 1);
    await next!.bye();
  });
});

describe('an exception', () => {
  it('in one call ends that call, and no other hears of it (X8)', async () => {
    await undisturbed(scene, async () => {
      vi.spyOn(scene.app.media, 'open').mockRejectedValueOnce(new TypeError('a fault of ours'));
      const refused = scene.ends.call(demo);
      expect(await refused.final()).toBeGreaterThanOrEqual(480);
      // and its record has the whole story
      await expect.poll(async () => (await scene.recordOf(refused))?.status).toBe('failed');
      const trace = await scene.app.store.records.trace(scene.scope, (await scene.recordOf(refused))!.id);
      expect(trace?.map(({ message }) => message.slice(0, 9))).toContain(`SIP/2.0 ${String(refused.finalStatus)[0]}`);
      const [fine] = await answered(scene.ends, 1);
      await sleep(200); // real time: so long the call has sound
      await fine!.bye();
    });
  });

  it('in what an agent or the media tell of a call ends that call with BYE (X8)', async () => {
    const open = scene.app.media.open.bind(scene.app.media);
    let tell: ((event: never) => void) | undefined;
    vi.spyOn(scene.app.media, 'open').mockImplementationOnce(async (options) => {
      const session = await open(options);
      const onEvent = session.onEvent.bind(session);
      session.onEvent = (listener) => {
        tell ??= listener as never;
        return onEvent(listener);
      };
      return session;
    });
    const [faulty] = await answered(scene.ends, 1);
    await expect.poll(() => tell).toBeTruthy();
    tell!(null as never); // no event at all: whatever reads it throws
    await faulty!.ended();
  });
});

describe('webhooks', () => {
  it('of calls arrive whole and in order at a receiver that refuses one and hangs up on another (I7)', async () => {
    scene.baseline = null; // connections to the receiver stay open for a while
    let asked = 0;
    scene.receiver = await startReceiver((_request, response) => {
      asked += 1;
      if (asked === 1) response.writeHead(503).end();
      else if (asked === 2) response.destroy();
      else response.writeHead(204).end();
    });
    const steered = await webhookApp(
      scene.app,
      { '/start': [{ action: 'answer' }, { action: 'pause', seconds: 30 }] },
      { events_url: scene.receiver.url },
    );
    const calls = [scene.ends.call(steered.number), scene.ends.call(steered.number)];
    for (const call of calls) expect(await call.final()).toBe(200);
    for (const call of calls) await call.bye();
    await expect.poll(() => asked, { timeout: 15_000 }).toBeGreaterThan(8);
    await steered.server.close();
  });
});

describe('the database', () => {
  it(`locked for ${long ? 30 : 1.5} s: calls are answered and go on, and every record is right afterwards (X4)`, async () => {
    await undisturbed(scene, async () => {
      const Driver = loadDriver();
      const holder = new Driver(scene.app.databaseFile);
      const during = await answered(scene.ends, 5);
      holder.exec('begin exclusive');
      const unlockAt = performance.now() + (long ? 30_000 : 1500);
      const late = await answered(scene.ends, 10);
      await during[0]!.bye();
      for (const call of late.slice(0, 5)) await call.bye();
      expect(scene.app.store.calls.unwritten).toBeGreaterThan(0);
      await sleep(Math.max(0, unlockAt - performance.now()));
      holder.exec('rollback');
      holder.close();
      await expect.poll(() => scene.app.store.calls.unwritten).toBe(0);
      for (const call of [...late.slice(5), ...during.slice(1)]) await call.bye();
    });
  }, 150_000);

  it('full: calls go on in memory, and are written once there is room (X3)', async () => {
    await undisturbed(scene, async () => {
      // on the connection that writes
      const pragma = (text: string) =>
        scene.app.store.transaction(async (transaction) => {
          const [row] = await transaction.tuples<[number]>(`pragma ${text}`);
          return row?.[0];
        });
      await pragma(`max_page_count = ${await pragma('page_count')}`); // every write that needs a page fails as on a full disk
      const calls = await answered(scene.ends, 20);
      for (const call of calls.slice(0, 10)) await call.bye();
      await expect.poll(() => scene.app.store.calls.unwritten).toBeGreaterThan(0);
      await pragma('max_page_count = 1073741823');
      await expect.poll(() => scene.app.store.calls.unwritten).toBe(0);
      for (const call of calls.slice(10)) await call.bye();
    });
  });

  it('full under a recording: it ends with an event that says so, what was written stays, and the call goes on (X3)', async () => {
    scene.baseline = null; // what the disk refuses stays open here for the length of the test
    type Numbers = { data: { number: string; endpoint_id: string }[] };
    const { data } = await scene.app.api<Numbers>('GET', '/v1/phone-numbers');
    const endpoint = `/v1/endpoints/${data.find((each) => each.number === demo)?.endpoint_id}`;
    await scene.app.api('PATCH', endpoint, { record: true });
    await undisturbed(scene, async () => {
      const [recorded] = await answered(scene.ends, 1);
      const { id } = (await scene.recordOf(recorded!))!;
      const fd = await recordingOf(id);
      // two seconds are on the disk, and then there is no room for more
      await expect.poll(() => fstatSync(fd).size, { timeout: 15_000 }).toBeGreaterThan(44 + 2 * 16_000);
      const full = refuseWrites(fd);
      const failure = async () =>
        (await scene.recordOf(recorded!))?.events.find((event) => event.type === 'recording.failed')?.data;
      await expect.poll(failure, { timeout: 15_000 }).toMatchObject({ message: expect.stringContaining('ENOSPC') });
      const detail = await scene.app.api<{ status: string; recording_url: string | null }>('GET', `/v1/calls/${id}`);
      expect(detail).toMatchObject({ status: 'in_progress', recording_url: expect.stringContaining('http') });
      expect(await recorded!.bye()).toBe(200);
      for (const each of full) closeSync(each);
      await expect.poll(async () => (await scene.recordOf(recorded!))?.status).toBe('completed');
      const ends = (await scene.recordOf(recorded!))?.events.map((event) => event.type);
      expect(ends?.filter((type) => type === 'recording.failed' || type === 'recording.completed')).toHaveLength(1);
    });
    await scene.app.api('PATCH', endpoint, { record: false });
  });
});

describe('time', () => {
  it('set forward and back by an hour under calls: durations are what passed, events in order (X5)', async () => {
    const real = Date.now.bind(Date);
    for (const jumpMs of [3_600_000, -3_600_000]) {
      const calls = await answered(scene.ends, 3);
      vi.spyOn(Date, 'now').mockImplementation(() => real() + jumpMs);
      await sleep(1200); // real time: the duration that the record must have
      for (const call of calls) await call.bye();
      await expect.poll(() => scene.app.live.count).toBe(0);
      vi.restoreAllMocks();
    }
    scene.sinceMs -= 3_700_000;
  });
});

it(`${long ? 10_000 : 150} short calls: descriptors ${long ? 'and memory ' : ''}are what they were (X7)`, async () => {
  const total = long ? 10_000 : 150;
  const wave = 25;
  const rss: number[] = [];
  for (let made = 0; made < total; made += wave) {
    for (const call of await answered(scene.ends, wave)) await call.bye();
    // what is over need not be kept by the test itself
    if (long) for (const id of [...scene.ends.calls.keys()].slice(0, -wave)) scene.ends.calls.delete(id);
    if (!long || made % 1000 !== 0) continue;
    collectGarbage();
    rss.push(process.memoryUsage().rss / 2 ** 20);
  }
  if (!long) return;
  const [first = 0, last = 0] = [rss[2], rss.at(-1)];
  const open = Object.values(descriptors('self')).reduce((a, b) => a + b, 0);
  process.stdout.write(`${total} calls: RSS ${rss.map((mb) => mb.toFixed(0)).join(' ')} MB, ${open} descriptors\n`);
  expect(last - first, '1 MB per 100 calls').toBeLessThan((total - 2000) / 100);
}, 900_000);

/** The descriptor of the file that this call is recorded in. */
async function recordingOf(callId: string): Promise<number> {
  const find = () =>
    readdirSync('/proc/self/fd').find((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).endsWith(`${callId}.wav`);
      } catch {
        return false; // closed meanwhile
      }
    });
  await expect.poll(find, { timeout: 15_000 }).toBeTruthy();
  return Number(find());
}

/** Puts `/dev/full` where that descriptor was: whoever writes there hears ENOSPC. Answers what else had to be opened. */
function refuseWrites(fd: number): number[] {
  const others: number[] = [];
  closeSync(fd);
  for (;;) {
    const opened = openSync('/dev/full', 'w');
    if (opened === fd) return others;
    others.push(opened);
  }
}

/** Ends the thread as a crash would. */
async function terminateSipWorker(): Promise<void> {
  let worker: Worker | undefined;
  const spy = vi.spyOn(Worker.prototype, 'postMessage').mockImplementation(function (this: Worker) {
    worker = this;
  });
  void scene.app.sip.serverStats().catch(() => undefined);
  spy.mockRestore();
  await worker?.terminate();
}
