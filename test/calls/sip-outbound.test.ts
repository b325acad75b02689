import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { answerChallenge } from '../../sip/auth/digest.js';
import type { CallLeg, SipError } from '../../sip/leg.js';
import { type NameServer, SipNames } from '../../sip/outbound/dns-naptr-srv.js';
import { SipPeer, someSdp } from '../support/bare-sip-peer.js';
import { openTestGateway, type TestGateway, within } from '../support/sip-gateway.js';

/** SRV records of `carrier.example`, as a test says. */
let carrierHosts: { name: string; port: number }[] = [];
const nameServer: NameServer = {
  naptr: async () => [],
  srv: async (name) =>
    name === '_sip._udp.carrier.example'
      ? carrierHosts.map((host, priority) => ({ ...host, priority, weight: 0 }))
      : Promise.reject(new Error('no such name')),
};

describe('dialling', () => {
  let us: TestGateway;
  let peer: SipPeer;
  let carrier: string;

  beforeAll(async () => {
    us = await openTestGateway(undefined, { firstResponseMs: 300, names: new SipNames(nameServer) });
    us.onCall(async (call) => call.reject({ status: 480 }));
  });
  afterAll(async () => {
    await us.expectNothingLeft();
    await us.close();
  });
  beforeEach(async () => {
    us.lines.length = 0;
    peer = await SipPeer.open(us.port);
    carrier = `sip:127.0.0.1:${peer.port}`;
  });
  afterEach(async () => {
    await us.expectNoLegs();
    expect(us.errors()).toEqual([]);
    await peer.close();
  });

  const contact = () => [`Contact: ${peer.contact}`];
  const failure = (dialled: Promise<CallLeg>) =>
    within(
      dialled.then(
        () => {
          throw new Error('It was answered');
        },
        (error: SipError) => ({ code: error.code, cause: error.hangupCause, status: error.sipStatus }),
      ),
    );
  const hangUp = async (leg: CallLeg) => {
    const hungUp = leg.hangup();
    peer.respond(await peer.next('BYE'), 200);
    await within(hungUp);
  };

  it('an answer: the INVITE has the caller, early answers are distinguished by branch, ACK is sent at once', async () => {
    const progress: unknown[] = [];
    const dialled = us.gateway.dial(
      {
        to: '+15552223333',
        from: '+15550001111',
        fromDisplayName: 'Ann "A"\r\nX: y',
        gateways: [{ uri: `${carrier};transport=udp` }],
        headers: { 'X-Campaign': '7\r\nEvil: 1', Via: 'x', 'Call-ID': 'mine' },
        offerFor: async (gateway, localAddress) => {
          expect(gateway.uri).toContain(carrier);
          expect(localAddress).toBe('127.0.0.1');
          return someSdp;
        },
        onProgress: ({ status, branch, sdp }) => progress.push([status, branch, sdp]),
        ringTimeoutMs: 5000,
      },
      new AbortController().signal,
    );
    const invite = await peer.next('INVITE');
    expect(invite.startLine).toBe(`INVITE sip:+15552223333@127.0.0.1:${peer.port};transport=udp SIP/2.0`);
    expect(invite.header('from')).toMatch(
      new RegExp(`^"Ann \\\\"A\\\\" X: y" <sip:\\+15550001111@127\\.0\\.0\\.1(:${us.port})?>;tag=[0-9a-f]+$`),
    );
    expect(invite.header('x-campaign')).toBe('7 Evil: 1');
    expect(invite.header('evil')).toBe('');
    expect(invite.header('call-id')).not.toBe('mine');
    expect(invite.header('content-type')).toBe('application/sdp');
    expect(invite.body).toBe(someSdp);
    peer.respond(invite, 100);
    peer.respond(invite, 180, contact(), '', 'one');
    peer.respond(invite, 183, contact(), someSdp, 'two');
    peer.respond(invite, 200, contact(), someSdp, 'two');
    const leg = await within(dialled);
    await peer.next('ACK');
    expect(await leg.confirmed).toEqual({});
    expect(progress).toEqual([
      [180, 'one', undefined],
      [183, 'two', someSdp],
    ]);
    expect(leg.sipCallId).toBe(invite.header('call-id'));
    expect(leg.remoteSdp).toBe(someSdp);
    expect(leg.snapshot()).toMatchObject({
      remoteTag: 'two',
      localUri: expect.stringContaining('sip:+15550001111@'),
      remoteUri: `sip:+15552223333@127.0.0.1:${peer.port};transport=udp`,
      remoteTarget: `sip:peer@127.0.0.1:${peer.port}`,
      localCseq: 1,
    });
    expect(us.gateway.trace(leg.sipCallId).length).toBeGreaterThanOrEqual(5);
    await hangUp(leg);
  });

  it.each([
    [486, 'user_busy'],
    [603, 'call_rejected'],
    [404, 'not_found'],
    [480, 'no_answer'],
    [488, 'incompatible_media'],
  ])('%i is a decision: %s, and nobody else is asked', async (status, cause) => {
    const other = await SipPeer.open(us.port);
    const dialled = failure(us.dial('+1555222', carrier, { more: [`sip:127.0.0.1:${other.port}`] }));
    const invite = await peer.next('INVITE');
    peer.respond(invite, status);
    expect(await dialled).toEqual({ code: 'rejected', cause, status });
    await peer.next('ACK');
    expect(other.received).toEqual([]);
    await other.close();
  });

  it('a name stands for its hosts in their order; the request says the name', async () => {
    // A host that refused is passed over for a while: each try has hosts of its own.
    const [refusing, other] = [await SipPeer.open(us.port), await SipPeer.open(us.port)];
    carrierHosts = [
      { name: '127.0.0.1', port: refusing.port },
      { name: '127.0.0.1', port: other.port },
    ];
    const dialled = us.dial('+1555222', 'sip:carrier.example');
    const first = await refusing.next('INVITE');
    expect(first.startLine).toBe('INVITE sip:+1555222@carrier.example SIP/2.0');
    refusing.respond(first, 503);
    const second = await other.next('INVITE');
    expect(second.startLine).toBe(first.startLine);
    other.respond(second, 200, [`Contact: ${other.contact}`], someSdp);
    const leg = await within(dialled);
    const hungUp = leg.hangup();
    other.respond(await other.next('BYE'), 200);
    await within(hungUp);
    await refusing.close();
    await other.close();
  });

  it.each([500, 503, 408])('%i: the next gateway is tried, in the same Call-ID', async (status) => {
    const other = await SipPeer.open(us.port);
    const dialled = us.dial('+1555222', carrier, { more: [`sip:127.0.0.1:${other.port}`] });
    const first = await peer.next('INVITE');
    peer.respond(first, status);
    const second = await other.next('INVITE');
    expect(second.header('call-id')).toBe(first.header('call-id'));
    expect(second.header('from')).not.toBe(first.header('from'));
    other.respond(second, 200, [`Contact: ${other.contact}`], someSdp);
    const leg = await within(dialled);
    const hungUp = leg.hangup();
    other.respond(await other.next('BYE'), 200);
    await within(hungUp);
    await other.close();
  });

  it('a gateway that asks for rest comes last the next time', async () => {
    const other = await SipPeer.open(us.port);
    const both = { more: [`sip:127.0.0.1:${other.port}`] };
    const first = failure(us.dial('+1555222', carrier, both));
    peer.respond(await peer.next('INVITE'), 503, ['Retry-After: 60']);
    other.respond(await other.next('INVITE'), 486);
    await first;
    const second = failure(us.dial('+1555222', carrier, both));
    other.respond(await other.next('INVITE'), 486);
    await second;
    expect(peer.received.filter((message) => message.method === 'INVITE')).toEqual([]);
    await other.close();
  });

  it('a silent gateway is left for the next one; its late 200 is hung up', async () => {
    const other = await SipPeer.open(us.port);
    const dialled = us.dial('+1555222', carrier, { more: [`sip:127.0.0.1:${other.port}`] });
    const silent = await peer.next('INVITE');
    const second = await other.next('INVITE');
    other.respond(second, 200, [`Contact: ${other.contact}`], someSdp);
    const leg = await within(dialled);
    peer.respond(silent, 200, contact(), someSdp);
    await peer.next('ACK');
    peer.respond(await peer.next('BYE'), 200);
    const hungUp = leg.hangup();
    other.respond(await other.next('BYE'), 200);
    await within(hungUp);
    await other.close();
  });

  it('nobody there at all: the carrier is unreachable, which is no "no answer"', async () => {
    await peer.close();
    expect(await failure(us.dial('+1555222', carrier))).toEqual({
      code: 'unreachable',
      cause: 'carrier_unreachable',
      status: undefined,
    });
    expect(await failure(us.dial('+1555222', carrier, { ringTimeoutMs: 100 }))).toEqual({
      code: 'timeout',
      cause: 'carrier_unreachable',
      status: undefined,
    });
    peer = await SipPeer.open(us.port);
  });

  it('rings too long: CANCEL, no_answer', async () => {
    const dialled = failure(us.dial('+1555222', carrier, { ringTimeoutMs: 200 }));
    const invite = await peer.next('INVITE');
    peer.respond(invite, 180);
    expect(await dialled).toEqual({ code: 'timeout', cause: 'no_answer', status: undefined });
    peer.respond(await peer.next('CANCEL'), 200);
    peer.respond(invite, 487);
    await peer.next('ACK');
  });

  it('given up: CANCEL; and before anything was sent: nothing', async () => {
    const giveUp = new AbortController();
    const dialled = failure(us.dial('+1555222', carrier, { signal: giveUp.signal }));
    const invite = await peer.next('INVITE');
    await us.afterReading(() => peer.respond(invite, 180));
    giveUp.abort();
    expect(await dialled).toEqual({ code: 'cancelled', cause: 'originator_cancel', status: undefined });
    peer.respond(await peer.next('CANCEL'), 200);
    peer.respond(invite, 487);
    await peer.next('ACK');
    expect((await failure(us.dial('+1555222', carrier, { signal: giveUp.signal }))).code).toBe('cancelled');
    expect(peer.received).toEqual([]);
  });

  it('CANCEL crossing the 200: ACK and BYE', async () => {
    const giveUp = new AbortController();
    const dialled = failure(us.dial('+1555222', carrier, { signal: giveUp.signal }));
    const invite = await peer.next('INVITE');
    await us.afterReading(() => peer.respond(invite, 180));
    giveUp.abort();
    peer.respond(invite, 200, contact(), someSdp);
    expect((await dialled).code).toBe('cancelled');
    await peer.next('ACK');
    peer.respond(await peer.next('BYE'), 200);
  });

  it('a 200 without SDP is hung up', async () => {
    const dialled = failure(us.dial('+1555222', carrier));
    peer.respond(await peer.next('INVITE'), 200, contact());
    expect(await dialled).toMatchObject({ code: 'protocol', cause: 'incompatible_media' });
    await peer.next('ACK');
    peer.respond(await peer.next('BYE'), 200);
  });

  it('a 200 without Contact is no call, and nobody else is called', async () => {
    const other = await SipPeer.open(us.port);
    const dialled = failure(us.dial('+1555222', carrier, { more: [`sip:127.0.0.1:${other.port}`] }));
    peer.respond(await peer.next('INVITE'), 200, [], someSdp);
    expect(await dialled).toMatchObject({ code: 'protocol' });
    expect(other.received).toEqual([]);
    await other.close();
  });

  it('an INVITE of ours that comes back is a loop', async () => {
    const dialled = failure(us.dial('+1555222', carrier));
    const invite = await peer.next('INVITE');
    const via = `Via: SIP/2.0/UDP 127.0.0.1:${peer.port};branch=z9hG4bKloop;rport`;
    const [start, ...rest] = invite.text.split('\r\n');
    peer.send([start?.replace(String(peer.port), String(us.port)), via, ...rest].join('\r\n'));
    const refused = await peer.next(482);
    expect(refused.header('call-id')).toBe(invite.header('call-id'));
    peer.send(
      [
        `ACK sip:x@127.0.0.1 SIP/2.0`,
        via,
        ...refused.text.split('\r\n').filter((line) => /^(from|to|call-id):/i.test(line)),
        'CSeq: 1 ACK',
        '',
        '',
      ].join('\r\n'),
    );
    peer.respond(invite, 482);
    expect(await dialled).toMatchObject({ cause: 'call_rejected', status: 482 });
  });

  it('a redirect is followed to the same number, three times, and not to another number', async () => {
    const dialled = failure(us.dial('+1555222', carrier));
    for (let i = 0; i < 4; i++) {
      peer.respond(
        await peer.next('INVITE'),
        302,
        [`Contact: <sip:+1555222@127.0.0.1:${peer.port};x=${i}>`],
        '',
        `t${i}`,
      );
    }
    expect(await dialled).toEqual({ code: 'rejected', cause: 'unspecified', status: 302 });
    const forwarded = failure(us.dial('+1555222', carrier));
    peer.respond(await peer.next('INVITE'), 302, [`Contact: <sip:+881999@127.0.0.1:${peer.port}>`]);
    expect((await forwarded).status).toBe(302);
  });

  it.each(['MD5', 'SHA-256'])('answers a %s challenge once, and in the dialog too', async (algorithm) => {
    const auth = { username: 'acct', password: 'pw' };
    const dialled = us.gateway.dial(
      {
        ...{ to: '+1555222', from: 'anonymous', gateways: [{ uri: carrier, auth }], ringTimeoutMs: 5000 },
        offerFor: async () => someSdp,
      },
      new AbortController().signal,
    );
    const challenge = [`Proxy-Authenticate: Digest realm="c", nonce="n1", algorithm=${algorithm}`];
    const first = await peer.next('INVITE');
    expect(first.header('from')).toMatch(/^"Anonymous" <sip:anonymous@anonymous\.invalid>;tag=/);
    expect(first.header('privacy')).toBe('id');
    peer.respond(first, 407, challenge);
    const second = await peer.next('INVITE');
    const uri = second.startLine.split(' ')[1] ?? '';
    const expected = answerChallenge(
      { status: 407, challenges: [challenge[0]?.slice('Proxy-Authenticate: '.length) ?? ''] },
      { method: 'INVITE', uri },
      auth,
    );
    expect(second.header('proxy-authorization')).toBe(expected?.value);
    expect(second.header('cseq')).toBe('2 INVITE');
    expect(second.header('call-id')).toBe(first.header('call-id'));
    expect(second.header('from')).toBe(first.header('from'));
    peer.respond(second, 200, contact(), someSdp);
    const leg = await within(dialled);
    await peer.next('ACK');
    const sent = leg.sendInfo(
      { contentType: 'application/dtmf-relay', body: 'Signal=1' },
      new AbortController().signal,
    );
    peer.respond(await peer.next('INFO'), 407, challenge);
    const again = await peer.next('INFO');
    expect(again.header('proxy-authorization')).toContain('username="acct"');
    peer.respond(again, 200);
    expect(await within(sent)).toBe(200);
    expect(JSON.stringify(us.gateway.trace(leg.sipCallId))).not.toContain('username=');
    await hangUp(leg);
  });

  it('wrong credentials are not sent twice', async () => {
    const dialled = failure(
      us.gateway.dial(
        {
          ...{ to: '+1', from: '+2', gateways: [{ uri: carrier, auth: { username: 'a', password: 'b' } }] },
          ...{ offerFor: async () => someSdp, ringTimeoutMs: 5000 },
        },
        new AbortController().signal,
      ),
    );
    for (const nonce of ['n1', 'n2']) {
      peer.respond(await peer.next('INVITE'), 401, [`WWW-Authenticate: Digest realm="c", nonce="${nonce}"`]);
    }
    expect(await dialled).toEqual({ code: 'rejected', cause: 'call_rejected', status: 401 });
  });

  it('a number or gateway that is none is refused before anything is sent', async () => {
    expect(await failure(us.dial('a b', carrier))).toMatchObject({ code: 'protocol', cause: 'not_found' });
    expect(await failure(us.dial('+1', 'http://x'))).toMatchObject({ code: 'protocol' });
    expect(await failure(us.dial('+1', 'sip:no-such-host.invalid'))).toMatchObject({ code: 'unreachable' });
    expect(peer.received).toEqual([]);
  });

  it('an early UPDATE and a reliable 183 do not disturb the call', async () => {
    const dialled = us.dial('+1555222', carrier);
    const invite = await peer.next('INVITE');
    peer.respond(invite, 183, [...contact(), 'Require: 100rel', 'RSeq: 1'], someSdp);
    const prack = await peer.next('PRACK');
    expect(prack.header('rack')).toBe('1 1 INVITE');
    peer.respond(prack, 200);
    peer.respond(invite, 200, contact());
    const leg = await within(dialled);
    expect(leg.remoteSdp).toBe(someSdp);
    await peer.next('ACK');
    await hangUp(leg);
  });
});

