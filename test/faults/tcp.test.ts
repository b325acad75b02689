/** TCP peers that do what no phone does: everything is bounded, timed out, and leaves nothing (S15). */
import { afterEach, expect, it } from 'vitest';
import { SipResponse } from '../../sip/server/message/message.js';
import { farSdp } from '../support/far-ends.js';
import { demo, faultScene } from '../support/fault-scene.js';
import { TcpPeer } from '../support/tcp-peer.js';

const peers: TcpPeer[] = [];
const scene = faultScene({
  // half a message may stand 60·T1: 1.8 s here
  timersMs: { t1: 30, t2: 240, t4: 300 },
  start: { sipLimits: { connections: 12, connectionsPerAddress: 8 } },
});

afterEach(async () => {
  for (const peer of peers.splice(0)) peer.socket.destroy();
  await expect.poll(tcpConnections, { timeout: 10_000 }).toBe(0);
});

async function connect(): Promise<TcpPeer> {
  const peer = await TcpPeer.connect(scene.port);
  peers.push(peer);
  return peer;
}
const tcpConnections = async () => (await scene.app.sip.serverStats()).live.tcpConnections;

it('an address that makes too many connections: the surplus is closed, the others serve', async () => {
  const made = await Promise.all(Array.from({ length: 20 }, connect));
  await expect.poll(() => made.filter((peer) => peer.socket.destroyed).length, { timeout: 10_000 }).toBe(12);
  const open = made.filter((peer) => !peer.socket.destroyed);
  expect(await tcpConnections()).toBe(8);
  for (const peer of open) peer.socket.write(peer.request('OPTIONS'));
  for (const peer of open) await peer.final('OPTIONS');
  // and when they are gone there is room again
  for (const peer of open) peer.socket.destroy();
  await expect.poll(tcpConnections, { timeout: 10_000 }).toBe(0);
  const next = await connect();
  next.socket.write(next.request('OPTIONS'));
  await next.final('OPTIONS');
});

it('connections that say nothing at all are closed, and so is half a message', async () => {
  const silent = await Promise.all(Array.from({ length: 4 }, connect));
  const half = await connect();
  half.socket.write(half.request('OPTIONS').slice(0, 60));
  const late = await connect();
  late.socket.write(`${late.request('OPTIONS')}${late.request('OPTIONS').slice(0, 60)}`);
  await late.final('OPTIONS');
  await Promise.all([...silent, half, late].map((peer) => peer.closed));
  await expect.poll(tcpConnections).toBe(0);
});

it('a slow sender that keeps dripping does not live longer for it', async () => {
  const slow = await connect();
  const text = `OPTIONS sip:a@b SIP/2.0\r\nX: ${'a'.repeat(5000)}`;
  let sent = 0;
  const drip = setInterval(() => slow.socket.destroyed || slow.socket.write(text[sent++ % text.length]!), 20);
  await slow.closed;
  clearInterval(drip);
  expect(sent, 'it was let drip for a while').toBeGreaterThan(10);
  expect(sent, 'and then cut off').toBeLessThan(400);
});

it('a reset in the middle of a message, of an answer, and of a call', async () => {
  const inMessage = await connect();
  inMessage.socket.write(inMessage.request('OPTIONS').slice(0, 80));
  inMessage.socket.resetAndDestroy();
  const inAnswer = await connect();
  for (let i = 0; i < 50; i++) inAnswer.socket.write(inAnswer.request('OPTIONS'));
  inAnswer.socket.resetAndDestroy();
  scene.records = 1;
  const inCall = await connect();
  inCall.socket.write(inCall.request('INVITE', {}, farSdp, `sip:${demo}@127.0.0.1`));
  await inCall.wait((m) => m instanceof SipResponse && m.status === 200 && m.cseq?.method === 'INVITE');
  inCall.socket.resetAndDestroy();
  // no ACK can come: BYE after 64·T1, which nobody can be given
  const ended = async () => (await scene.app.store.records.list(scene.scope, {}, { limit: 1, offset: 0 })).data[0];
  await expect.poll(ended, { timeout: 15_000 }).toMatchObject({ status: 'failed', hangupCause: 'no_ack' });
});

it('300 requests in one write: all are answered; one without Content-Length ends the connection', async () => {
  const peer = await connect();
  peer.socket.write(Array.from({ length: 300 }, () => peer.request('OPTIONS')).join(''));
  const answered = () => peer.received.filter((m) => m instanceof SipResponse && m.status === 200).length;
  await expect.poll(answered, { timeout: 15_000 }).toBe(300);
  peer.socket.write(peer.request('OPTIONS').replace('Content-Length', 'X-Length'));
  await peer.closed;
});

it('a peer that asks and never reads is cut off before it fills our memory', async () => {
  const deaf = await connect();
  deaf.socket.pause();
  const body = 'x'.repeat(200);
  const burst = Array.from({ length: 500 }, () => deaf.request('OPTIONS', { 'Call-Info': `<sip:${body}>` })).join('');
  const pump = () => {
    while (!deaf.socket.destroyed && deaf.socket.write(burst));
  };
  deaf.socket.on('drain', pump);
  pump();
  await expect.poll(tcpConnections, { timeout: 20_000 }).toBe(0);
});
