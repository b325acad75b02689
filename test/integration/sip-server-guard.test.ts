/** Overload and scanners on the wire: cheap refusals, silence, and calls that live on. */
import { setTimeout as sleep } from 'node:timers/promises';
import type Srf from 'drachtio-srf';
import { afterEach, describe, expect, it } from 'vitest';
import { type SipMessage, SipRequest, SipResponse } from '../../sip/server/message/message.js';
import { SipPeer } from '../support/sip-peer.js';
import { ask, openTestServer, SDP, type TestServer } from '../support/sip-server.js';

let t: TestServer;
let peer: SipPeer;

afterEach(async () => {
  await peer.close();
  await t.idle();
  await t.close();
});

async function open(options: Parameters<typeof openTestServer>[0]): Promise<void> {
  t = await openTestServer(options);
  peer = await SipPeer.open(t.port);
}
const finals = (m: SipMessage) => m instanceof SipResponse && m.status >= 200;
/** Answers every INVITE after `delayMs`. */
function answerAfter(delayMs: number): void {
  t.srf.invite(async (req, res) => {
    await sleep(delayMs);
    await t.srf.createUAS(req, res, { localSdp: SDP }).catch(() => undefined);
  });
}
function acknowledgeAll(): void {
  peer.onMessage = (m) => {
    if (!(m instanceof SipResponse) || m.cseq?.method !== 'INVITE' || m.status < 200) return;
    const lines = { From: m.get('from')!, To: m.get('to')!, 'Call-ID': m.callId, CSeq: `${m.cseq.number} ACK` };
    peer.send(peer.request('ACK', m.status < 300 ? lines : { ...lines, Via: m.list('via')[0]! }));
  };
}
async function hangUpAll(): Promise<void> {
  for (const m of peer.received.filter(
    (r) => finals(r) && (r as SipResponse).status === 200 && r.cseq?.method === 'INVITE',
  )) {
    const lines = { From: m.get('from')!, To: m.get('to')!, 'Call-ID': m.callId, CSeq: '9 BYE' };
    peer.send(peer.request('BYE', lines));
    await peer.wait((r) => r instanceof SipResponse && r.callId === m.callId && r.cseq?.method === 'BYE');
  }
}

