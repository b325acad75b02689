import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { FarEnds } from '../support/far-ends.js';
import { demo } from '../support/fault-scene.js';
import { addTrunk } from '../support/outbound.js';

/** Calls that begin at the very moment at which the process drains: each has a record with its end, or none. */

let dataFolder: string;
let app: TestApp;
let ends: FarEnds;

beforeEach(async () => {
  dataFolder = mkdtempSync(path.join(tmpdir(), 'trunkline-drain-'));
  app = await startTestApp({ TRUNKLINE_DATA_DIR: dataFolder }, { t1: 50, t2: 200, t4: 250 });
  ends = await FarEnds.open(app.sip.addresses[0]!.port);
});
afterEach(async () => {
  await app.stop(0);
  await ends.close();
  await app.end().catch(() => undefined); // it looks for calls in a process that is stopped
  rmSync(dataFolder, { recursive: true });
});

/** The records as they are on disk, when the process is gone. */
function records(): { status: string; hangup_cause: string | null; events: string[]; sequences: number[] }[] {
  const Driver = loadDriver();
  const database = new Driver(app.databaseFile, { readonly: true });
  try {
    const calls = database.prepare('select id, status, hangup_cause from calls').all() as {
      id: string;
      status: string;
      hangup_cause: string | null;
    }[];
    const of = database.prepare('select event_type, sequence from call_events where call_id = ? order by sequence');
    return calls.map(({ id, status, hangup_cause }) => {
      const events = of.all(id) as { event_type: string; sequence: number }[];
      return {
        ...{ status, hangup_cause },
        events: events.map(({ event_type }) => event_type),
        sequences: events.map(({ sequence }) => sequence),
      };
    });
  } finally {
    database.close();
  }
}

function expectWhole(record: ReturnType<typeof records>[number] | undefined): void {
  expect(record).toMatchObject({ status: 'failed', hangup_cause: 'system_shutdown' });
  expect(record?.events.at(0)).toBe('call.initiated');
  expect(record?.events.filter((type) => type === 'call.failed')).toHaveLength(1);
  expect(record?.sequences).toEqual(record?.sequences.map((_, i) => i + 1));
}

it('a call from outside whose record is not on disk yet is refused, and its record has an end', async () => {
  const Driver = loadDriver();
  const holder = new Driver(app.databaseFile);
  onTestFinished(() => void holder.close());
  await app.store.calls.flush();
  holder.exec('begin immediate');
  const call = ends.call(demo);
  await expect.poll(() => app.live.count, { timeout: 10_000 }).toBe(1);
  const stopped = app.stop(0);
  expect(await call.final()).toBeGreaterThanOrEqual(200);
  holder.exec('rollback');
  await stopped;
  const [record, ...others] = records();
  expect(others).toEqual([]);
  expectWhole(record);
});

it('a call by the API that passed all checks before the drain, and begins after it, ends with the process', async () => {
  await addTrunk(app, [`sip:127.0.0.1:${ends.port}`]);
  const { data } = await app.api<{ data: { id: string }[] }>('GET', '/v1/endpoints');
  let isCommitted!: () => void;
  let goOn!: () => void;
  const committed = new Promise<void>((resolve) => {
    isCommitted = resolve;
  });
  const gate = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const { store } = app;
  const transaction = store.transaction.bind(store);
  store.transaction = async (work, within) => {
    const done = await transaction(work, within);
    if (typeof done !== 'object' || done === null || !('begun' in done)) return done;
    isCommitted(); // the record is on disk, and the call is not in the table of live calls yet
    await gate;
    return done;
  };
  const asked = { to_number: '+15005550202', from_number: demo, endpoint_id: data[0]?.id };
  const posted = app.api<{ id: string }>('POST', '/v1/outbound-calls', asked);
  await committed;
  const stopped = app.stop(60_000);
  const isListening = () =>
    fetch(`${app.httpUrl}/healthz`).then(
      () => true,
      () => false,
    );
  await expect.poll(isListening, { timeout: 10_000 }).toBe(false); // the drain found no call
  goOn();
  expect((await posted).id).toBeTruthy();
  await stopped;
  const [record, ...others] = records();
  expect(others).toEqual([]);
  expectWhole(record);
});
