/** A rolling restart, a machine that stands still, and two minutes of everything at once. `npm run test:nodes`: takes minutes of real time; needs postgresql, redis-server and kamailio. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { CallRow } from '../../src/store/database/tables.js';
import { type FarCall, FarEnds } from '../support/far-ends.js';
import { expectInvariants } from '../support/invariants.js';
import { query } from '../support/postgres-server.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { toneCaller, tonesHz } from '../support/tone-caller.js';
import { at as appAt, Bystanders } from './bystanders.js';
import { Installation, type Node } from './installation.js';
import { OtherOrganization } from './other-organization.js';
import { recordsFile } from './records-file.js';

const limit = { timeout: 90_000, interval: 250 };
const demo = '+15550100';
const steered = '+12025559000';
/** Of the chaos. */
const lastsMs = Number(process.env.NODES_SECONDS ?? 120) * 1000;
const callEveryMs = 1000 / Number(process.env.NODES_CALLS_PER_SECOND ?? 2);
/** What calls write is committed 20 ms later; here other programs have the cores as well. */
const commitWithinMs = 500;
const farEndTimers = { limitMs: 60_000 };

let installation: Installation;
let ends: FarEnds;
/** Tells the steered calls what to do. */
let webhook: Receiver;
/** Takes their events. */
let receiver: Receiver;
/** Everything that waits for a call to be over. */
let talks: Promise<void>[] = [];

beforeAll(async () => {
  installation = await Installation.start();
  ends = await FarEnds.open(installation.kamailioPort);
  const hangUp = [{ action: 'pause', seconds: 4 }, { action: 'hangup' }];
  webhook = await startReceiver((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ actions: [{ action: 'answer' }, ...hangUp] }));
  });
  receiver = await startReceiver();
  await prepare();
  await vi.waitFor(async () => expect((await talk(demo, 100)).finalStatus).toBe(200), limit);
}, 240_000);

afterAll(async () => {
  await ends?.close();
  await webhook?.close();
  await receiver?.close();
  await installation?.stop();
}, 60_000);

const node = (index: number): Node => installation.nodes[index] as Node;
const anyNode = (): Node => node(Math.floor(Math.random() * 3));

/** Money, rates, and a number of a webhook that takes events. */
async function prepare(): Promise<void> {
  const done = async (method: string, route: string, body?: unknown) => {
    const answered = await installation.api(node(0), method, route, body);
    expect([route, answered.status < 300, answered.body]).toEqual([route, true, answered.body]);
    return answered.body;
  };
  const { organization } = (await done('GET', '/v1/me')) as { organization: { id: string } };
  const rate = { prefix: '', rate_cents_per_minute: 6, initial_increment_s: 1, increment_s: 1 };
  const rates = ['inbound', 'outbound'].map((direction) => ({ ...rate, direction }));
  await done('PUT', `/v1/organizations/${organization.id}/rates`, { rates });
  await done('POST', `/v1/organizations/${organization.id}/credits`, { amount_cents: 1_000_000, note: 'x' });
  const endpoint = await done('POST', '/v1/endpoints', {
    ...{ name: 'steered', type: 'webhook', target: `${webhook.url}/start` },
    provider_config: { format: 'json', events_url: `${receiver.url}/events` },
  });
  await done('POST', '/v1/phone-numbers', { number: steered, endpoint_id: endpoint.id });
}

/** One call through Kamailio, which its caller ends after `ms`, unless somebody else did. */
async function talk(number: string, ms: number): Promise<FarCall> {
  const far = ends.call(number);
  const status = await far.final(farEndTimers.limitMs);
  if (status >= 300) return far;
  await Promise.race([sleep(ms), far.ended(farEndTimers.limitMs).catch(() => {})]);
  if (far.endedAtMs === null) await far.bye(farEndTimers.limitMs).catch(() => {});
  return far;
}

/** Calls at an even pace until `isOver`. */
async function carry(isOver: () => boolean, one: () => Promise<unknown>): Promise<void> {
  talks = [];
  while (!isOver()) {
    talks.push(one().then(() => {}));
    await sleep(callEveryMs); // real time: the pace of the calls
  }
  await Promise.all(talks);
}

