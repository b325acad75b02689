/** A whole gateway over PostgreSQL: it takes calls, and goes on taking them while the database is gone. `FAULTS=long`: gone for 60 s. */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { FarEnds } from '../support/far-ends.js';
import { demo } from '../support/fault-scene.js';
import { databaseOf } from '../support/open-store.js';
import { PostgresRelay } from '../support/postgres-relay.js';

const goneMs = process.env.FAULTS === 'long' ? 60_000 : 0;
let app: TestApp;
let ends: FarEnds;
let relay: PostgresRelay;

beforeEach(async () => {
  const url = await databaseOf(randomBytes(8).toString('hex'));
  relay = await PostgresRelay.to(Number(new URL(url).port));
  const patient = { TRUNKLINE_AGENT_CONNECT_TIMEOUT_SEC: '30' }; // 25 agents are connected at once
  const silent = { TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '300', TRUNKLINE_RTP_TIMEOUT_SEC: '300' }; // the phones send no audio
  app = await startTestApp(
    { TRUNKLINE_DATABASE_URL: relay.url(url), ...silent, ...patient },
    { t1: 50, t2: 400, t4: 500 },
  );
  ends = await FarEnds.open(app.sip.addresses[0]!.port);
});
afterEach(async () => {
  relay.comeBack();
  await ends.close();
  await app.end();
  await relay.close();
});

const minute = { initial_increment_s: 60, increment_s: 60 };
type Account = { balance_cents: number; held_cents: number };
const account = () => app.api<Account>('GET', `/v1/organizations/${scope().organizationId}`);
const scope = () => ({ organizationId: app.first?.organizationId ?? '', mode: 'live' as const });

it('takes a call, and the API shows its record', async () => {
  const call = ends.call(demo);
  expect(await call.final()).toBe(200);
  await call.bye();
  const record = await app.finishedCall(demo);
  expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'caller' });
  expect(record.events.map(({ event_type }) => event_type)).toEqual(
    expect.arrayContaining(['call.initiated', 'call.answered', 'call.completed']),
  );
  expect(await app.store.records.stats(scope(), {})).toMatchObject({ completed: 1, in_progress: 0 });
  const readiness = await fetch(`${app.httpUrl}/readyz`);
  expect([readiness.status, ((await readiness.json()) as { checks: object }).checks]).toEqual([
    200,
    expect.objectContaining({ database: true }),
  ]);
});

it(
  'with the database gone cuts no call and takes new ones; afterwards every record is whole',
  async () => {
    const calls = Array.from({ length: 25 }, () => ends.call(demo));
    for (const call of calls) expect(await call.final()).toBe(200);
    relay.goAway();
    const during = Array.from({ length: 25 }, () => ends.call(demo));
    for (const call of during) expect(await call.final()).toBe(200);
    await expect.poll(async () => (await fetch(`${app.httpUrl}/readyz`)).status).toBe(503);
    expect((await fetch(`${app.httpUrl}/v1/calls`, { headers: { authorization: `Bearer ${app.key}` } })).status).toBe(
      503,
    );
    for (const endMs = performance.now() + goneMs; performance.now() < endMs; ) {
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      expect(app.live.count).toBe(50); // none is cut
    }
    for (const call of calls.slice(0, 10)) await call.bye();
    await expect.poll(() => app.live.count).toBe(40);
    relay.comeBack();
    for (const call of [...calls.slice(10), ...during]) await call.bye();
    await expect.poll(() => app.store.calls.unwritten, { timeout: 20_000 }).toBe(0);
    expect(await app.store.records.stats(scope(), {})).toMatchObject({ completed: 50, in_progress: 0, failed: 0 });
    const { data } = await app.store.records.list(scope(), {}, { limit: 60, offset: 0 });
    for (const { id } of data) {
      const events = (await app.store.records.detail(scope(), id))?.events ?? [];
      expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, i) => i + 1));
      expect(events.filter(({ type }) => type === 'call.completed')).toHaveLength(1);
    }
    await expect.poll(async () => (await fetch(`${app.httpUrl}/readyz`)).status, { timeout: 20_000 }).toBe(200);
  },
  60_000 + 2 * goneMs,
);

it('with the database gone a call that is paid for from a balance gets 503, and nothing is held', async () => {
  const { organizationId } = scope();
  const rates = [{ direction: 'inbound', prefix: '', rate_cents_per_minute: 6, ...minute }];
  await app.api('PUT', `/v1/organizations/${organizationId}/rates`, { rates });
  const { balance_cents: before } = await app.api<Account>('POST', `/v1/organizations/${organizationId}/credits`, {
    amount_cents: 100,
    note: 'x',
  });
  const paid = ends.call(demo);
  expect(await paid.final()).toBe(200);
  await paid.bye();
  await expect.poll(async () => (await account()).held_cents, { timeout: 10_000 }).toBe(0);
  const { balance_cents: charged } = await account();
  expect(charged).toBe(before - 6);
  const { total } = await app.store.records.list(scope(), {}, { limit: 1, offset: 0 });
  relay.goAway();
  const call = ends.call(demo);
  expect(await call.final()).toBe(503);
  await expect.poll(() => app.live.count).toBe(0);
  relay.comeBack();
  await expect.poll(() => app.store.calls.unwritten, { timeout: 20_000 }).toBe(0);
  const latest = await app.store.records.list(scope(), {}, { limit: 1, offset: 0 });
  expect([latest.total, latest.data[0]?.status, latest.data[0]?.hangupCause]).toEqual([
    total + 1,
    'failed',
    'overload',
  ]);
  await expect
    .poll(async () => account().catch(() => null), { timeout: 20_000 })
    .toMatchObject({
      balance_cents: charged,
      held_cents: 0,
    });
}, 60_000);
