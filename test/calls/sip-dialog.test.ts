import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { CallLeg } from '../../sip/leg.js';
import { type OutgoingInvite, type PeerMessage, SipPeer, someSdp } from '../support/bare-sip-peer.js';
import { openTestGateway, type TestGateway, within } from '../support/sip-gateway.js';

const never = new AbortController().signal;
const held = someSdp.replace('sendrecv', 'sendonly');

describe('within a call, against a bare peer', () => {
  let us: TestGateway;
  let peer: SipPeer;
  let invite: OutgoingInvite;
  let leg: CallLeg;
  let ok: PeerMessage;

  beforeAll(async () => {
    us = await openTestGateway();
    us.collectCalls();
  });
  afterAll(async () => {
    await us.expectNothingLeft();
    await us.close();
  });
  beforeEach(async () => {
    us.lines.length = 0;
    peer = await SipPeer.open(us.port);
    invite = peer.invite();
    leg = await (await us.nextCall()).answer(someSdp);
    ok = await peer.next(200);
    peer.request('ACK', invite, [], '', ok);
    await within(leg.confirmed);
  });
  afterEach(async () => {
    peer.request('BYE', invite, [], '', ok, 90);
    await within(leg.ended);
    await us.expectNoLegs();
    expect(us.errors()).toEqual([]);
    await peer.close();
  });

  const contact = () => [`Contact: ${peer.contact}`];

  it('hold and resume: the handler sees each offer, its answer goes back', async () => {
    const offers: (string | null)[] = [];
    leg.onReoffer(async (offer) => {
      offers.push(offer);
      return { sdp: `${someSdp}a=x-${offers.length}\r\n` };
    });
    peer.request('INVITE', invite, contact(), held, ok, 2);
    const first = await peer.next(200);
    expect(first.body).toContain('a=x-1');
    expect(first.header('contact')).not.toBe('');
    peer.request('ACK', invite, [], '', first, 2);
    peer.request('INVITE', invite, contact(), someSdp, ok, 3);
    const second = await peer.next(200);
    peer.request('ACK', invite, [], '', second, 3);
    expect(offers).toEqual([held, someSdp]);
    expect(leg.remoteSdp).toBe(someSdp);
  });

  it('without a handler every offer is answered with the last SDP', async () => {
    peer.request('INVITE', invite, contact(), held, ok, 2);
    const answer = await peer.next(200);
    expect(answer.body).toBe(someSdp);
    peer.request('ACK', invite, [], '', answer, 2);
    peer.request('UPDATE', invite, contact(), someSdp, ok, 3);
    expect((await peer.next(200)).body).toBe(someSdp);
    peer.request('UPDATE', invite, contact(), '', ok, 4);
    expect((await peer.next(200)).body).toBe('');
  });

  it('a re-INVITE without body gets our offer, and its ACK brings the answer', async () => {
    const acked = new Promise<string>((resolve) => {
      leg.onReoffer(async (offer) => {
        expect(offer).toBeNull();
        return { sdp: held, acked: resolve };
      });
    });
    peer.request('INVITE', invite, contact(), '', ok, 2);
    const answer = await peer.next(200);
    expect(answer.body).toBe(held);
    const theirs = someSdp.replace('40000', '40100');
    peer.request('ACK', invite, [], theirs, answer, 2);
    expect(await within(acked)).toBe(theirs);
    expect(leg.remoteSdp).toBe(theirs);
  });

  it('a refused or failed offer is refused, and the call goes on', async () => {
    leg.onReoffer(async () => ({ refuse: 488 }));
    peer.request('INVITE', invite, contact(), held, ok, 2);
    peer.request('ACK', invite, [], '', await peer.next(488), 2);
    expect(leg.remoteSdp).toBe(someSdp);
    leg.onReoffer(async () => {
      throw new Error('no media');
    });
    peer.request('UPDATE', invite, contact(), held, ok, 3);
    await peer.next(500);
    expect(us.errors()).toEqual(['answering an offer failed {"err":"no media"}']);
    us.lines.length = 0;
  });

  it('an offer while another is undecided is refused for now', async () => {
    let decide: (() => void) | undefined;
    leg.onReoffer(
      () =>
        new Promise((resolve) => {
          decide = () => resolve({ sdp: someSdp });
        }),
    );
    peer.request('UPDATE', invite, contact(), held, ok, 2);
    await within(until(() => decide !== undefined));
    peer.request('UPDATE', invite, contact(), held, ok, 3);
    const refused = await peer.next(500);
    expect(Number(refused.header('retry-after'))).toBeLessThanOrEqual(10);
    decide?.();
    await peer.next(200);
  });

  it('our offer: accepted, refused, and again after a glare', async () => {
    const accepted = leg.reoffer(held, never);
    const first = await peer.next('INVITE');
    expect(first.body).toBe(held);
    peer.respond(first, 200, contact(), someSdp);
    await peer.next('ACK');
    expect(await within(accepted)).toEqual({ ok: someSdp });

    const refused = leg.reoffer(held, never);
    peer.respond(await peer.next('INVITE'), 488);
    expect(await within(refused)).toEqual({ refused: 488 });

    const glared = leg.reoffer(held, never);
    const second = await peer.next('INVITE');
    peer.request('INVITE', invite, contact(), held, ok, 2);
    peer.respond(second, 491);
    await peer.next(491);
    peer.respond(await peer.next('INVITE', 3000), 200, contact(), someSdp);
    expect(await within(glared)).toEqual({ ok: someSdp });
  });

  it('our offer given up is cancelled', async () => {
    const giveUp = new AbortController();
    const offered = leg.reoffer(held, giveUp.signal);
    const request = await peer.next('INVITE');
    await us.afterReading(() => peer.respond(request, 100));
    giveUp.abort();
    const cancel = await peer.next('CANCEL');
    peer.respond(cancel, 200);
    peer.respond(request, 487);
    expect(await within(offered)).toEqual({ refused: 487 });
    expect(await leg.reoffer(held, giveUp.signal)).toEqual({ refused: 487 });
  });

  it('INFO both ways', async () => {
    const told = new Promise((resolve) => leg.onInfo(resolve));
    peer.request('INFO', invite, [], 'Signal=5\r\n', ok, 2, 'application/dtmf-relay');
    await peer.next(200);
    expect(await within(told)).toEqual({ contentType: 'application/dtmf-relay', body: 'Signal=5\r\n' });
    const sent = leg.sendInfo({ contentType: 'application/dtmf-relay', body: 'Signal=1\r\n' }, never);
    const info = await peer.next('INFO');
    expect(info.body).toBe('Signal=1\r\n');
    peer.respond(info, 200);
    expect(await within(sent)).toBe(200);
  });

  it('REFER of the far side: forbidden by default, accepted with NOTIFYs when wanted', async () => {
    const refer = (cseq: number, to = '<sip:+1999@host?Replaces=a%3Bto-tag%3Db>') =>
      peer.request('REFER', invite, [...contact(), `Refer-To: ${to}`], '', ok, cseq);
    refer(2);
    await peer.next(403);
    refer(3, 'mailto:x');
    await peer.next(400);
    let finish: ((status: number) => void) | undefined;
    leg.onRefer(async (target) => {
      expect(target).toEqual({ to: 'sip:+1999@host', replaces: 'a;to-tag=b' });
      return { accept: true, outcome: new Promise((resolve) => (finish = resolve)) };
    });
    refer(4);
    await peer.next(202);
    const trying = await peer.next('NOTIFY');
    expect(trying.body).toBe('SIP/2.0 100 Trying\r\n');
    expect(trying.header('event')).toBe('refer;id=4');
    expect(trying.header('subscription-state')).toContain('active');
    peer.respond(trying, 200);
    await within(until(() => finish !== undefined));
    finish?.(486);
    const final = await peer.next('NOTIFY');
    expect(final.body).toMatch(/^SIP\/2\.0 486 /);
    expect(final.header('subscription-state')).toContain('terminated');
    peer.respond(final, 200);
  });

  it('transfer: completed, failed by NOTIFY, refused, given up', async () => {
    const notify = (cseq: number, status: number, state: string) =>
      peer.request(
        'NOTIFY',
        invite,
        ['Event: refer', `Subscription-State: ${state}`],
        `SIP/2.0 ${status} X\r\n`,
        ok,
        cseq,
        'message/sipfrag',
      );
    const completed = leg.transfer('+15557776666', never);
    const refer = await peer.next('REFER');
    expect(refer.header('refer-to')).toBe(`<sip:+15557776666@127.0.0.1:${peer.port}>`);
    expect(refer.header('referred-by')).toContain('sip:+15552223333@');
    peer.respond(refer, 202);
    notify(2, 100, 'active');
    await peer.next(200);
    notify(3, 200, 'terminated;reason=noresource');
    await peer.next(200);
    expect(await within(completed)).toEqual({ status: 'completed' });

    const failed = leg.transfer('sip:bob@host', never);
    peer.respond(await peer.next('REFER'), 202);
    notify(4, 486, 'terminated');
    await peer.next(200);
    expect(await within(failed)).toEqual({ status: 'failed', sipStatus: 486 });

    const refused = leg.transfer('sip:bob@host', never);
    peer.respond(await peer.next('REFER'), 603);
    expect(await within(refused)).toEqual({ status: 'failed', sipStatus: 603, refused: true });

    const giveUp = new AbortController();
    const silent = leg.transfer('sip:bob@host', giveUp.signal);
    await expect(leg.transfer('sip:bob@host', never)).rejects.toThrow('under way already');
    const last = await peer.next('REFER');
    await us.afterReading(() => peer.respond(last, 202));
    giveUp.abort();
    expect(await within(silent)).toEqual({ status: 'accepted' });
    notify(5, 200, 'terminated');
    await peer.next(489);
    await expect(leg.transfer('no number', never)).rejects.toMatchObject({ code: 'protocol' });
  });

  it('a far side that no longer knows the dialog ends the call', async () => {
    const offered = leg.reoffer(held, never);
    peer.respond(await peer.next('INVITE'), 481);
    expect(await within(offered)).toEqual({ refused: 481 });
    expect(await within(leg.ended)).toEqual({ cause: 'signalling_lost', by: 'system', detail: { sipStatus: 481 } });
  });

  it('requests after the end are refused, not sent', async () => {
    const hungUp = leg.hangup();
    peer.respond(await peer.next('BYE'), 200);
    await within(hungUp);
    await expect(leg.sendInfo({ contentType: 'a/b', body: '' }, never)).rejects.toMatchObject({ code: 'protocol' });
    await expect(leg.reoffer(held, never)).rejects.toMatchObject({ code: 'protocol' });
    await leg.hangup();
  });

  it('a snapshot has what a BYE of another process needs', () => {
    expect(leg.snapshot()).toEqual({
      callId: invite.callId,
      localTag: /tag=(.*)$/.exec(ok.header('to'))?.[1],
      remoteTag: /tag=(.*)$/.exec(invite.from)?.[1],
      localUri: 'sip:+15552223333@127.0.0.1',
      remoteUri: 'sip:+15550001111@127.0.0.1',
      remoteTarget: `sip:peer@127.0.0.1:${peer.port}`,
      routeSet: [],
      localCseq: 0,
      peer: { transport: 'udp', address: '127.0.0.1', port: peer.port },
      localAddress: '127.0.0.1',
    });
  });
});

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}
