import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.js';
import type { Scope } from '../../src/store/tenants/scope.js';
import { FakeClock } from '../support/fake-clock.js';
import { onPostgres, openStore } from '../support/open-store.js';

/** What every call asks is remembered; nobody may ever be told what is no longer so. */

let dir: string;
let store: Store;
/** As another process has the file. */
let other: Store;
let scope: Scope;
let endpointId: string;
let numberId: string;

beforeEach(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-settings-rows-'));
  const file = path.join(dir, 'trunkline.db');
  const clock = new FakeClock(Date.UTC(2026, 0, 15, 12));
  store = await openStore({ file, clock });
  other = await openStore({ file, clock });
  scope = { organizationId: (await store.organizations.create({ name: 'A', tier: 'free' })).id, mode: 'live' };
  const agent = { name: 'a', type: 'agent', target: 'echo', provider: 'raw', providerConfig: {} } as const;
  endpointId = (await store.endpoints.create(scope, agent)).record.id;
  numberId = (await store.phoneNumbers.create(scope, { number: '+15550100', endpointId })).id;
  seen(); // remembered from here on
});

afterEach(async () => {
  await other.close();
  await store.close();
  rmSync(dir, { recursive: true });
});

const rate = {
  direction: 'inbound',
  prefix: '',
  microcentsPerMinute: 1,
  initialIncrementSec: 1,
  incrementSec: 1,
} as const;
const seen = () => ({
  endpointOfNumber: store.phoneNumbers.findDialled('+15550100', 'live')?.endpointId,
  unknown: store.phoneNumbers.findDialled('+15550199', 'live')?.number,
  target: store.endpoints.getForCall(endpointId)?.target,
  calls: store.organizations.get(scope.organizationId)?.limits.concurrent_calls,
  rate: store.accounts.rateFor(scope.organizationId, 'inbound', '+15550100')?.microcentsPerMinute,
});
const asBefore = () => ({
  endpointOfNumber: endpointId,
  unknown: undefined,
  target: 'echo',
  calls: null,
  rate: undefined,
});
const change = async (by: Store) => {
  await by.endpoints.update(scope, endpointId, { target: 'other' });
  await by.phoneNumbers.create(scope, { number: '+15550199' });
  await by.organizations.update(scope.organizationId, { limits: { concurrent_calls: 3 } });
  await by.accounts.setRates(scope.organizationId, [rate]);
};
const asChanged = () => ({ endpointOfNumber: endpointId, unknown: '+15550199', target: 'other', calls: 3, rate: 1 });

describe('what every call asks', () => {
  it.each(['this process', 'another process'])('is asked anew when %s has changed it', async (who) => {
    expect(seen()).toEqual(asBefore());
    await change(who === 'this process' ? store : other);
    // PostgreSQL notifies other processes a moment later
    if (onPostgres && who === 'another process') await expect.poll(seen, { timeout: 10_000 }).toEqual(asChanged());
    else expect(seen()).toEqual(asChanged());
  });

  it('is not remembered from a change that was undone', async () => {
    const undone = store.transaction(async (transaction) => {
      await store.phoneNumbers.create(scope, { number: '+15550199' }, transaction);
      expect(seen()).toEqual(asBefore()); // nobody outside the transaction sees it
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    expect(seen()).toEqual(asBefore());
  });

  it('knows what goes along with something deleted', async () => {
    await store.endpoints.delete(scope, endpointId);
    expect(seen()).toMatchObject({ endpointOfNumber: null, target: undefined });
    await store.phoneNumbers.delete(scope, numberId);
    expect(seen().endpointOfNumber).toBeUndefined();
  });

  it('a transaction within another takes part in it only when it is given the other one', async () => {
    let beside: Promise<unknown> | undefined;
    const numbers = store.phoneNumbers;
    const undone = store.transaction(async (outer) => {
      await store.transaction((inner) => numbers.create(scope, { number: '+15550197' }, inner), outer);
      // waits for its turn, so that this one cannot wait for it
      beside = store.transaction((own) => numbers.create(scope, { number: '+15550198' }, own));
      await numbers.create(scope, { number: '+15550199' }, outer);
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    await beside;
    const found = ['+15550197', '+15550198', '+15550199'].map((number) => numbers.findDialled(number, 'live')?.number);
    expect(found).toEqual([undefined, '+15550198', undefined]);
  });

  it('gives each caller an object of its own', () => {
    const found = store.phoneNumbers.findDialled('+15550100', 'live');
    found?.routes.push({ endpoint_id: 'x' } as never);
    expect(store.phoneNumbers.findDialled('+15550100', 'live')?.routes).toEqual([]);
  });
});
