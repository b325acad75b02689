/**
 * What dies under live calls, on a whole gateway: threads, the disk, the database, an exception in one call. Calls go on or end truly, far ends
 * are told, records are right afterwards. `FAULTS=long` holds the lock for the full 30 s and makes 10,000 calls in a row.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { EmbeddedEngine } from '../../media/thread/engine.js';
import type { Database } from '../../src/store/database.js';
import { loadDriver } from '../../src/store/driver.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { type FarCall, FarEnds } from '../support/far-ends.js';
import { Baseline, Bystander, descriptors, expectInvariants } from '../support/invariants.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { webhookApp } from '../support/webhook-app.js';

const long = process.env.FAULTS === 'long';
const demo = '+15550100';
let app: TestApp;
let ends: FarEnds;
let baseline: Baseline | undefined;
let sinceMs: number;
let bystander: Bystander | undefined;
let receiver: Receiver | undefined;
let phone: RtpPhone;
let beside: FarCall;

beforeAll(async () => {
  app = await startTestApp(
    { TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0', TRUNKLINE_LOG_LEVEL: 'silent' },
    { t1: 50, t2: 400, t4: 500 },
  );
  const warm = await FarEnds.open(port());
  const first = warm.call(demo);
  await first.final();
  await first.bye();
  await warm.close();
});
beforeEach(async () => {
  ends = await FarEnds.open(port());
  phone = await RtpPhone.open();
  baseline = new Baseline();
  bystander = undefined;
  receiver = undefined;
  sinceMs = Date.now();
});
afterEach(async () => {
  vi.restoreAllMocks();
  try {
    await expectInvariants({
      ...{ file: app.databaseFile, sinceMs, farEnds: ends.calls.values(), app, limits: { limitMs: 20_000 } },
      ...(baseline ? { baseline } : {}),
      ...(bystander ? { bystander } : {}),
      ...(receiver ? { receiver } : {}),
    });
  } finally {
    await receiver?.close();
    phone.close();
    await ends.close();
  }
});
afterAll(() => app.end());

function port(): number {
  return app.sip.addresses[0]!.port;
}
async function answer(count: number): Promise<FarCall[]> {
  const calls = Array.from({ length: count }, () => ends.call(demo));
  for (const call of calls) expect(await call.final()).toBe(200);
  return calls;
}
/** A call with sound, that nothing may disturb. */
async function listenBeside(): Promise<void> {
  beside = ends.call(demo, { sdp: phone.sdp() });
  expect(await beside.final()).toBe(200);
  await phone.until(() => phone.heard.length > 5, 'sound');
  bystander = new Bystander(phone.heard);
}
const scope = () => ({ organizationId: app.first?.organizationId ?? '', mode: 'live' as const });
const causes = (calls: readonly FarCall[]) => {
  const { data } = app.store.records.list(scope(), {}, { limit: 500, offset: 0 });
  return new Set(
    calls
      .map((call) => data.find((row) => row.sipCallId === call.callId))
      .map((row) => `${row?.status} ${row?.hangupCause}`),
  );
};
const database = () => (app.store as unknown as { database: Database }).database;

describe('a thread dies', () => {
  it('of the media: its calls end as engine_gone, every far end has its BYE, and the next call finds a new one', async () => {
    baseline = undefined; // the new thread has descriptors of its own
    const calls = await answer(20);
    if (!(app.media instanceof EmbeddedEngine)) throw new Error('There is no engine to crash');
    await app.media.crash(0);
    for (const call of calls) await call.ended();
    await expect.poll(() => causes(calls)).toEqual(new Set(['failed engine_gone']));
    await expect.poll(() => app.media.load().threads.every((thread) => thread.alive)).toBe(true);
    const [next] = await answer(1);
    await next!.bye();
    expect(app.media.load().threadsReplaced).toBe(1);
  });

  it('of the signalling: its calls end as signalling_lost, it is back on its port, and tells every far end', async () => {
    baseline = undefined;
    const calls = await answer(20);
    await terminateSipWorker();
    for (const call of calls) await call.ended();
    await expect.poll(() => causes(calls)).toEqual(new Set(['failed signalling_lost']));
    await expect.poll(() => app.sip.connected).toBe(true);
    const [next] = await answer(1);
    await next!.bye();
  });
});

describe('an exception', () => {
  it('in one call ends that call, and no other hears of it (X8)', async () => {
    await listenBeside();
    vi.spyOn(app.media, 'open').mockRejectedValueOnce(new TypeError('a fault of ours'));
    const refused = ends.call(demo);
    expect(await refused.final()).toBeGreaterThanOrEqual(480);
    const [fine] = await answer(1);
    await sleep(200);
    await fine!.bye();
    expect(bystander!.problems()).toEqual([]);
    await beside.bye();
    bystander = undefined;
  });

  it('in what an agent or the media tell of a call ends that call with BYE (X8)', async () => {
    const open = app.media.open.bind(app.media);
    let tell: ((event: never) => void) | undefined;
    vi.spyOn(app.media, 'open').mockImplementationOnce(async (options) => {
      const session = await open(options);
      const onEvent = session.onEvent.bind(session);
      session.onEvent = (listener) => {
        tell ??= listener as never;
        return onEvent(listener);
      };
      return session;
    });
    const [faulty] = await answer(1);
    await expect.poll(() => tell).toBeTruthy();
    tell!(null as never); // no event at all: whatever reads it throws
    await faulty!.ended();
  });
});