describe('overload', () => {
  it('an application that says nothing in time: 503 with Retry-After at once, and the calls that live are not touched', async () => {
    await open({ limits: { waitMs: 40 } });
    const silent: Srf.SrfResponse[] = [];
    let isSilent = false;
    let heard = () => {};
    t.srf.invite((req, res) => {
      if (!isSilent) void t.srf.createUAS(req, res, { localSdp: SDP });
      else {
        silent.push(res);
        heard();
      }
    });
    acknowledgeAll();
    peer.send(peer.request('INVITE', { 'Call-ID': 'early' }, SDP));
    const early = await peer.response(200, 'INVITE');
    isSilent = true;
    const all = new Promise<void>((resolve) => {
      heard = () => silent.length === 5 && resolve();
    });
    for (let i = 0; i < 5; i++) peer.send(peer.request('INVITE', { 'Call-ID': `slow-${i}` }, SDP));
    await all;
    await sleep(60); // longer than `waitMs`
    peer.send(peer.request('INVITE', { 'Call-ID': 'late' }, SDP));
    const refused = (await peer.wait((m) => finals(m) && m.callId === 'late')) as SipResponse;
    expect(refused.status).toBe(503);
    expect(Number(refused.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(silent).toHaveLength(5);
    expect((await t.server.stats()).shed.overload).toBe(1);
    // what belongs to the call that lives passes, and once the others have their answer calls come in again
    peer.send(
      peer.request('BYE', { From: early.get('from')!, To: early.get('to')!, 'Call-ID': 'early', CSeq: '5 BYE' }),
    );
    expect((await peer.response(200, 'BYE')).status).toBe(200);
    for (const res of silent) res.send(486);
    await peer.wait(() => peer.count((m) => m instanceof SipResponse && m.status === 486) >= 5);
    peer.send(peer.request('INVITE', { 'Call-ID': 'after' }, SDP));
    await expect.poll(() => silent.length).toBe(6);
    silent[5]?.send(486);
    await peer.wait((m) => m instanceof SipResponse && m.status === 486 && m.callId === 'after');
  });

  it('above the rate: exactly the surplus is refused', async () => {
    await open({ limits: { invitesPerSec: 5 } });
    answerAfter(0);
    acknowledgeAll();
    for (let i = 0; i < 20; i++) peer.send(peer.request('INVITE', { 'Call-ID': `r-${i}` }, SDP));
    const answers = () =>
      new Map(
        peer.received.filter((m) => finals(m) && m.cseq?.method === 'INVITE').map((m) => [m.callId, m as SipResponse]),
      );
    await expect.poll(() => answers().size).toBe(20);
    const refused = [...answers().values()].filter((answer) => answer.status === 503);
    expect(refused.length).toBeGreaterThanOrEqual(13);
    expect((await t.server.stats()).shed.overload).toBeGreaterThanOrEqual(refused.length);
    await hangUpAll();
  });
});

describe('scanners', () => {
  it('are refused some times, then hear nothing, and the application neither', async () => {
    await open({ trusted: [], limits: { offences: 5, strangerPerSec: 1000 } });
    let seen = 0;
    t.srf.use('register', (_req, res) => {
      seen++;
      res.send(403);
    });
    for (let i = 0; i < 6; i++) {
      peer.send(peer.request('REGISTER', { 'Call-ID': `scan-${i}` }));
      await peer.wait((m) => m.callId === `scan-${i}`);
    }
    for (let i = 0; i < 200; i++) peer.send(peer.request('REGISTER', { 'Call-ID': `mute-${i}` }));
    await expect.poll(async () => (await t.server.stats()).shed.silenced).toBe(200);
    expect(peer.count((m) => m.callId.startsWith('mute'))).toBe(0);
    expect(seen).toBe(6);
    // what it sends as an answer is still read: a call of ours may have gone there
    expect((await t.server.stats()).shed).toMatchObject({ offenders: 1, rateLimited: 0 });
  });

  it('a flood of one stranger is cut to its rate, and a known carrier calls on', async () => {
    await open({ trusted: [], limits: { strangerPerSec: 20, offences: 1e6 } });
    t.srf.use('options', (_req, res) => {
      res.send(200);
    });
    for (let i = 0; i < 500; i++) peer.send(peer.request('OPTIONS', { 'Call-ID': `flood-${i}` }));
    await expect.poll(async () => (await t.server.stats()).shed.rateLimited).toBeGreaterThan(400);
    t.server.trust(['127.0.0.0/8']);
    await t.server.stats(); // in order behind it
    peer.send(peer.request('OPTIONS', { 'Call-ID': 'carrier' }));
    expect(await peer.wait((m) => m.callId === 'carrier')).toBeTruthy();
  });

  it('over the budget of all strangers neither requests nor responses are read; those of trunks and callees are', async () => {
    await open({ trusted: [], limits: { strangersPerSec: 10, strangerPerSec: 1000, offences: 1e6 } });
    t.srf.use('options', (_req, res) => {
      res.send(200);
    });
    for (let i = 0; i < 300; i++)
      peer.send(i % 2 ? peer.request('OPTIONS', { 'Call-ID': `many-${i}` }) : 'SIP/2.0 200 OK\n\n');
    await expect.poll(async () => (await t.server.stats()).shed.crowded).toBeGreaterThan(270);
    expect(peer.received.length).toBeLessThan(20);
    // a call of ours to the same address makes it known: its answers are read, and its requests
    peer.onMessage = (m) => {
      if (m instanceof SipRequest) peer.respond(m, 200);
    };
    expect((await ask(t.srf, `sip:127.0.0.1:${peer.port}`, { method: 'OPTIONS' })).status).toBe(200);
    for (let i = 0; i < 100; i++) peer.send(peer.request('OPTIONS', { 'Call-ID': `known-${i}` }));
    await expect.poll(() => peer.count((m) => m.callId.startsWith('known'))).toBe(100);
  });

  it('fill the room for connections of strangers, and a trunk connects all the same', async () => {
    await open({ trusted: ['127.0.0.1/32'], limits: { connections: 3 } });
    const { connect } = await import('node:net');
    const sockets = Array.from({ length: 6 }, () =>
      connect({ port: t.port, host: '127.0.0.1', localAddress: '127.0.0.77' }),
    );
    const closed = sockets.map(
      (socket) =>
        new Promise<boolean>((resolve) => socket.on('error', () => resolve(true)).on('close', () => resolve(true))),
    );
    await expect.poll(async () => (await t.server.stats()).live.tcpConnections).toBe(3);
    const ours = connect({ port: t.port, host: '127.0.0.1' });
    await expect.poll(async () => (await t.server.stats()).live.tcpConnections).toBe(4);
    for (const socket of [...sockets, ours]) socket.destroy();
    await Promise.all(closed);
  });

  it('everybody else hears the same answer about any user', async () => {
    await open({});
    t.srf.use('register', (_req, res) => {
      res.send(403);
    });
    peer.send(peer.request('REGISTER', { 'Call-ID': 'one', To: '<sip:1000@h>' }));
    peer.send(peer.request('REGISTER', { 'Call-ID': 'two', To: '<sip:nobody@h>' }));
    const statuses = await Promise.all(['one', 'two'].map((id) => peer.wait((m) => m.callId === id)));
    expect(new Set(statuses.map((m) => m.startLine)).size).toBe(1);
  });
});