const quiet = () => expect.poll(() => installation.counted("calls where status = 'in_progress'"), limit).toBe(0);
const farCalls = (sinceMs: number) => [...ends.calls.values()].filter(({ startedAtMs }) => startedAtMs >= sinceMs);

function summary(calls: readonly FarCall[]): string {
  const counts = new Map<string, number>();
  for (const { finalStatus } of calls) counts.set(String(finalStatus), (counts.get(String(finalStatus)) ?? 0) + 1);
  return [...counts].map(([status, count]) => `${count} × ${status}`).join(', ');
}

it('a rolling restart of three nodes under calls drops none and refuses none, as the carrier sees it', async () => {
  const sinceMs = performance.now();
  const startedAtMs = Date.now();
  let isOver = false;
  const calls = carry(
    () => isOver,
    () => talk(demo, 5_000),
  );
  await sleep(3_000); // real time: each restart meets running calls
  for (const each of installation.nodes) {
    each.child.kill('SIGTERM');
    expect(await each.exited).toEqual([0, null]);
    await installation.again(each);
    await expect.poll(() => installation.allReady(), limit).toBe(true);
  }
  isOver = true;
  await calls;
  await quiet();
  const made = farCalls(sinceMs);
  console.log(`rolling restart: ${made.length} calls: ${summary(made)}`);
  expect(made.filter(({ finalStatus, endedBy }) => finalStatus !== 200 || endedBy !== 'us')).toEqual([]);
  expect(await installation.counted(`calls where created_at >= ${startedAtMs} and status <> 'completed'`)).toBe(0);
}, 400_000);

it('when the machine stands still for a moment, calls that come meanwhile are late, not refused', async () => {
  const sinceMs = performance.now();
  for (let round = 0; round < 3; round++) {
    const still = installation.standStill(1_600);
    const calls = Array.from({ length: 10 }, () => sleep(Math.random() * 1_500).then(() => talk(demo, 500)));
    await still;
    await Promise.all(calls);
  }
  const made = farCalls(sinceMs);
  console.log(`stood still: ${made.length} calls: ${summary(made)}`);
  expect(made.filter(({ finalStatus }) => finalStatus !== 200)).toEqual([]);
  await quiet();
}, 120_000);

it('a caller who hears ringing when the node is killed is answered by another one', async () => {
  let questions = 0;
  const slow = await startReceiver((_request, response) => {
    if (questions++ === 0) return; // the call rings
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ actions: [{ action: 'answer' }, { action: 'pause', seconds: 60 }] }));
  });
  const number = '+12025559002';
  try {
    const endpoint = {
      name: 'slow',
      type: 'webhook',
      target: `${slow.url}/start`,
      provider_config: { format: 'json' },
    };
    const { body } = await installation.api(node(0), 'POST', '/v1/endpoints', endpoint);
    await installation.api(node(0), 'POST', '/v1/phone-numbers', { number, endpoint_id: body.id });
    await sleep(1_500); // real time: every node knows a new number within a second
    const far = ends.call(number);
    await far.next(180);
    await expect.poll(() => questions, limit).toBe(1);
    const [owner] = await query(
      installation.databaseUrl,
      `select name from instances join calls on calls.instance_id = instances.id where sip_call_id = '${far.callId}'`,
    );
    const killed = installation.nodes.find(({ name }) => name === owner?.name) as Node;
    const killedAtMs = performance.now();
    killed.child.kill('SIGKILL');
    expect(await far.final(farEndTimers.limitMs)).toBe(200);
    console.log(
      `a caller who heard ringing was answered ${((performance.now() - killedAtMs) / 1000).toFixed(1)} s after the kill`,
    );
    await far.bye();
    await killed.exited;
    await installation.again(killed);
    await expect.poll(() => installation.allReady(), limit).toBe(true);
    await quiet();
  } finally {
    await slow.close();
  }
}, 180_000);