describe('webhooks', () => {
  it('of calls arrive whole and in order at a receiver that refuses one and hangs up on another (I7)', async () => {
    baseline = undefined; // connections to the receiver stay open for a while
    let asked = 0;
    receiver = await startReceiver((_request, response) => {
      asked += 1;
      if (asked === 1) response.writeHead(503).end();
      else if (asked === 2) response.destroy();
      else response.writeHead(204).end();
    });
    const steered = await webhookApp(
      app,
      { '/start': [{ action: 'answer' }, { action: 'pause', seconds: 30 }] },
      { events_url: receiver.url },
    );
    const calls = [ends.call(steered.number), ends.call(steered.number)];
    for (const call of calls) expect(await call.final()).toBe(200);
    for (const call of calls) await call.bye();
    await expect.poll(() => asked, { timeout: 15_000 }).toBeGreaterThan(8);
    await steered.server.close();
  });
});

describe('the database', () => {
  it(`locked for ${long ? 30 : 1.5} s: calls are answered and go on, and every record is right afterwards (X4)`, async () => {
    await listenBeside();
    const Driver = loadDriver();
    const holder = new Driver(app.databaseFile);
    const during = await answer(5);
    holder.exec('begin exclusive');
    const unlockAt = performance.now() + (long ? 30_000 : 1500);
    const late = await answer(10);
    await during[0]!.bye();
    for (const call of late.slice(0, 5)) await call.bye();
    expect(app.store.calls.unwritten).toBeGreaterThan(0);
    await sleep(Math.max(0, unlockAt - performance.now()));
    holder.exec('rollback');
    holder.close();
    await expect.poll(() => app.store.calls.unwritten).toBe(0);
    for (const call of [...late.slice(5), ...during.slice(1)]) await call.bye();
    expect(bystander!.problems()).toEqual([]);
    await beside.bye();
    bystander = undefined;
  }, 60_000);

  it('full: calls go on in memory, and are written once there is room (X3)', async () => {
    await listenBeside();
    const pragma = (text: string) => Number(Object.values(database().prepare(`pragma ${text}`).get() as object)[0]);
    pragma(`max_page_count = ${pragma('page_count')}`); // every write that needs a page fails as on a full disk
    const calls = await answer(20);
    for (const call of calls.slice(0, 10)) await call.bye();
    await expect.poll(() => app.store.calls.unwritten).toBeGreaterThan(0);
    pragma('max_page_count = 1073741823');
    await expect.poll(() => app.store.calls.unwritten).toBe(0);
    for (const call of calls.slice(10)) await call.bye();
    expect(bystander!.problems()).toEqual([]);
    await beside.bye();
    bystander = undefined;
  });
});

describe('time', () => {
  it('set forward and back by an hour under calls: durations are what passed, events in order (X5)', async () => {
    const real = Date.now.bind(Date);
    for (const jumpMs of [3_600_000, -3_600_000]) {
      const calls = await answer(3);
      vi.spyOn(Date, 'now').mockImplementation(() => real() + jumpMs);
      await sleep(1200);
      for (const call of calls) await call.bye();
      await expect.poll(() => app.live.count).toBe(0);
      vi.restoreAllMocks();
    }
    sinceMs -= 3_700_000;
  });
});

it(`${long ? 10_000 : 150} short calls: descriptors ${long ? 'and memory ' : ''}are what they were (X7)`, async () => {
  const total = long ? 10_000 : 150;
  const wave = 25;
  const rss: number[] = [];
  for (let made = 0; made < total; made += wave) {
    for (const call of await answer(wave)) await call.bye();
    // what is over need not be kept by the test itself
    if (long) for (const id of [...ends.calls.keys()].slice(0, -wave)) ends.calls.delete(id);
    if (made % 1000 === 0) rss.push(process.memoryUsage().rss / 2 ** 20);
  }
  if (!long) return;
  const [first = 0, last = 0] = [rss[2], rss.at(-1)];
  const open = Object.values(descriptors('self')).reduce((a, b) => a + b, 0);
  process.stdout.write(`${total} calls: RSS ${rss.map((mb) => mb.toFixed(0)).join(' ')} MB, ${open} descriptors\n`);
  expect(last - first, '1 MB per 100 calls').toBeLessThan((total - 2000) / 100);
}, 900_000);

/** Ends the thread as a crash would. */
async function terminateSipWorker(): Promise<void> {
  let worker: Worker | undefined;
  const spy = vi.spyOn(Worker.prototype, 'postMessage').mockImplementation(function (this: Worker) {
    worker = this;
  });
  void app.sip.serverStats().catch(() => undefined);
  spy.mockRestore();
  await worker?.terminate();
}
