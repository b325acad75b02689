import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SipError } from '../../sip/leg.js';
import { SipPeer, someSdp } from '../support/bare-sip-peer.js';
import { openTestGateway, type TestGateway, within } from '../support/sip-gateway.js';

describe('an incoming call', () => {
  let us: TestGateway;
  let peer: SipPeer;

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
  });
  afterEach(async () => {
    await us.expectNoLegs();
    expect(us.errors()).toEqual([]);
    await peer.close();
  });

  async function answered() {
    const invite = peer.invite();
    const call = await us.nextCall();
    const leg = await call.answer(someSdp);
    const ok = await peer.next(200);
    peer.request('ACK', invite, [], '', ok);
    await within(leg.confirmed);
    return { invite, call, leg, ok };
  }

  it('has caller, called number and source, rings, is answered, confirmed and ended by the caller', async () => {
    const invite = peer.invite({ lines: ['X-Account: 7', 'P-Asserted-Identity: "Ann" <tel:+15559998888>'] });
    const call = await us.nextCall();
    expect(call).toMatchObject({
      sipCallId: invite.callId,
      from: { number: '+15559998888', displayName: 'Ann' },
      to: { number: '+15552223333' },
      trunk: { trunkId: 'loopback', trustedBy: 'address' },
      otherTrunks: [],
      peer: { transport: 'udp', address: '127.0.0.1', port: peer.port },
      localAddress: '127.0.0.1',
      offer: someSdp,
    });
    expect(call.headers['x-account']).toBe('7');
    await call.ring();
    await peer.next(180);
    await call.ring({ sdp: someSdp });
    expect((await peer.next(183)).body).toBe(someSdp);
    const leg = await call.answer(someSdp, { 'X-Call': '1\r\nX-Evil: 2' });
    const ok = await peer.next(200);
    expect(ok.header('x-call')).toBe('1 X-Evil: 2');
    expect(ok.header('x-evil')).toBe('');
    expect(us.gateway.counters().activeLegs).toBe(1);
    peer.request('ACK', invite, [], '', ok);
    expect(await within(leg.confirmed)).toEqual({});
    expect(leg.remoteSdp).toBe(someSdp);
    peer.request('BYE', invite, ['Reason: Q.850;cause=16;text="bye"'], '', ok, 2);
    expect(await within(leg.ended)).toEqual({
      cause: 'normal_clearing',
      by: 'remote',
      detail: { q850: 16, text: 'bye' },
    });
    await peer.next(200);
    expect(us.gateway.trace(invite.callId).map((entry) => entry.message.split(' ', 2).join(' '))).toEqual(
      expect.arrayContaining(['SIP/2.0 180', 'SIP/2.0 183', 'SIP/2.0 200']),
    );
  });

  it('is ended by us with a BYE that says why', async () => {
    const { leg, ok } = await answered();
    const hungUp = leg.hangup('agent_hangup');
    expect(leg.hangup()).toBe(hungUp);
    expect(await within(leg.ended)).toEqual({ cause: 'agent_hangup', by: 'local' });
    const bye = await peer.next('BYE');
    expect(bye.header('reason')).toBe('Q.850;cause=16;text="agent_hangup"');
    expect(bye.header('from')).toBe(ok.header('to'));
    peer.respond(bye, 200);
    await within(hungUp);
    expect(us.gateway.counters().activeLegs).toBe(0);
  });

  it('cancelled before the answer: the handler hears it and cannot answer any more', async () => {
    const invite = peer.invite();
    const call = await us.nextCall();
    peer.request('CANCEL', invite);
    await within(new Promise((resolve) => call.cancelled.addEventListener('abort', resolve)));
    expect((call.cancelled.reason as SipError).hangupCause).toBe('originator_cancel');
    peer.ackFailure(invite, await peer.next(487));
    await expect(call.answer(someSdp)).rejects.toMatchObject({ code: 'cancelled', hangupCause: 'originator_cancel' });
    await expect(call.ring()).rejects.toMatchObject({ code: 'cancelled' });
    call.reject({ status: 486 });
  });

  it('CANCEL in the moment of the answer leaves either a call or none, never half of one', async () => {
    for (let delayMs = 0; delayMs < 6; delayMs += 0.5) {
      const invite = peer.invite();
      const call = await us.nextCall();
      const answer = call.answer(someSdp).then(
        (leg) => leg,
        (error: SipError) => error,
      );
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      peer.request('CANCEL', invite);
      const outcome = await within(answer);
      if ('code' in outcome) {
        expect(outcome.code).toBe('cancelled');
        peer.ackFailure(invite, await peer.next(487));
      } else {
        const ok = await within(
          (async () => {
            for (;;) {
              const message = await peer.next(200);
              if (/INVITE/.test(message.header('cseq'))) return message;
            }
          })(),
        );
        peer.request('ACK', invite, [], '', ok);
        await within(outcome.confirmed);
        peer.request('BYE', invite, [], '', ok, 2);
        await within(outcome.ended);
      }
      peer.received.length = 0;
    }
  });

  it('CANCEL after the 200 changes nothing', async () => {
    const { invite, leg, ok } = await answered();
    peer.request('CANCEL', invite);
    await peer.next([200, 481]);
    expect(us.gateway.counters().activeLegs).toBe(1);
    peer.request('BYE', invite, [], '', ok, 2);
    expect(await within(leg.ended)).toMatchObject({ by: 'remote' });
  });

  it('without ACK ends with no_ack, and its confirmation fails', async () => {
    peer.invite();
    const call = await us.nextCall();
    const leg = await call.answer(someSdp);
    await peer.next(200);
    const confirmed = expect(leg.confirmed).rejects.toMatchObject({ hangupCause: 'no_ack' });
    expect(await within(leg.ended)).toMatchObject({ cause: 'no_ack', by: 'system' });
    await confirmed;
    peer.respond(await peer.next('BYE'), 200);
  });

  it('ACK and BYE in one breath: confirmed, then ended', async () => {
    const invite = peer.invite();
    const call = await us.nextCall();
    const leg = await call.answer(someSdp);
    const ok = await peer.next(200);
    peer.request('ACK', invite, [], '', ok);
    peer.request('BYE', invite, [], '', ok, 2);
    expect(await within(leg.confirmed)).toEqual({});
    expect(await within(leg.ended)).toMatchObject({ cause: 'normal_clearing', by: 'remote' });
  });

  it('hung up by us before its ACK: the BYE waits for the ACK', async () => {
    const invite = peer.invite();
    const call = await us.nextCall();
    const leg = await call.answer(someSdp);
    const ok = await peer.next(200);
    const hungUp = leg.hangup();
    expect(await within(leg.ended)).toMatchObject({ by: 'local' });
    await new Promise((resolve) => setTimeout(resolve, 60)); // real time: no BYE may come meanwhile
    expect(peer.received.some((message) => message.method === 'BYE')).toBe(false);
    peer.request('ACK', invite, [], '', ok);
    peer.respond(await peer.next('BYE'), 200);
    await within(hungUp);
  });

  it('without an offer gets ours, and the ACK brings the answer', async () => {
    const invite = peer.invite({ sdp: null });
    const call = await us.nextCall();
    expect(call.offer).toBeNull();
    const leg = await call.answer(someSdp);
    expect(leg.remoteSdp).toBe('');
    const ok = await peer.next(200);
    const theirs = someSdp.replace('40000', '40002');
    peer.request('ACK', invite, [], theirs, ok);
    expect(await within(leg.confirmed)).toEqual({ sdp: theirs });
    expect(leg.remoteSdp).toBe(theirs);
    peer.request('BYE', invite, [], '', ok, 2);
    await within(leg.ended);
  });

  it('is refused by its handler, with a Reason', async () => {
    const invite = peer.invite();
    const call = await us.nextCall();
    call.reject({ status: 486, reason: 'Too "many" calls', headers: { 'Retry-After': '9' } });
    const refused = await peer.next(486);
    expect(refused.header('reason')).toBe('SIP;cause=486;text="Too \\"many\\" calls"');
    expect(refused.header('retry-after')).toBe('9');
    peer.ackFailure(invite, refused);
    call.reject({ status: 500 });
    await expect(call.answer(someSdp)).rejects.toMatchObject({ code: 'protocol' });
  });

  it('rings reliably where the caller can: PRACK is awaited', async () => {
    const invite = peer.invite({ lines: ['Supported: 100rel'] });
    const call = await us.nextCall();
    let rang = false;
    const ringing = call.ring({ sdp: someSdp, reliable: true }).then(() => {
      rang = true;
    });
    const progress = await peer.next(183);
    expect(progress.header('require')).toBe('100rel');
    expect(rang).toBe(false);
    peer.request('PRACK', invite, [`RAck: ${progress.header('rseq')} 1 INVITE`], '', progress, 2);
    await within(ringing);
    const leg = await call.answer(someSdp);
    for (;;) {
      const ok = await peer.next(200);
      if (!/INVITE/.test(ok.header('cseq'))) continue;
      peer.request('ACK', invite, [], '', ok);
      peer.request('BYE', invite, [], '', ok, 3);
      break;
    }
    await within(leg.ended);
  });
});

