import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { dueOfEndpoint, endpointsWithDue } from '../../src/store/routing/webhook-deliveries.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { type TestApi, testApi } from '../support/api.js';

/** Only the first pending delivery of each call may go out; finding it must not cost more when many wait behind it. */

let api: TestApi;
let sqlite: InstanceType<ReturnType<typeof loadDriver>>;
const nowMs = Date.UTC(2026, 0, 15, 12);
let endpoint: string;

beforeEach(async () => {
  api = await testApi();
  const { body } = await api.request('POST', '/v1/endpoints', {
    body: { name: 'W', type: 'webhook', target: 'https://a.test', provider_config: { events_url: 'https://a.test' } },
  });
  endpoint = body.id;
  sqlite = new (loadDriver())(api.file);
});
afterEach(async () => {
  sqlite.close();
  await api.close();
});

function addCall(id: string): void {
  sqlite.exec(`insert into calls (id, organization_id, mode, instance_id, direction, from_number, to_number, status, phone_number_id, endpoint_id, created_at)
    values ('${id}', '${api.a.organizationId}', 'live', 'i', 'inbound', '+1', '+2', 'completed', 'p', '${endpoint}', 0)`);
}
/** Events of a call with their deliveries: the first may go, the others wait. */
function addEvents(callId: string, from: number, to: number): void {
  const numbered = `with recursive n(i) as (select ${from} union all select i + 1 from n where i < ${to})`;
  sqlite.exec(`${numbered} insert into call_events (id, call_id, sequence, event_type, event_data, created_at)
    select '${callId}-' || i, '${callId}', i, 'turn.completed', '{}', ${nowMs - 1000} from n`);
  sqlite.exec(`${numbered} insert into webhook_deliveries
      (id, organization_id, mode, endpoint_id, call_id, sequence, event_type, status, waits, next_attempt_at, created_at)
    select '${callId}-' || i, '${api.a.organizationId}', 'live', '${endpoint}', '${callId}', i, 'turn.completed', 'pending', i > 1,
      ${nowMs - 1000}, ${nowMs - 1000} from n`);
}
const claim = async (limit = 10) =>
  (await api.store.webhookDeliveries.claim(endpoint, limit, 60_000)).map(({ id }) => id);
const nextAttempt = (id: string) =>
  sqlite
    .prepare('select coalesce(max(number), 0) + 1 from webhook_attempts where delivery_id = ?')
    .pluck()
    .get(id) as number;
const record = (id: string, next: Parameters<TestApi['store']['webhookDeliveries']['record']>[2]) =>
  api.store.webhookDeliveries.record(
    { id, attemptNumber: nextAttempt(id) },
    { durationMs: 1, httpStatus: 200, error: null },
    next,
  );

describe('what is due', () => {
  it('is found without a look at the 100,000 that wait behind it', async () => {
    addCall('a');
    addCall('b');
    addEvents('a', 1, 100_000);
    addEvents('b', 1, 1);
    const inIndex = sqlite.prepare(
      "select count(*) from webhook_deliveries indexed by webhook_deliveries_due where status = 'pending' and waits = 0",
    );
    expect(inIndex.pluck().get()).toBe(2);
    const plan = (sql: string, ...values: unknown[]) =>
      (sqlite.prepare(`explain query plan ${sql}`).all(...values) as { detail: string }[]).map(({ detail }) => detail);
    for (const steps of [plan(endpointsWithDue, nowMs), plan(dueOfEndpoint, endpoint, nowMs, 10)]) {
      const onDeliveries = steps.filter((step) => step.includes('webhook_deliveries'));
      expect(onDeliveries.length).toBeGreaterThan(0);
      for (const step of onDeliveries) expect(step).toMatch(/^SEARCH .*INDEX webhook_deliveries_due/);
      expect(steps.join()).not.toMatch(/AUTOMATIC/);
    }
    expect(await api.store.webhookDeliveries.endpointsDue()).toEqual([endpoint]);
    expect(await claim()).toEqual(['a-1', 'b-1']);
    expect([await api.store.webhookDeliveries.endpointsDue(), await claim()]).toEqual([[], []]); // ours for a minute
    await record('a-1', 'delivered');
    expect(await claim()).toEqual(['a-2']);
    await record('a-2', { retryInMs: 5_000 });
    expect(await claim()).toEqual([]);
    api.clock.set(nowMs + 5_000);
    expect(await claim()).toEqual(['a-2']);
  });

  it('is of each call the first that is pending, whatever happens', async () => {
    const step = fc.record({
      what: fc.constantFrom('event', 'event', 'delivered', 'failed', 'again'),
      call: fc.constantFrom('a', 'b'),
      sequence: fc.integer({ min: 1, max: 6 }),
    });
    const { calls, webhookDeliveries } = api.store;
    const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
    const about = {
      fromNumber: '+1',
      toNumber: '+2',
      phoneNumberId: 'p',
      endpointId: endpoint,
      direction: 'inbound',
    } as const;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const ids = { a: calls.begin({ ...scope, ...about }), b: calls.begin({ ...scope, ...about }) };
        for (const { what, call, sequence } of steps) {
          if (what === 'event') calls.event(ids[call], 'turn.completed');
          await calls.flush();
          const of = 'select id from webhook_deliveries where call_id = ? and sequence = ?';
          const id = sqlite.prepare(of).pluck().get(ids[call], sequence) as string | undefined;
          if (id !== undefined && what === 'again') await webhookDeliveries.retry(scope, id);
          else if (id !== undefined && what !== 'event') await record(id, what as 'delivered' | 'failed');
          const wrong = sqlite
            .prepare(
              `select id, waits from webhook_deliveries d where status = 'pending' and waits <> exists (
                 select 1 from webhook_deliveries o where o.status = 'pending' and o.call_id = d.call_id and o.sequence < d.sequence)`,
            )
            .all();
          expect(wrong).toEqual([]);
        }
      }),
      { numRuns: 25 },
    );
  });

  it('an event is for the webhook once the endpoint has an events_url', async () => {
    const { calls, endpoints } = api.store;
    const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
    await endpoints.update(scope, endpoint, { providerConfig: {} });
    const about = {
      fromNumber: '+1',
      toNumber: '+2',
      phoneNumberId: 'p',
      endpointId: endpoint,
      direction: 'inbound',
    } as const;
    const id = calls.begin({ ...scope, ...about });
    await calls.flush();
    await endpoints.update(scope, endpoint, { providerConfig: { events_url: 'https://a.test' } });
    calls.event(id, 'turn.completed');
    calls.event(id, 'webhook.failed');
    await calls.flush();
    const types = sqlite.prepare('select event_type, waits from webhook_deliveries where call_id = ?').all(id);
    expect(types).toEqual([{ event_type: 'turn.completed', waits: 0 }]);
  });
});
