/** Session timers of the calls that we place (RFC 4028): offered in the INVITE, made longer when 422 asks for it, kept by offers within the call. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type PeerMessage, SipPeer, someSdp } from '../support/bare-sip-peer.js';
import { openTestGateway, type TestGateway, within } from '../support/sip-gateway.js';

let us: TestGateway;
let peer: SipPeer;
const contact = () => [`Contact: ${peer.contact}`];
const dial = () => us.dial('+15552223333', `sip:127.0.0.1:${peer.port}`);
const identity = (invite: PeerMessage) => [invite.header('call-id'), invite.header('from')];

beforeAll(async () => {
  us = await openTestGateway();
});
beforeEach(async () => {
  peer = await SipPeer.open(us.port);
});
afterEach(async () => {
  await us.expectNoLegs();
  await peer.close();
});
afterAll(async () => {
  await us.expectNothingLeft();
  await us.close();
});

describe('an INVITE of ours', () => {
  it('offers a session timer, and our offers within the call keep what was agreed', async () => {
    const dialled = dial();
    const invite = await peer.next('INVITE');
    expect(invite.header('supported')).toMatch(/\btimer\b/);
    expect([invite.header('session-expires'), invite.header('min-se')]).toEqual(['1800', '90']);
    peer.respond(invite, 200, [...contact(), 'Require: timer', 'Session-Expires: 1200;refresher=uas'], someSdp);
    const leg = await within(dialled);
    await peer.next('ACK');
    const reoffered = leg.reoffer(someSdp, new AbortController().signal);
    const reinvite = await peer.next('INVITE');
    expect(reinvite.header('session-expires')).toBe('1200;refresher=uas');
    peer.respond(reinvite, 200, [...contact(), 'Require: timer', 'Session-Expires: 1200;refresher=uac'], someSdp);
    await within(reoffered);
    await peer.next('ACK');
    const again = leg.reoffer(someSdp, new AbortController().signal);
    const second = await peer.next('INVITE');
    expect(second.header('session-expires')).toBe('1200;refresher=uac');
    peer.respond(second, 200, contact(), someSdp);
    await within(again);
    await peer.next('ACK');
    const hungUp = leg.hangup();
    peer.respond(await peer.next('BYE'), 200);
    await within(hungUp);
  });

  it('that is too short is sent again with what the 422 asks for', async () => {
    const dialled = dial();
    const first = await peer.next('INVITE');
    peer.respond(first, 422, ['Min-SE: 3600']);
    const second = await peer.next('INVITE');
    expect([second.header('session-expires'), second.header('min-se')]).toEqual(['3600', '3600']);
    expect(identity(second)).toEqual(identity(first));
    expect(second.header('cseq')).toBe('2 INVITE');
    peer.respond(second, 422, ['Min-SE: 4000']);
    const third = await peer.next('INVITE');
    expect(third.header('session-expires')).toBe('4000');
    peer.respond(third, 200, contact(), someSdp);
    const leg = await within(dialled);
    const hungUp = leg.hangup();
    peer.respond(await peer.next('BYE'), 200);
    await within(hungUp);
  });

  it.each([
    ['does not say what is long enough', []],
    ['asks for what we offered', ['Min-SE: 90']],
  ])('is refused when the 422 %s', async (_what, lines) => {
    const dialled = dial();
    const refused = expect(within(dialled)).rejects.toMatchObject({ code: 'rejected', sipStatus: 422 });
    peer.respond(await peer.next('INVITE'), 422, lines);
    await refused;
  });

  it('keeps its longer interval when it is challenged on the way', async () => {
    const dialled = us.gateway.dial(
      {
        ...{ to: '+15552223333', from: '+15550001111', ringTimeoutMs: 5000, offerFor: async () => someSdp },
        gateways: [{ uri: `sip:127.0.0.1:${peer.port}`, auth: { username: 'u', password: 'p' } }],
      },
      new AbortController().signal,
    );
    const refused = expect(within(dialled)).rejects.toMatchObject({ sipStatus: 486 });
    peer.respond(await peer.next('INVITE'), 422, ['Min-SE: 3600']);
    peer.respond(await peer.next('INVITE'), 407, ['Proxy-Authenticate: Digest realm="r", nonce="n"']);
    const third = await peer.next('INVITE');
    expect([third.header('session-expires'), third.header('proxy-authorization').slice(0, 6)]).toEqual([
      '3600',
      'Digest',
    ]);
    peer.respond(third, 486);
    await refused;
  });
});