describe('an INVITE that is no call', () => {
  let us: TestGateway;
  let peer: SipPeer;

  beforeEach(async () => {
    us = await openTestGateway();
    peer = await SipPeer.open(us.port);
  });
  afterEach(async () => {
    await us.expectNothingLeft();
    await peer.close();
    await us.close();
  });

  async function refusal(status: number, invite = peer.invite()) {
    const answer = await peer.next(status);
    peer.ackFailure(invite, answer);
    return answer;
  }

  it('comes from nowhere: 403, counted and told, logged once', async () => {
    us.trunks.replace([]);
    us.onCall(async () => undefined);
    const told: unknown[] = [];
    us.gateway.onRefusedInvite((refused) => told.push(refused));
    for (let i = 0; i < 3; i++) {
      expect((await refusal(403)).header('reason')).toBe('SIP;cause=403;text="Unknown source"');
    }
    expect(us.gateway.counters().refused).toEqual({ blocked_source: 3 });
    expect(told).toHaveLength(3);
    expect(told[0]).toMatchObject({ status: 403, cause: 'blocked_source', peer: { port: peer.port } });
    expect(us.lines.filter((line) => line.level === 'warn')).toHaveLength(1);
  });

  it.each(['application/sdp', 'text/plain, application/sdp;level=1', 'application/*', '*/*;q=0.1'])(
    'is taken with Accept: %s',
    async (accept) => {
      const seen: string[] = [];
      us.onCall(async (call) => {
        seen.push(call.sipCallId);
        await call.reject({ status: 486, reason: 'Busy Here' });
      });
      const invite = peer.invite({ lines: [`Accept: ${accept}`] });
      await refusal(486, invite);
      expect(seen).toEqual([invite.callId]);
    },
  );

  it('comes while draining: 503 with Retry-After', async () => {
    us.onCall(async () => undefined);
    us.gateway.drain();
    expect((await refusal(503)).header('retry-after')).toBe('60');
    expect(us.gateway.counters().refused).toEqual({ draining: 1 });
  });

  it('comes before anybody takes calls: 503', async () => {
    await refusal(503);
  });

  it.each([
    ['has no Contact', { contact: false }, 400, 'malformed'],
    ['requires what we lack', { lines: ['Require: 100rel, unicorns'] }, 420, 'unsupported'],
    ['takes no SDP', { lines: ['Accept: text/nobodyKnowsThis'] }, 406, 'unsupported'],
    ['takes nothing at all', { lines: ['Accept:'] }, 406, 'unsupported'],
    ['brings something else than SDP', { contentType: 'text/plain' }, 415, 'unsupported'],
  ])('%s', async (_name, options, status, why) => {
    us.onCall(async () => undefined);
    const answer = await refusal(status, peer.invite(options));
    if (status === 420) expect(answer.header('unsupported')).toBe('unicorns');
    if (status === 415 || status === 406) expect(answer.header('accept')).toBe('application/sdp');
    // The embedded server knows by itself which extensions exist; an external one may pass such an INVITE on.
    const refused = status === 420 ? {} : { [why]: 1 };
    expect(us.gateway.counters()).toMatchObject({ incomingCalls: 0, refused });
  });

  it('makes its handler fail, before or after the answer, or say nothing: nobody waits for ever', async () => {
    us.onCall(async () => {
      throw new Error('boom');
    });
    await refusal(500);
    us.onCall(async () => undefined);
    await refusal(500);
    us.onCall(async (call) => {
      await call.answer(someSdp);
      throw new Error('late boom');
    });
    const invite = peer.invite();
    const ok = await peer.next(200);
    peer.request('ACK', invite, [], '', ok);
    peer.respond(await peer.next('BYE'), 200);
    expect(us.gateway.counters().refused).toEqual({ handler_failed: 3 });
    expect(us.errors()).toHaveLength(3);
  });

  it('other requests outside a dialog get sensible answers', async () => {
    us.trunks.replace([]);
    const stranger = { callId: 'x1', branch: 'z9hG4bKx1', from: '<sip:a@b>;tag=1', to: '<sip:c@d>', cseq: 1 };
    const ask = (method: string, lines: string[] = []) =>
      peer.request(method, { ...stranger, callId: method, uri: `sip:127.0.0.1:${us.port}` }, lines);
    ask('OPTIONS');
    const options = await peer.next(200);
    expect(options.header('allow')).toContain('INVITE');
    expect(options.header('accept')).toBe('application/sdp');
    ask('MESSAGE');
    await peer.next(405);
    ask('REGISTER'); // a query has no Contact
    await peer.next(401);
    ask('SUBSCRIBE', ['Event: presence', `Contact: ${peer.contact}`]);
    await peer.next(489);
    ask('BYE');
    await peer.next(481);
  });
});
