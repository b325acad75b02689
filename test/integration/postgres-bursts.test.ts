/** Bursts on three nodes at once, of one PostgreSQL database: what an organization may have holds for all of them together, without Redis. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { OutboundCalls } from '../../src/call/core/outbound-request.js';
import type { Store } from '../../src/store/store.js';
import { type Answer, type TestApi, testApi } from '../support/api.js';
import { openStore } from '../support/open-store.js';

const own = '+12025550100';
const atOnce = 45;

let nodes: TestApi[];
const stores: Store[] = [];
let endpointId: string;
let organizationId: string;
let started: string[] = [];

beforeAll(async () => {
  const outboundCalls: OutboundCalls = { refusal: () => null, start: ({ begun }) => started.push(begun.id) };
  const one = await testApi({ outboundCalls });
  nodes = [one];
  for (const host of ['two', 'three']) {
    const store = await openStore({ file: one.file, clock: one.clock, process: { host } });
    stores.push(store);
    nodes.push(await testApi({ outboundCalls, store }));
  }
});
afterAll(async () => {
  for (const node of nodes.reverse()) await node.close();
  for (const store of stores) await store.close();
});

/** An organization of its own for each test, and each try. */
let key: string;
beforeEach(async () => {
  started = [];
  const { store, addKey } = nodes[0] as TestApi;
  organizationId = (await store.organizations.create({ name: 'Burst', tier: 'enterprise' })).id;
  key = await addKey({ organizationId, role: 'owner' });
  const agent = { name: 'E', target: 'wss://a.example', provider: 'custom', providerConfig: {} };
  const scope = { organizationId, mode: 'live' } as const;
  endpointId = (await store.endpoints.create(scope, { ...agent, type: 'agent' })).record.id;
  const [known] = await (nodes[0] as TestApi).rows(`select id from phone_numbers where number = '${own}'`);
  if (known) await (nodes[0] as TestApi).write(`delete from phone_numbers where number = '${own}'`);
  await store.phoneNumbers.create(scope, { number: own, endpointId });
  const limits = { requests_per_second: 100_000, requests_per_day: 1_000_000 };
  await store.organizations.update(organizationId, { limits });
  const perMinute = { microcentsPerMinute: 10e6, initialIncrementSec: 60, incrementSec: 60 };
  await store.accounts.setRates(organizationId, [{ direction: 'outbound', prefix: '', ...perMinute }]);
});

/** The same request at all nodes, in turns, at the same time. */
function burst(headers: (i: number) => Record<string, string> = () => ({})): Promise<Answer[]> {
  const body = { to_number: '+12025550123', from_number: own, endpoint_id: endpointId };
  const one = (i: number) =>
    (nodes[i % 3] as TestApi).request('POST', '/v1/outbound-calls', { key, body, headers: headers(i) });
  return Promise.all(Array.from({ length: atOnce }, (_, i) => one(i)));
}

/** Every node has seen the settings. */
async function settled(check: (organization: { limits: object }) => boolean): Promise<void> {
  for (const store of [(nodes[0] as TestApi).store, ...stores])
    await expect
      .poll(async () => {
        const organization = store.organizations.get(organizationId);
        return (
          organization !== undefined &&
          check(organization) &&
          store.phoneNumbers.findDialled(own, 'live')?.organizationId
        );
      })
      .toBe(organizationId);
}

const accepted = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 201);
const running = async () =>
  Number(
    (
      (
        await (nodes[0] as TestApi).rows(`select count(*) as n from calls where organization_id = '${organizationId}'`)
      )[0] as { n: unknown }
    ).n,
  );

describe('three nodes together', () => {
  it('hold no more than the balance', async () => {
    const { store } = nodes[0] as TestApi;
    await store.accounts.credit(organizationId, 165, ''); // of 10 cents each
    await settled(() => true);
    const answers = await burst();
    expect(accepted(answers)).toHaveLength(16);
    expect(new Set(answers.filter(({ status }) => status !== 201).map(({ body }) => body.code))).toEqual(
      new Set(['INSUFFICIENT_BALANCE']),
    );
    expect(await store.accounts.balance(organizationId)).toMatchObject({ heldMicrocents: 160e6 });
    expect(await running()).toBe(16);
  });

  it('have no more calls at once than the organization may have', async () => {
    await (nodes[0] as TestApi).store.organizations.update(organizationId, {
      limits: { requests_per_second: 100_000, requests_per_day: 1_000_000, concurrent_calls: 7 },
    });
    await settled(({ limits }) => 'concurrent_calls' in limits && limits.concurrent_calls === 7);
    expect(accepted(await burst())).toHaveLength(7);
    expect(await running()).toBe(7);
  });

  it('spend no more a day', async () => {
    const { store } = nodes[0] as TestApi;
    await store.accounts.credit(organizationId, 100_000, '');
    await store.organizations.update(organizationId, {
      limits: { requests_per_second: 100_000, requests_per_day: 1_000_000, daily_spend_cents: 45 },
    });
    await settled(({ limits }) => 'daily_spend_cents' in limits && limits.daily_spend_cents === 45);
    expect(accepted(await burst())).toHaveLength(4);
  });

  it('carry out a request with one Idempotency-Key once, whichever gets it', async () => {
    await settled(() => true);
    const same = `burst-${organizationId}`;
    const answers = await burst(() => ({ 'idempotency-key': same }));
    // beside the first one at a node, others are told that it is under way
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201, 409]));
    expect(new Set(accepted(answers).map(({ body }) => body.id)).size).toBe(1);
    expect(await running()).toBe(1);
    expect(started).toHaveLength(1);
  });
});
