import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadDriver } from '../../src/store/database/driver.js';
import { dueOfEndpoint, endpointsWithDue } from '../../src/store/routing/webhook-deliveries.js';
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
/** The first events of a call; deliveries follow by a trigger. */
function addEvents(callId: string, from: number, to: number): void {
  sqlite.exec(`with recursive n(i) as (select ${from} union all select i + 1 from n where i < ${to})
    insert into call_events (id, call_id, sequence, event_type, event_data, created_at)
    select '${callId}-' || i, '${callId}', i, 'turn.completed', '{}', ${nowMs - 1000} from n`);
}
const claim = (limit = 10) => api.store.webhookDeliveries.claim(endpoint, limit, 60_000).map(({ id }) => id);
const record = (id: string, next: Parameters<TestApi['store']['webhookDeliveries']['record']>[2]) =>
  api.store.webhookDeliveries.record(id, { durationMs: 1, httpStatus: 200, error: null }, next);

describe('what is due', () => {
  it('is found without a look at the 100,000 that wait behind it', () => {
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
    expect(api.store.webhookDeliveries.endpointsDue()).toEqual([endpoint]);
    expect(claim()).toEqual(['a-1', 'b-1']);
    expect([api.store.webhookDeliveries.endpointsDue(), claim()]).toEqual([[], []]); // ours for a minute
    record('a-1', 'delivered');
    expect(claim()).toEqual(['a-2']);
    record('a-2', { retryInMs: 5_000 });
    expect(claim()).toEqual([]);
    api.clock.set(nowMs + 5_000);
    expect(claim()).toEqual(['a-2']);
  });

  it('is of each call the first that is pending, whatever happens', () => {
    const step = fc.record({
      what: fc.constantFrom('event', 'delivered', 'failed', 'pending', 'deleted'),
      call: fc.constantFrom('a', 'b'),
      sequence: fc.integer({ min: 1, max: 6 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        sqlite.exec('delete from calls');
        addCall('a');
        addCall('b');
        const added = { a: 0, b: 0 };
        for (const { what, call, sequence } of steps) {
          const which = `where id = '${call}-${sequence}'`;
          if (what === 'event') {
            added[call] += 1;
            addEvents(call, added[call], added[call]);
          } else if (what === 'deleted') sqlite.exec(`delete from webhook_deliveries ${which}`);
          else sqlite.exec(`update webhook_deliveries set status = '${what}' ${which}`);
          const wrong = sqlite
            .prepare(
              `select id, waits from webhook_deliveries d where status = 'pending' and waits <> exists (
                 select 1 from webhook_deliveries o where o.status = 'pending' and o.call_id = d.call_id and o.sequence < d.sequence)`,
            )
            .all();
          expect(wrong).toEqual([]);
        }
      }),
    );
  });
});