it('a conference comes together again at another node when its own is killed', async () => {
  const meeting = '+12025559001';
  const join = await startReceiver((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ actions: [{ action: 'conference', name: 'Meeting', beep: 'none' }] }));
  });
  const callers: Awaited<ReturnType<typeof toneCaller>>[] = [];
  try {
    const target = `${join.url}/start`;
    const endpoint = { name: 'meeting', type: 'webhook', target, provider_config: { format: 'json' } };
    const { body } = await installation.api(node(0), 'POST', '/v1/endpoints', endpoint);
    await installation.api(node(0), 'POST', '/v1/phone-numbers', { number: meeting, endpoint_id: body.id });
    await sleep(1_500); // real time: every node knows a new number within a second
    const call = async (index: number, hz: number) => {
      const made = await toneCaller(appAt(node(index)), meeting, hz);
      callers.push(made);
      return made;
    };
    const [a, b, c] = [await call(0, tonesHz[0]), await call(1, tonesHz[1]), await call(2, tonesHz[2])];
    await Promise.all([
      a.untilHears([0, 1, 1], 'the others at a'),
      b.untilHears([1, 0, 1], 'the others at b'),
      c.untilHears([1, 1, 0], 'the others at c'),
    ]);
    const killedAtMs = performance.now();
    node(0).child.kill('SIGKILL');
    const silent = b.phone.rtp.until(() => b.level(tonesHz[2]) < 0.1, 'silence of c at b', 10_000);
    await silent;
    const silentMs = performance.now() - killedAtMs;
    await b.phone.rtp.until(() => b.level(tonesHz[2]) > 0.9, 'c at b again', 30_000);
    await c.phone.rtp.until(() => c.level(tonesHz[1]) > 0.9, 'b at c again', 30_000);
    const togetherMs = performance.now() - killedAtMs;
    console.log(
      `conference whose node was killed: apart after ${(silentMs / 1000).toFixed(1)} s, together again after ${(togetherMs / 1000).toFixed(1)} s`,
    );
    expect(await installation.counted('conferences')).toBe(1);
    await Promise.all([b.leave(), c.leave()]);
    await quiet();
    await expect.poll(() => installation.counted('conferences'), limit).toBe(0);
  } finally {
    for (const each of callers.slice(1)) await each.close();
    await callers[0]?.vanish();
    await join.close();
    await node(0).exited;
    await installation.again(node(0));
    await expect.poll(() => installation.allReady(), limit).toBe(true);
  }
}, 180_000);

