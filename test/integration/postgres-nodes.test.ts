/** Several nodes on one PostgreSQL database: who is dead, who closes what, and what a node does that was thought dead. Real time, side by side. */
import { randomBytes } from 'node:crypto';
import { describe, expect, it, type TestContext } from 'vitest';
import type { NewCall } from '../../src/store/calls/calls.js';
import { Store, type StoreOptions } from '../../src/store/store.js';
import { databaseOf } from '../support/open-store.js';
import { PostgresRelay } from '../support/postgres-relay.js';
import { query } from '../support/postgres-server.js';

const limit = { timeout: 60_000 };
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 1 } as const;
const newCall: Omit<NewCall, 'organizationId'> = {
  ...{ mode: 'live', direction: 'inbound', fromNumber: 'anonymous', toNumber: '+15550100' },
  ...{ phoneNumberId: 'n', endpointId: null },
};

interface Node {
  store: Store;
  relay: PostgresRelay;
  lost: string[];
  closed: string[];
}

/** Nodes on machines of their own, each with its own way to one database. */
async function installation({ onTestFinished }: TestContext) {
  const url = await databaseOf(randomBytes(8).toString('hex'));
  let made = 0;
  return {
    url,
    async node(options: Partial<StoreOptions> = {}): Promise<Node> {
      const relay = await PostgresRelay.to(Number(new URL(url).port));
      onTestFinished(() => relay.close());
      made += 1;
      const node: Omit<Node, 'store'> = { relay, lost: [], closed: [] };
      const store = await Store.open({
        url: relay.url(url),
        poolSize: 3,
        process: { host: `machine-${made}` },
        onLost: (ids) => node.lost.push(...ids),
        onOrphans: (calls) => node.closed.push(...calls.map(({ id }) => id)),
        ...options,
      });
      onTestFinished(async () => {
        relay.comeBack();
        await store.close();
      });
      return { ...node, store };
    },
  };
}

async function organizationOf({ store }: Node): Promise<string> {
  return (await store.organizations.create({ name: 'A', tier: 'free' })).id;
}

async function begin({ store }: Node, organizationId: string): Promise<string> {
  const id = store.calls.begin({ organizationId, ...newCall });
  expect(await store.calls.flush()).toBe(true);
  return id;
}

