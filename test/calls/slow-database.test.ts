import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { FarEnds } from '../support/far-ends.js';
import { demo } from '../support/fault-scene.js';

/** Calls that are paid for from a balance, while another process keeps SQLite's lock: they wait for it up to 2 s. */

/** An INVITE that waits so long for this process is overload. */
const waitMs = 700;
let app: TestApp;
let ends: FarEnds;
let holder: InstanceType<ReturnType<typeof loadDriver>>;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 }, { sipLimits: { waitMs } });
  const { organization } = await app.api<{ organization: { id: string } }>('GET', '/v1/me');
  const minute = { initial_increment_s: 60, increment_s: 60 };
  const rates = [{ direction: 'inbound', prefix: '', rate_cents_per_minute: 1, ...minute }];
  await app.api('PUT', `/v1/organizations/${organization.id}/rates`, { rates });
  await app.api('POST', `/v1/organizations/${organization.id}/credits`, { amount_cents: 1000, note: 'x' });
});
afterAll(() => app.end());
beforeEach(async () => {
  ends = await FarEnds.open(app.sip.addresses[0]!.port);
  const Driver = loadDriver();
  holder = new Driver(app.databaseFile);
});
afterEach(async () => {
  holder.close();
  await ends.close();
});

it('a call that waits for its money does not make the overload guard refuse the next one', async () => {
  const { overload } = (await app.sip.serverStats()).shed;
  await app.store.calls.flush();
  holder.exec('begin immediate');
  const first = ends.call(demo);
  await sleep(waitMs + 300); // longer than an INVITE may wait for this process
  const second = ends.call(demo);
  await expect.poll(() => app.live.count, { timeout: 10_000 }).toBe(2);
  holder.exec('rollback');
  expect((await app.sip.serverStats()).shed.overload).toBe(overload);
  expect(await second.final()).toBe(200);
  // the first one may have waited for its 2 s on a busy machine
  if ((await first.final()) === 200) await first.bye();
  await second.bye();
  await expect.poll(() => app.live.count, { timeout: 10_000 }).toBe(0);
});