it('chaos: kill, stop, restarts and a cut, with calls and the API; then the nine promises', async () => {
  const sinceMs = performance.now();
  const startedAtMs = Date.now();
  const at = (share: number) => sleep(Math.max(0, sinceMs + lastsMs * share - performance.now())); // real time: the order of the faults
  const isOver = () => performance.now() > sinceMs + lastsMs;
  const answers = new Map<number, number>();
  const commandsMs: number[] = [];
  const load = async () => {
    while (!isOver()) {
      const { status } = await installation.api(anyNode(), 'GET', '/v1/calls?limit=5');
      answers.set(status, (answers.get(status) ?? 0) + 1);
      await sleep(100);
    }
  };
  /** A call that ends by the API, through any node. */
  const ended = async () => {
    const far = ends.call(demo);
    if ((await far.final(farEndTimers.limitMs)) >= 300) return;
    await sleep(1_000 + Math.random() * 3_000);
    const [row] = await query(
      installation.databaseUrl,
      `select id from calls where sip_call_id = '${far.callId}'`,
    ).catch(() => []);
    const startedMs = performance.now();
    const { status } = await installation.api(anyNode(), 'POST', `/v1/calls/${row?.id}/hangup`);
    if (status === 200) commandsMs.push(performance.now() - startedMs);
    await far.ended(15_000).catch(() => far.bye(farEndTimers.limitMs).catch(() => {}));
  };
  const one = () => {
    const kind = Math.random();
    if (kind < 0.3) return ended();
    return talk(kind < 0.6 ? steered : demo, kind < 0.6 ? 20_000 : 1_000 + Math.random() * 7_000);
  };
  const other = await OtherOrganization.open(installation);
  const bystanders = new Bystanders(demo);
  const disturbed: string[] = [];
  const beside = async (what: string, nodes: number[], fault: () => Promise<unknown>) =>
    disturbed.push(...(await bystanders.during(what, nodes.map(node), fault)));
  /** When a node was lost: what it wrote a moment before may not have been committed, and nothing that it wrote during it was. */
  const lostFromTo: [fromMs: number, toMs: number][] = [];
  const lost = async (fault: () => Promise<unknown>) => {
    const fromMs = performance.now() - commitWithinMs;
    await fault();
    lostFromTo.push([fromMs, performance.now()]);
  };
  const calls = carry(isOver, one);
  const asked = load();

  await at(0.1);
  await beside('another node is killed', [1, 2], async () => {
    await lost(async () => {
      node(0).child.kill('SIGKILL');
      await node(0).exited;
    });
    await at(0.2);
  });
  await installation.again(node(0));
  await at(0.3);
  await bystanders.forget(node(1));
  await lost(async () => {
    await beside('another node stands still', [0, 2], async () => {
      node(1).child.kill('SIGSTOP');
      await sleep(15_000); // real time: longer than a lease
      node(1).child.kill('SIGCONT');
    });
    await expect.poll(() => installation.allReady(), limit).toBe(true); // it knows that it lost its calls
  });
  await at(0.55);
  await beside('PostgreSQL is restarted', [0, 1, 2], () => installation.postgres.restart());
  await at(0.65);
  await beside('Redis is restarted', [0, 1, 2], () => installation.restartRedis());
  await at(0.75);
  await lost(async () => {
    await beside('a node is cut off from PostgreSQL', [0, 1, 2], async () => {
      node(2).relay.goAway();
      await sleep(12_000); // real time: longer than a lease
    });
    await bystanders.forget(node(2)); // others have closed its calls, and it hangs them up
    node(2).relay.comeBack();
    await expect.poll(() => installation.allReady(), limit).toBe(true);
  });
  await Promise.all([calls, asked]);
  await bystanders.close();

  await quiet();
  await expect.poll(() => installation.allReady(), limit).toBe(true);
  await expect.poll(() => installation.counted("webhook_deliveries where status = 'pending'"), limit).toBe(0);
  await expect.poll(() => installation.counted('waiting_events'), limit).toBe(0);
  for (const each of installation.nodes)
    for (const name of ['calls_live', 'sip_legs', 'media_sessions'])
      await expect.poll(() => metric(each, `trunkline_${name}`), limit).toBe(0); // I5
  const made = farCalls(sinceMs);
  const records = await installation.counted(`calls where created_at >= ${startedAtMs}`);
  const failed = await installation.counted(`calls where created_at >= ${startedAtMs} and status <> 'completed'`);
  commandsMs.sort((a, b) => a - b);
  const share = (p: number) =>
    commandsMs[Math.min(commandsMs.length - 1, Math.floor(p * commandsMs.length))]?.toFixed(0);
  console.log(
    `chaos of ${lastsMs / 1000} s: ${made.length} calls: ${summary(made)}; ${records} records, ${failed} not completed; API: ${[...answers].map(([status, count]) => `${count} × ${status}`).join(', ')}; ${commandsMs.length} hang-ups, p50 ${share(0.5)} ms, p99 ${share(0.99)} ms`,
  );
  const folder = await mkdtemp(path.join(tmpdir(), 'trunkline-records-'));
  try {
    const file = path.join(folder, 'records.db');
    const { unanswered, answeredTwice } = await recordsFile(installation.databaseUrl, file);
    console.log(`attempts at another node first: ${unanswered} refused or silent`);
    expect(answeredTwice).toBe(0);
    const some = await query(
      installation.databaseUrl,
      `select id from calls where created_at >= ${startedAtMs} and sip_call_id is not null order by id desc limit 5`,
    );
    const seen = await other.problems(some.map(({ id }) => String(id)));
    expect([...disturbed, ...seen]).toEqual([]); // I6, I8
    // the 200 goes out before it is written: nobody waits for a disk to be answered
    const answerMayBeLost = ({ hangup_cause }: CallRow, { confirmedAtMs }: FarCall) =>
      hangup_cause === 'system_restart' &&
      lostFromTo.some(([fromMs, toMs]) => fromMs < (confirmedAtMs ?? 0) && (confirmedAtMs ?? 0) < toMs);
    await expectInvariants({
      answerMayBeLost,
      ...{ file, sinceMs: startedAtMs, farEnds: made, receiver, limits: { limitMs: 0 } },
      hasRecord: ({ finalStatus }) => ((finalStatus ?? 0) < 300 ? true : null),
      // the far end hears of a dead node's calls when its lease is over; the record says when it was last heard of
      durationSlackSec: ({ hangup_cause }: CallRow) => (hangup_cause === 'system_restart' ? 16 : 1),
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 600_000);

async function metric({ url }: Node, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}
