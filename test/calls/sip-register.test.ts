import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { answerChallenge } from '../../sip/auth/digest.js';
import { type PeerMessage, SipPeer, someSdp } from '../support/bare-sip-peer.js';
import { openTestGateway, phoneTrunk, type TestGateway, within } from '../support/sip-gateway.js';

const user = { username: 'desk1', password: 'secret' };

describe('phones that register', () => {
  let us: TestGateway;
  let peer: SipPeer;
  let cseq = 0;

  beforeAll(async () => {
    us = await openTestGateway([phoneTrunk('desk1')], { registrar: { minExpiresSec: 1 }, probeEveryMs: 100 });
    us.collectCalls();
  });
  beforeEach(async () => {
    peer = await SipPeer.open(us.port);
  });
  afterEach(async () => {
    await us.expectNoLegs();
    expect(us.errors()).toEqual([]);
    await peer.close();
  });
  afterAll(async () => {
    await us.expectNothingLeft();
    expect(us.gateway.counters().registrations).toBe(0);
    await us.close();
  });

  const identity = () => ({
    ...{ callId: `reg-${peer.port}`, branch: '', from: '<sip:desk1@127.0.0.1>;tag=r', to: '<sip:desk1@127.0.0.1>' },
    ...{ uri: `sip:127.0.0.1:${us.port}`, cseq: 0 },
  });

  async function register(lines: string[], credentials = user): Promise<PeerMessage> {
    peer.request('REGISTER', identity(), lines, '', undefined, ++cseq);
    const challenge = await peer.next(401);
    expect(challenge.all('www-authenticate')).toHaveLength(2);
    const answer = answerChallenge(
      { status: 401, challenges: challenge.all('www-authenticate') },
      { method: 'REGISTER', uri: identity().uri },
      credentials,
    );
    peer.request('REGISTER', identity(), [...lines, `Authorization: ${answer?.value}`], '', undefined, ++cseq);
    for (;;) {
      const final = await peer.next([200, 403]);
      if (/REGISTER/.test(final.header('cseq'))) return final;
    }
  }

  /** An INVITE that has to be challenged, and is sent again with these credentials. */
  async function inviteWith(credentials: typeof user) {
    const invite = peer.invite();
    const challenge = await peer.next(401);
    peer.ackFailure(invite, challenge);
    const answer = answerChallenge(
      { status: 401, challenges: challenge.all('www-authenticate') },
      { method: 'INVITE', uri: invite.uri },
      credentials,
    );
    const again = { ...invite, branch: `${invite.branch}2`, cseq: 2 };
    peer.request('INVITE', again, [`Contact: ${peer.contact}`, `Authorization: ${answer?.value}`], someSdp);
    return again;
  }

  it('register, call, are called at their source, and unregister', async () => {
    const bound = await register(['Contact: <sip:desk1@10.9.9.9:5060>', 'Expires: 60']);
    expect(bound.header('contact')).toBe('<sip:desk1@10.9.9.9:5060>;expires=60');
    expect(us.gateway.counters().registrations).toBe(1);

    const invite = await inviteWith(user);
    const call = await us.nextCall();
    expect(call.trunk).toEqual({ trunkId: 'desk1', organizationId: null, name: 'desk1', trustedBy: 'digest' });
    call.reject({ status: 486 });
    peer.ackFailure(invite, await peer.next(486));

    // Its Contact is an address nobody reaches: the call must come to where the REGISTER came from.
    const dialled = us.dial('+15551234567', 'sip:desk1');
    const incoming = await peer.next('INVITE');
    expect(incoming.startLine).toBe('INVITE sip:desk1@10.9.9.9:5060 SIP/2.0');
    expect(incoming.header('to')).toBe('<sip:+15551234567@127.0.0.1>');
    expect(incoming.header('p-called-party-id')).toBe('<sip:+15551234567@127.0.0.1>');
    peer.respond(incoming, 200, ['Contact: <sip:desk1@10.9.9.9:5060>'], someSdp);
    const leg = await within(dialled);
    await peer.next('ACK');
    const hungUp = leg.hangup();
    peer.respond(await peer.next('BYE'), 200);
    await within(hungUp);

    const gone = await register(['Contact: *', 'Expires: 0']);
    expect(gone.header('contact')).toBe('');
    await expect(us.dial('+15551234567', 'sip:desk1')).rejects.toMatchObject({
      code: 'unreachable',
      hangupCause: 'carrier_unreachable',
    });
  });

  it('behind proxies are called through them, as their Path says', async () => {
    const path = ['<sip:flow1@127.0.0.1:5070;lr;ob>', '<sip:inner.example;lr>'];
    const bound = await register([
      'Contact: <sip:desk1@10.9.9.9:5060>',
      'Expires: 60',
      'Supported: path',
      ...path.map((value) => `Path: ${value}`),
    ]);
    expect(bound.header('path')).toBe(path.join(', '));
    expect(bound.header('supported')).toBe('path');
    const dialled = us.dial('+15551234567', 'sip:desk1');
    // to where the REGISTER came from, whatever the first proxy says of itself
    const incoming = await peer.next('INVITE');
    expect(incoming.startLine).toBe('INVITE sip:desk1@10.9.9.9:5060 SIP/2.0');
    expect(incoming.all('route').join(', ')).toBe(path.join(', '));
    peer.respond(incoming, 200, ['Contact: <sip:desk1@10.9.9.9:5060>'], someSdp);
    const leg = await within(dialled);
    await peer.next('ACK');
    const hungUp = leg.hangup();
    peer.respond(await peer.next('BYE'), 200);
    await within(hungUp);
    await register(['Contact: *', 'Expires: 0']);
  });

  it('are asked by OPTIONS at their source, and are down while they are not registered', async () => {
    const uri = 'sip:desk1';
    const { keepalive } = us.gateway;
    onTestFinished(() => keepalive.replace([]));
    keepalive.replace([{ uri, register: null }]);
    await expect.poll(() => keepalive.stateOf(uri)).toBe('down');
    await register(['Contact: <sip:desk1@10.9.9.9:5060>', 'Expires: 60']);
    const options = await peer.next('OPTIONS');
    expect(options.startLine).toBe('OPTIONS sip:desk1@10.9.9.9:5060 SIP/2.0');
    peer.respond(options, 200);
    await expect.poll(() => keepalive.stateOf(uri)).toBe('up');
    await register(['Contact: *', 'Expires: 0']);
    await expect.poll(() => keepalive.stateOf(uri)).toBe('down');
  });

  it('are forgotten when their time is over', async () => {
    await register(['Contact: <sip:desk1@127.0.0.1>;expires=1']);
    expect(us.gateway.counters().registrations).toBe(1);
    await expect.poll(() => us.gateway.counters().registrations, { timeout: 5000 }).toBe(0);
  });

  it('get 403 for a wrong password and for a name that does not exist', async () => {
    expect((await register(['Contact: <sip:desk1@x>'], { ...user, password: 'x' })).status).toBe(403);
    expect((await register(['Contact: <sip:desk1@x>'], { username: 'ghost', password: 'x' })).status).toBe(403);
    expect(us.gateway.counters().registrations).toBe(0);
  });

  it('an unknown source proves itself by digest on its INVITE; a wrong one is refused like any stranger', async () => {
    const blocked = () => us.gateway.counters().refused.blocked_source ?? 0;
    const before = blocked();
    const attempt = async (credentials: typeof user) => {
      const refused = await inviteWith(credentials);
      peer.ackFailure(refused, await peer.next(403));
    };
    const trusted = await inviteWith(user);
    const call = await us.nextCall();
    expect(call.trunk.trustedBy).toBe('digest');
    call.reject({ status: 480 });
    peer.ackFailure(trusted, await peer.next(480));
    await attempt({ ...user, password: 'x' });
    await attempt({ username: 'ghost', password: 'secret' });
    expect(blocked() - before).toBe(2);
  });

  it('a registered source is challenged like any other: a forged or reassigned address is refused', async () => {
    await register(['Contact: <sip:desk1@127.0.0.1>', 'Expires: 60']);
    const forged = await inviteWith({ ...user, password: 'x' });
    peer.ackFailure(forged, await peer.next(403));
    const invite = await inviteWith(user);
    (await us.nextCall()).reject({ status: 480 });
    peer.ackFailure(invite, await peer.next(480));
    await register(['Contact: *', 'Expires: 0']);
  });

  it.each([
    ['its own trunk names the address: it need not', ['127.0.0.1/32'], null],
    ['another trunk does: its user has to be proved, for the call is its', [], '127.0.0.0/8'],
  ] as const)('a registered source whose address is trusted: %s', async (_what, own, other) => {
    const carrier = phoneTrunk('carrier', { username: null, password: null, addresses: other ? [other] : [] });
    us.trunks.replace([phoneTrunk('desk1', { addresses: [...own] }), carrier]);
    await register(['Contact: <sip:desk1@127.0.0.1>', 'Expires: 60']);
    const invite = other ? await inviteWith(user) : peer.invite();
    const call = await us.nextCall();
    expect(call.trunk).toMatchObject({ trunkId: 'desk1', trustedBy: other ? 'digest' : 'address' });
    call.reject({ status: 480 });
    peer.ackFailure(invite, await peer.next(480));
    await register(['Contact: *', 'Expires: 0']);
    us.trunks.replace([phoneTrunk('desk1')]);
  });

  it('a registered source is trusted no longer than its trunk', async () => {
    await register(['Contact: <sip:desk1@127.0.0.1>', 'Expires: 60']);
    us.trunks.replace([phoneTrunk('desk1', { status: 'inactive' })]);
    const invite = peer.invite();
    peer.ackFailure(invite, await peer.next(403));
    us.trunks.replace([phoneTrunk('desk1')]);
    await register(['Contact: *', 'Expires: 0']);
  });
});
