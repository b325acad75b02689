import { expect, it } from 'vitest';
import { OutboundRules } from '../../src/api/rules/outbound-rules.js';
import { CallRates } from '../../src/redis/call-rates.js';
import type { Store } from '../../src/store/store.js';
import type { Organization } from '../../src/store/tenants/organizations.js';

const soon = <T>(value: T) => new Promise<T>((resolve) => setImmediate(resolve, value));
const organization = {
  id: 'o',
  limits: { calls_per_second: 2, concurrent_calls: 100, daily_spend_cents: null, allowed_prefixes: null },
} as unknown as Organization;
/** Answers every question a turn of the loop later, so that all requests stand at the same step at once. */
const store = {
  endpoints: { get: () => soon({ id: 'e', status: 'active' }) },
  phoneNumbers: { findDialled: () => ({ id: 'n', organizationId: 'o' }) },
  funds: { check: () => soon({ ok: true }) },
  records: { running: () => soon(0) },
} as unknown as Store;

it('of requests that are examined at once no more pass than calls_per_second allows', async () => {
  const outbound = { refusal: () => null, start: () => undefined };
  const rules = new OutboundRules(store, outbound, new CallRates(null, () => 0));
  const asked = { toNumber: '+15550100', fromNumber: '+15550101', endpointId: 'e' };
  const requests = Array.from({ length: 10 }, () =>
    rules.allow({ organizationId: 'o', mode: 'live' }, organization, asked, {} as never),
  );
  const outcomes = await Promise.allSettled(requests);
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
  for (const outcome of outcomes)
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'CALLS_PER_SECOND_EXCEEDED' });
});