describe('two gateways', () => {
  it('call each other, offer anew, glare, transfer, hang up', async () => {
    const a = await openTestGateway();
    const b = await openTestGateway();
    b.collectCalls();
    const ringing = a.dial('+15552223333', b.uri);
    const call = await b.nextCall();
    expect(call.to.number).toBe('+15552223333');
    await call.ring();
    const bLeg = await call.answer(someSdp);
    const aLeg = await within(ringing);
    await within(Promise.all([aLeg.confirmed, bLeg.confirmed]));

    const held = someSdp.replace('sendrecv', 'sendonly');
    const signal = new AbortController().signal;
    expect(await within(aLeg.reoffer(held, signal))).toEqual({ ok: someSdp });
    expect(bLeg.remoteSdp).toBe(held);
    // Both at once: each refuses the other with 491, and both get through in the end (RFC 3261 14.1).
    const both = await within(Promise.all([aLeg.reoffer(held, signal), bLeg.reoffer(someSdp, signal)]), 15_000);
    expect(both.every((result) => 'ok' in result)).toBe(true);

    bLeg.onRefer(async ({ to }) => {
      expect(to).toBe('sip:+1999@elsewhere');
      return { accept: true };
    });
    expect(await within(aLeg.transfer('sip:+1999@elsewhere', signal))).toEqual({ status: 'completed' });

    await within(bLeg.hangup('transferred'));
    expect(await within(aLeg.ended)).toEqual({
      cause: 'normal_clearing',
      by: 'remote',
      detail: { q850: 16, text: 'transferred' },
    });
    for (const gateway of [a, b]) {
      await gateway.expectNothingLeft();
      expect(gateway.errors()).toEqual([]);
      await gateway.close();
    }
  });
});
