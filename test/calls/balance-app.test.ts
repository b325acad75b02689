import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { eventually } from '../support/media-engine.js';

/** Money and a real call, started over the API of the carrier simulator. */

type Account = { id: string; balance_cents: number; held_cents: number };
let app: TestApp;
let organization: string;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
  organization = (await app.api<{ organization: { id: string } }>('GET', '/v1/me')).organization.id;
});
afterAll(() => app.end());

const account = () => app.api<Account>('GET', `/v1/organizations/${organization}`);
const credit = (amount_cents: number) =>
  app.api('POST', `/v1/organizations/${organization}/credits`, { amount_cents, note: 'x' });
const perSecond = (cents: number) =>
  app.api('PUT', `/v1/organizations/${organization}/rates`, {
    rates: [
      {
        ...{ direction: 'inbound', prefix: '', rate_cents_per_minute: cents * 60 },
        ...{ initial_increment_s: 1, increment_s: 1 },
      },
    ],
  });
const call = (duration_ms: number) =>
  app.api<{ answered: boolean; duration_ms: number; sip_call_id: string }>('POST', '/v1/simulator/calls', {
    to: '+15550100',
    duration_ms,
  });
const record = async (sipCallId: string) => {
  const { data } = await app.api<{ data: { id: string; status: string }[] }>('GET', '/v1/calls?limit=1');
  const detail = await app.api<CallRecord & { sip_call_id: string; cost: number }>('GET', `/v1/calls/${data[0]?.id}`);
  expect(detail.sip_call_id).toBe(sipCallId);
  return detail;
};

describe('the balance of an organization', () => {
  it('is held for a call, extended by the clock while it runs, and settled at its end', async () => {
    await perSecond(1);
    await credit(6); // six seconds: the hold is extended five seconds before they are over
    const talking = call(2_200);
    await eventually(async () => (await account()).held_cents === 6, 'the hold');
    await credit(100);
    await eventually(async () => (await account()).held_cents === 66, 'a minute more');
    const { answered, sip_call_id } = await talking;
    expect(answered).toBe(true);
    await eventually(async () => (await account()).held_cents === 0, 'the settlement');
    const detail = await record(sip_call_id);
    expect([2, 3]).toContain(detail.cost);
    expect((await account()).balance_cents).toBe(106 - detail.cost);
    const settled = detail.events.find(({ event_type }) => event_type === 'call.cost_settled');
    expect(settled?.event_data.cost).toBe(detail.cost);
  });

  it('ends a call where it ends itself, and never goes below zero', async () => {
    const { balance_cents: before } = await account();
    await perSecond(before); // one second
    const { duration_ms, sip_call_id } = await call(10_000);
    expect(duration_ms).toBeGreaterThan(800);
    expect(duration_ms).toBeLessThan(3_000);
    await eventually(async () => (await account()).held_cents === 0, 'the settlement');
    const detail = await record(sip_call_id);
    expect(detail.hangup_cause).toBe('insufficient_balance');
    expect(detail.events.map(({ event_type }) => event_type)).toContain('balance.exhausted');
    expect([detail.cost, (await account()).balance_cents]).toEqual([before, 0]);
  });
});
