/** Several writers of one PostgreSQL database: deadlocks, and the order of events to webhooks. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { SafeHttp } from '../../net/http.js';
import { systemClock } from '../../src/store/database/clock.js';
import { Store } from '../../src/store/store.js';
import { EventSender } from '../../src/webhook/event-sender.js';
import { databaseOf } from '../support/open-store.js';
import { query } from '../support/postgres-server.js';

const newCall = { mode: 'live', direction: 'inbound', fromNumber: '+1', toNumber: '+2', phoneNumberId: 'n' } as const;
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
let url: string;
let stores: Store[];

beforeEach(async () => {
  url = await databaseOf(randomBytes(8).toString('hex'));
  stores = [await Store.open({ url }), await Store.open({ url })];
});
afterEach(async () => {
  for (const store of stores) await store.close();
});

it('what a deadlock has rolled back is written again, once', async () => {
  const [store] = stores as [Store];
  const { id: organizationId } = await store.organizations.create({ name: 'A', tier: 'free', metered: true });
  await store.accounts.credit(organizationId, 1_000, '');
  await store.accounts.setRates(organizationId, [
    { direction: 'inbound', prefix: '', microcentsPerMinute: 60_000_000, initialIncrementSec: 1, incrementSec: 1 },
  ]);
  const rate = store.funds.rateOf({ organizationId, ...newCall });
  const { id, admission } = store.calls.beginAdmitted(
    { ...newCall, organizationId, endpointId: null },
    { concurrentCalls: null, rate },
  );
  await admission;
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  await other.query("set deadlock_timeout = '20s'"); // the journal's transaction finds the deadlock, and is rolled back
  await other.query('begin');
  await other.query('update organizations set updated_at = 1 where id = $1', [organizationId]);
  store.calls.finish(id, end); // changes the call, then the balance
  await expect
    .poll(() =>
      query(
        url,
        "select 1 as is_waiting from pg_stat_activity where application_name = 'trunkline journal' and wait_event_type = 'Lock'",
      ),
    )
    .toEqual([{ is_waiting: 1 }]);
  await other.query('update calls set metadata = null where id = $1', [id]); // waits for the call, which waits for the organization
  await other.query('commit');
  await other.end();
  await expect.poll(() => store.calls.unwritten).toBe(0);
  const scope = { organizationId, mode: 'live' } as const;
  const events = (await store.records.detail(scope, id))?.events ?? [];
  expect(events.map(({ type }) => type)).toEqual(['call.initiated', 'call.completed', 'call.cost_settled']);
  expect(await store.accounts.balance(organizationId)).toEqual({ microcents: 997_000_000, heldMicrocents: 0 });
  const counted = async () =>
    (await query(url, 'select deadlocks as n from pg_stat_database where datname = current_database()'))[0]?.n;
  await expect.poll(counted).toBeGreaterThanOrEqual(1); // statistics come a moment later
});

it('two senders send the events of each call in their order, and each once', async () => {
  const [store] = stores as [Store];
  const { id: organizationId } = await store.organizations.create({ name: 'A', tier: 'enterprise' });
  const scope = { organizationId, mode: 'live' } as const;
  const receiver = 'https://events.test/';
  const { record } = await store.endpoints.create(scope, {
    ...{ name: 'W', type: 'webhook', target: receiver, provider: null, providerConfig: { events_url: receiver } },
  });
  const heard: { call: string; sequence: number; sender: number }[] = [];
  const http = (sender: number) =>
    ({
      request: async ({ body }: { body?: string }) => {
        const { call_id: call, sequence } = JSON.parse(body ?? '') as { call_id: string; sequence: number };
        await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 20));
        heard.push({ call, sequence, sender });
        return { status: 204, headers: {}, body: '', url: receiver };
      },
    }) as unknown as SafeHttp;
  const senders = stores.map(
    (each, sender) =>
      new EventSender({
        ...{ deliveries: each.webhookDeliveries, endpoints: each.endpoints, http: http(sender), clock: systemClock },
        ...{ log: pino({ level: 'silent' }), onDead: () => {} },
      }),
  );
  const ids = Array.from({ length: 16 }, () =>
    store.calls.begin({ ...newCall, organizationId, endpointId: record.id }),
  );
  for (let round = 0; round < 4; round += 1)
    for (const id of ids) store.calls.event(id, 'dtmf.received', { digit: '1' });
  for (const id of ids) store.calls.finish(id, end);
  await store.calls.flush();
  for (const sender of senders) sender.start();
  const heardByNow = () => {
    for (const sender of senders) sender.wake();
    return heard.length;
  };
  await expect.poll(heardByNow, { timeout: 30_000, interval: 20 }).toBeGreaterThanOrEqual(16 * 6);
  for (const sender of senders) await sender.stop(1_000);
  for (const id of ids)
    expect(heard.filter(({ call }) => call === id).map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(new Set(heard.map(({ sender }) => sender)).size).toBe(2);
});
