/** Races of both ends, swept in millisecond steps: whoever wins, both agree on it and nothing is left (RFC 3261 9, 13, 14, 15; RFC 5407). */
import { setTimeout as sleep } from 'node:timers/promises';
import type Srf from 'drachtio-srf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type SipMessage, SipRequest, SipResponse } from '../../sip/server/message/message.js';
import { SipPeer } from '../support/sip-peer.js';
import { connect, openTestServer, SDP, type TestServer } from '../support/sip-server.js';

let t: TestServer;
let peer: SipPeer;

beforeAll(async () => {
  t = await openTestServer({ limits: { waitMs: 30_000, foreseenWaitMs: 30_000, mainWaitMs: 30_000, lagMs: 30_000 } });
});
beforeEach(async () => {
  peer = await SipPeer.open(t.port);
  t.srf = await connect(t.server);
});
afterEach(async () => {
  t.srf.disconnect();
  await peer.close();
});
afterAll(async () => {
  t.srf = await connect(t.server);
  await t.idle(15_000);
  await t.close();
});

type Lines = Record<string, string>;
const of = (callId: string, status: number, method: string) => (m: SipMessage) =>
  m instanceof SipResponse && m.callId === callId && m.status === status && m.cseq?.method === method;
const final = (callId: string, method: string, cseq?: number) => (m: SipMessage) =>
  m instanceof SipResponse &&
  m.callId === callId &&
  m.status >= 200 &&
  m.cseq?.method === method &&
  (cseq === undefined || m.cseq.number === cseq);
const inside = (answer: SipMessage, cseq: string): Lines => ({
  From: answer.get('from')!,
  To: answer.get('to')!,
  'Call-ID': answer.callId,
  CSeq: cseq,
});
/** Acknowledges what it must, and answers every BYE. */
function behave(byes: SipRequest[] = []): void {
  peer.onMessage = (m) => {
    if (m instanceof SipRequest && m.method === 'BYE') {
      byes.push(m);
      peer.respond(m, 200);
    }
    if (!(m instanceof SipResponse) || m.cseq?.method !== 'INVITE' || m.status < 200) return;
    const ack = inside(m, `${m.cseq.number} ACK`);
    peer.send(peer.request('ACK', m.status < 300 ? ack : { ...ack, Via: m.list('via')[0]! }));
  };
}
function answerAfter(delayMs: () => number, dialogs: Srf.Dialog[] = []): void {
  t.srf.invite(async (req, res) => {
    await sleep(delayMs());
    const dialog = await t.srf.createUAS(req, res, { localSdp: SDP }).catch(() => null);
    if (dialog) dialogs.push(dialog);
  });
}
async function establish(callId: string): Promise<SipResponse> {
  peer.send(peer.request('INVITE', { 'Call-ID': callId }, SDP));
  return (await peer.wait(of(callId, 200, 'INVITE'))) as SipResponse;
}

