/** TCP peers that do what no phone does: everything is bounded, timed out, and leaves nothing (S15). */
import type Srf from 'drachtio-srf';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { SipResponse } from '../../sip/server/message.js';
import { openTestServer, SDP, type TestServer } from '../support/sip-server.js';
import { TcpPeer } from '../support/tcp-peer.js';

let t: TestServer;
const peers: TcpPeer[] = [];

beforeEach(async () => {
  t = await openTestServer({
    // half a message may stand 60·T1: 1.2 s here
    timersMs: { t1: 20, t2: 160, t4: 200 },
    limits: { connections: 12, connectionsPerAddress: 8, waitMs: 30_000, foreseenWaitMs: 30_000, lagMs: 30_000 },
  });
  t.srf.use('options', (_req: Srf.SrfRequest, res: Srf.SrfResponse) => {
    res.send(200);
  });
  // the application's wish for OPTIONS has reached the server once one is answered
  const first = await connect();
  const answered = () => first.received.some((m) => m instanceof SipResponse && m.status === 200);
  await expect
    .poll(
      () => {
        if (!answered()) first.socket.write(first.request('OPTIONS'));
        return answered();
      },
      { timeout: 10_000 },
    )
    .toBe(true);
  first.socket.destroy();
  await expect.poll(tcpConnections, { timeout: 10_000 }).toBe(0);
});
afterEach(async () => {
  for (const peer of peers.splice(0)) peer.socket.destroy();
  await expect.poll(tcpConnections, { timeout: 10_000 }).toBe(0);
  await t.idle();
  await t.close();
});

async function connect(): Promise<TcpPeer> {
  const peer = await TcpPeer.connect(t.port);
  peers.push(peer);
  return peer;
}
const tcpConnections = async () => (await t.server.stats()).live.tcpConnections;

it('an address that makes too many connections: the surplus is closed, the others serve', async () => {
  const made = await Promise.all(Array.from({ length: 20 }, connect));
  await expect.poll(() => made.filter((peer) => peer.socket.destroyed).length).toBe(12);
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
  expect(await tcpConnections()).toBe(0);
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
  const ended = new Promise<void>((resolve) => {
    t.srf.invite((req, res) => {
      void t.srf.createUAS(req, res, { localSdp: SDP }).then(
        (dialog) => dialog.on('destroy', () => resolve()),
        () => resolve(),
      );
    });
  });
  const inCall = await connect();
  inCall.socket.write(inCall.request('INVITE', {}, SDP));
  await inCall.wait((m) => m instanceof SipResponse && m.status === 200);
  inCall.socket.resetAndDestroy();
  await ended; // no ACK can come: BYE after 64·T1
  await expect.poll(async () => (await t.server.stats()).live.dialogs).toBe(0);
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
