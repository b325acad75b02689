/** The Kamailio of `examples/kamailio/`, when the node that has an INVITE dies before its answer. The nodes are sockets that say what the test wants. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { SipRequest } from '../../sip/server/message/message.js';
import { type Balancer, startBalancer } from '../support/balancer.js';
import { type FarCall, FarEnds, farSdp } from '../support/far-ends.js';
import { freePort } from '../support/port-ranges.js';

interface Asked {
  node: FarEnds;
  call: FarCall;
  invite: SipRequest;
}

const nodes: FarEnds[] = [];
let folder: string;
let balancer: Balancer;
let carrier: FarEnds;
/** INVITEs that came to nodes, the first first. */
const asked: Asked[] = [];

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'trunkline-balancer-'));
  const port = await freePort();
  for (const _ of [1, 2]) {
    const node = await FarEnds.open(port);
    node.drops = (message) => {
      if (!(message instanceof SipRequest) || message.method !== 'OPTIONS') return false;
      node.respond(message, 200, 'alive');
      return true;
    };
    node.onInvite = (_call, invite) => node.respond(invite, 486, 'busy');
    nodes.push(node);
  }
  const ports = nodes.map((node) => node.port);
  balancer = await startBalancer(port, ports, folder);
  carrier = await FarEnds.open(port);
  await vi.waitFor(
    async () => expect((await carrier.call('+15550100').next(486, 'INVITE', 200)).startLine).toBeTruthy(),
    {
      timeout: 20_000,
      interval: 50,
    },
  );
  for (const node of nodes) node.onInvite = (call, invite) => void asked.push({ node, call, invite });
}, 60_000);
afterAll(async () => {
  await balancer?.close();
  for (const each of [carrier, ...nodes]) await each?.close();
  await rm(folder, { recursive: true, force: true });
});

const askedFor = ({ callId }: FarCall) => asked.filter(({ invite }) => invite.callId === callId);

async function nth(place: number, call: FarCall): Promise<Asked> {
  await vi.waitFor(() => expect(askedFor(call).length).toBeGreaterThan(place), { timeout: 15_000, interval: 20 });
  return askedFor(call)[place] as Asked;
}

const say = ({ node, invite }: Asked, code: number, tag: string) =>
  node.respond(invite, code, tag, code === 200 ? farSdp : '');

it.concurrent('a node that says 100 and nothing more is given up: the next one has the call, and is the only one', async ({
  expect,
}) => {
  const call = carrier.call('+15550100');
  const first = await nth(0, call);
  say(first, 100, '');
  const second = await nth(1, call);
  expect(second.node).not.toBe(first.node);
  say(second, 100, '');
  say(second, 180, 'second');
  say(second, 200, 'second');
  expect(await call.final()).toBe(200);
  expect(call.remoteTag).toBe('second');
  await first.call.next('CANCEL');
}, 40_000);

it.concurrent('a node dies while it rings, and another one refuses for it: the next one has the call', async ({
  expect,
}) => {
  const call = carrier.call('+15550100');
  const first = await nth(0, call);
  say(first, 100, '');
  say(first, 180, 'first');
  await call.next(180);
  const living = nodes.find((node) => node !== first.node) as FarEnds;
  living.respond(first.invite, 503, 'first');
  const second = await nth(1, call);
  expect(second.node).toBe(living);
  say(second, 200, 'second');
  expect(await call.final()).toBe(200);
}, 40_000);

it.concurrent('a call that rings for longer than a node may be silent stays where it is', async ({ expect }) => {
  const call = carrier.call('+15550100');
  const first = await nth(0, call);
  say(first, 100, '');
  say(first, 180, 'first');
  await sleep(8_000); // real time: longer than fr_inv_timer
  expect(askedFor(call)).toHaveLength(1);
  say(first, 200, 'first');
  expect(await call.final()).toBe(200);
}, 40_000);