describe('races', () => {
  it('CANCEL from 10 ms before to 10 ms after the 200, in steps of one: 487, or a call that BYE ends', async () => {
    let delayMs = 0;
    answerAfter(() => delayMs);
    behave();
    const outcomes = new Set<number>();
    await Promise.all(
      Array.from({ length: 21 }, async (_, i) => {
        delayMs = 10;
        const callId = `cancel-${i}`;
        const via = `SIP/2.0/UDP 127.0.0.1:${peer.port};branch=${peer.newBranch()}`;
        peer.send(peer.request('INVITE', { 'Call-ID': callId, Via: via }, SDP));
        await sleep(i);
        peer.send(peer.request('CANCEL', { 'Call-ID': callId, Via: via }));
        await peer.wait(of(callId, 200, 'CANCEL'));
        const answer = (await peer.wait(final(callId, 'INVITE'))) as SipResponse;
        outcomes.add(answer.status);
        expect([200, 487]).toContain(answer.status);
        if (answer.status !== 200) return;
        peer.send(peer.request('BYE', inside(answer, '7 BYE')));
        expect(((await peer.wait(final(callId, 'BYE'))) as SipResponse).status).toBe(200);
      }),
    );
    expect(outcomes.size).toBeGreaterThan(0);
    expect(peer.count((m) => m instanceof SipResponse && m.status >= 500)).toBe(0);
  });

  it('BYE from both ends within 10 ms of each other: each is answered, and the call ends once', async () => {
    const dialogs: Srf.Dialog[] = [];
    answerAfter(() => 0, dialogs);
    behave();
    for (let i = 0; i <= 10; i++) {
      const answer = await establish(`bye-${i}`);
      await expect.poll(() => dialogs.length).toBe(i + 1);
      // refused when the far side was faster
      const ours = sleep(10 - i).then(() => Promise.resolve(dialogs[i]?.destroy() as unknown).catch(() => undefined));
      await sleep(i);
      peer.send(peer.request('BYE', inside(answer, '7 BYE')));
      const theirs = (await peer.wait(final(`bye-${i}`, 'BYE'))) as SipResponse;
      expect([200, 481]).toContain(theirs.status);
      await ours;
    }
    expect((await t.server.stats()).live.dialogs).toBe(0);
  });

  it('re-INVITE and BYE in one burst, in both orders: the re-INVITE gets a final answer, the BYE its 200', async () => {
    answerAfter(() => 0);
    behave();
    for (const order of ['invite first', 'bye first']) {
      const answer = await establish(order.replace(' ', '-'));
      const again = peer.request('INVITE', inside(answer, '2 INVITE'), SDP);
      const bye = peer.request('BYE', inside(answer, '3 BYE'));
      for (const message of order === 'invite first' ? [again, bye] : [bye, again]) peer.send(message);
      expect(((await peer.wait(final(answer.callId, 'BYE'))) as SipResponse).status).toBe(200);
      const refused = (await peer.wait(final(answer.callId, 'INVITE', 2))) as SipResponse;
      expect([200, 481, 487, 500]).toContain(refused.status);
    }
  });

  it('INVITE and BYE of the same dialog before the answer: 200 to BYE or 481, and never a call that lives on', async () => {
    answerAfter(() => 20);
    behave();
    const lines = { 'Call-ID': 'burst', To: `<sip:bob@127.0.0.1:${t.port}>` };
    peer.send(peer.request('INVITE', lines, SDP));
    peer.send(peer.request('BYE', { ...lines, CSeq: '2 BYE' }));
    expect(((await peer.wait(final('burst', 'BYE'))) as SipResponse).status).toBe(481);
    const answer = (await peer.wait(of('burst', 200, 'INVITE'))) as SipResponse;
    peer.send(peer.request('BYE', inside(answer, '3 BYE')));
    await peer.wait(of('burst', 200, 'BYE'));
  });

  it('CSeq that runs backwards gets 500, and the call goes on', async () => {
    answerAfter(() => 0);
    behave();
    const answer = await establish('order');
    t.srf.use('info', (_req, res) => {
      res.send(200);
    });
    peer.send(peer.request('INFO', inside(answer, '9 INFO')));
    await peer.wait(of('order', 200, 'INFO'));
    peer.send(peer.request('INFO', inside(answer, '8 INFO')));
    await peer.wait(of('order', 500, 'INFO'));
    peer.send(peer.request('BYE', inside(answer, '10 BYE')));
    await peer.wait(of('order', 200, 'BYE'));
  });

  it('a lost 200 to BYE: the repeat is answered alike, and a BYE after that finds no dialog', async () => {
    answerAfter(() => 0);
    behave();
    const answer = await establish('late');
    const bye = peer.request('BYE', inside(answer, '2 BYE'));
    peer.send(bye);
    await peer.wait(of('late', 200, 'BYE'));
    peer.send(bye);
    await peer.wait(() => peer.count(of('late', 200, 'BYE')) === 2);
    peer.send(peer.request('BYE', inside(answer, '3 BYE')));
    await peer.wait(of('late', 481, 'BYE'));
  });

  it('200 half-open INVITEs, never acknowledged: each ends with a BYE of ours and nothing is left', async () => {
    const byes: SipRequest[] = [];
    answerAfter(() => 0);
    peer.onMessage = (m) => {
      if (!(m instanceof SipRequest) || m.method !== 'BYE') return;
      byes.push(m);
      peer.respond(m, 200);
    };
    for (let i = 0; i < 200; i++) {
      peer.send(peer.request('INVITE', { 'Call-ID': `half-${i}` }, SDP));
      if (i % 20 === 19) await sleep(20);
    }
    await expect.poll(() => new Set(byes.map((bye) => bye.callId)).size, { timeout: 12_000 }).toBe(200);
    for (const bye of byes) expect(bye.get('reason')).toContain('ACK timeout');
    await expect.poll(async () => (await t.server.stats()).live.dialogs).toBe(0);
  });
});