describe.concurrent('nodes', { timeout: 180_000 }, () => {
  it('a silent one is dead: another closes its calls; when it is back, it writes nothing of them and hangs them up', async (context) => {
    const { expect } = context;
    const { url, node } = await installation(context);
    const [silent, living] = [await node(), await node()];
    const organizationId = await organizationOf(silent);
    await silent.store.accounts.credit(organizationId, 1_000, '');
    const rate = { microcentsPerMinute: 60_000_000, initialIncrementSec: 1, incrementSec: 1 };
    const asked = silent.store.calls.beginAdmitted({ organizationId, ...newCall }, { concurrentCalls: null, rate });
    expect(await asked.admission).toMatchObject({ kind: 'admitted' });
    const lost = asked.id;
    const own = await begin(living, organizationId);
    silent.relay.goAway();
    const silentSinceMs = Date.now();
    // begun while it is cut off: no other node has ever seen it, so nobody has closed it
    const unseen = silent.store.calls.begin({ organizationId, ...newCall });
    await expect.poll(() => living.closed, limit).toEqual([lost]);
    expect(silent.lost).toEqual([]);
    expect((await living.store.accounts.balance(organizationId)).heldMicrocents).toBe(0);

    silent.store.calls.event(lost, 'dtmf.received', { digit: '1' });
    silent.store.calls.event(lost, 'recording.completed', { duration_ms: 1, bytes: 2 }); // may follow the end
    silent.relay.comeBack();
    await expect.poll(() => silent.lost, limit).toEqual([lost]);
    expect(silent.store.calls.finish(lost, end)).toBe(false);
    silent.store.calls.event(unseen, 'call.ringing');
    silent.store.calls.finish(unseen, end);
    await expect.poll(() => silent.store.calls.unwritten, limit).toBe(0);

    const scope = { organizationId, mode: 'live' } as const;
    const record = await living.store.records.detail(scope, lost);
    expect(record).toMatchObject({ status: 'failed', hangupCause: 'system_restart', hangupSource: 'system' });
    expect(record?.events.map(({ type }) => type)).toEqual([
      ...['call.initiated', 'call.failed', 'call.cost_settled', 'recording.completed'],
    ]);
    expect(Math.abs((record?.completedAt?.getTime() ?? 0) - silentSinceMs)).toBeLessThan(5_000);
    expect(await living.store.records.detail(scope, unseen)).toMatchObject({
      status: 'completed',
      events: [{ type: 'call.initiated' }, { type: 'call.ringing' }, { type: 'call.completed' }],
    });
    expect((await living.store.records.get(scope, own))?.status).toBe('in_progress');
    // and it is a node like any other again
    const next = await begin(silent, organizationId);
    silent.store.calls.finish(next, end);
    await expect.poll(() => silent.store.calls.unwritten, limit).toBe(0);
    expect((await living.store.records.get(scope, next))?.status).toBe('completed');
    expect(await query(url, 'select count(*)::int as n from instances')).toEqual([{ n: 2 }]);
    for (const { store } of [silent, living]) expect(await store.writable()).toBe(true);
  });

  it('after an outage of the database for all of them, nobody is called dead', async (context) => {
    const { expect } = context;
    const { node } = await installation(context);
    const nodes = [await node(), await node(), await node()];
    const organizationId = await organizationOf(nodes[0]!);
    await expect.poll(() => nodes.every(({ store }) => store.lease.mayJudge), limit).toBe(true);
    const ids = [];
    for (const each of nodes) ids.push(await begin(each, organizationId));
    for (const { relay } of nodes) relay.goAway();
    await expect.poll(() => nodes.every(({ store }) => !store.lease.renewedWithin(10_000)), limit).toBe(true); // longer than a lease
    expect(nodes.some(({ store }) => store.lease.mayAct)).toBe(false);
    for (const { relay } of nodes) relay.comeBack();
    const late = await node(); // its start judges nobody either
    await expect.poll(() => [...nodes, late].every(({ store }) => store.lease.mayJudge), limit).toBe(true);
    const scope = { organizationId, mode: 'live' } as const;
    expect((await late.store.records.stats(scope, {})).in_progress).toBe(ids.length);
    for (const { lost, closed } of [...nodes, late]) expect([...lost, ...closed]).toEqual([]);
  });

  it('of the same name: a second one does not start beside a living one, and takes the place of a dead one', async (context) => {
    const { expect } = context;
    const { node } = await installation(context);
    const first = await node({ nodeName: 'eu-1' });
    const organizationId = await organizationOf(first);
    const id = await begin(first, organizationId);
    await expect(node({ nodeName: 'eu-1' })).rejects.toMatchObject({
      ...{ code: 'name_taken', message: expect.stringMatching(/machine-1.*"eu-1".*TRUNKLINE_NODE_NAME/) },
    });
    first.relay.goAway();
    const second = await node({ nodeName: 'eu-1' });
    expect(second.closed).toEqual([id]);
    first.relay.comeBack();
    await expect.poll(() => first.store.problem, limit).toContain('runs under the node name "eu-1"');
    await second.store.close();
    await expect.poll(() => first.lost, limit).toEqual([id]); // the name is free again
    expect(first.store.problem).toBeNull();
  });

  it('what a command says, such as keys, leaves the database when it is taken, or is forgotten', async (context) => {
    const { expect } = context;
    const { url, node } = await installation(context);
    const [first, second] = [await node(), await node()];
    const id = await begin(first, await organizationOf(first));
    const kept = () => query(url, 'select command, created_at from node_commands');
    let whileItRuns: unknown;
    first.store.nodeCommands?.serve(async (callId, command) => {
      whileItRuns = await kept();
      return `${callId} ${command}`;
    });
    expect(await second.store.nodeCommands?.send(id, 'keys 1234')).toEqual({
      ...{ kind: 'answered', answer: `${id} keys 1234` },
    });
    expect(whileItRuns).toMatchObject([{ command: '' }]);
    await expect.poll(kept, limit).toEqual([]);
    // of a node that died before it could withdraw it, to one that died before it could take it
    await query(
      url,
      `insert into node_commands (id, instance_id, call_id, command, created_at)
       values ('left', 'dead', '${id}', 'keys 5678', extract(epoch from now()) * 1000)`,
    );
    await expect.poll(kept, limit).toEqual([]);
  });

  it('one has each role; it passes on when its holder dies, leaves, or gives it away', async (context) => {
    const { expect } = context;
    const { node } = await installation(context);
    const [first, second] = [await node(), await node()];
    const has = (role: 'registrations' | 'retention') => [first, second].map(({ store }) => store.roles.has(role));
    expect(has('retention')).toEqual([true, false]);
    expect(has('registrations')).toEqual([true, false]);
    await first.store.roles.release('registrations');
    await expect.poll(() => has('registrations'), limit).toEqual([false, true]);
    expect(has('retention')).toEqual([true, false]);
    first.relay.goAway();
    await expect.poll(() => has('retention'), limit).toEqual([false, true]);
    first.relay.comeBack();
    await second.store.close();
    await expect.poll(() => first.store.roles.has('retention'), limit).toBe(true);
  });
});
