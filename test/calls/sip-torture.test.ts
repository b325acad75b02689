import { describe, expect, it } from 'vitest';
import { SipPeer, someSdp } from '../support/bare-sip-peer.js';
import { loopbackTrunk, openTestGateway, phoneTrunk, within } from '../support/sip-gateway.js';

/** A small generator with a seed: a failure can be repeated. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const strange = [
  ...[
    '',
    ' ',
    '<',
    '>',
    '"',
    '"""',
    '<sip:',
    '<sip:>',
    'sip:@',
    '<<>>',
    ';',
    ';tag',
    ';tag=',
    ',',
    ',,,',
    '*',
    '\t',
    '%',
    '%zz',
  ],
  ...[
    '\u0000',
    '\u00e9\u4e16',
    '[::1',
    '<sip:a@[::1]:99999>',
    'tel:',
    '<tel:+1;phone-context=>',
    '<sip:a;b;c@d;e;f>;tag=x',
  ],
  ...[
    'x'.repeat(5000),
    '0',
    '-1',
    '99999999999999999999',
    '1 INVITE',
    'Digest',
    'Digest =',
    'Digest realm="trunkline",,=',
  ],
  ...[
    'application/sdp',
    'multipart/mixed;boundary=',
    'multipart/mixed',
    '100rel',
    '100rel,timer,replaces',
    'constructor',
  ],
];

describe('strange messages', () => {
  it('never take the gateway down, and it still takes calls after all of them', async () => {
    const us = await openTestGateway([loopbackTrunk, phoneTrunk('desk1')]);
    us.onCall(async (call) => {
      await call.ring();
      const leg = await call.answer(someSdp);
      leg.onReoffer(async () => ({ sdp: someSdp }));
      void leg.hangup();
    });
    const peer = await SipPeer.open(us.port);
    const next = random(20260101);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)] as T;
    for (let i = 0; i < 600; i++) {
      const method = pick([
        'INVITE',
        'INVITE',
        'REGISTER',
        'OPTIONS',
        'SUBSCRIBE',
        'MESSAGE',
        'BYE',
        'NOTIFY',
        'REFER',
        'ACK',
      ]);
      const fields: [string, string][] = [
        ['Via', `SIP/2.0/UDP 127.0.0.1:${peer.port};branch=z9hG4bK${i};rport`],
        ['From', '<sip:desk1@127.0.0.1>;tag=f'],
        ['To', '<sip:desk1@127.0.0.1>'],
        ['Call-ID', `torture-${i}`],
        ['CSeq', `1 ${method}`],
        ['Contact', peer.contact],
        ['Max-Forwards', '70'],
        ['P-Asserted-Identity', '<tel:+1>'],
        ['Authorization', 'Digest realm="trunkline", username="desk1", nonce="x", uri="x", response="x"'],
        ['Content-Type', 'application/sdp'],
        ['Require', ''],
        ['Supported', '100rel'],
      ];
      for (let change = 0; change < 1 + next() * 3; change++) {
        // The server stops what has no sound From, To, Call-ID and CSeq; most must get past it.
        const first = next() < 0.15 ? 1 : 5;
        const index = first + Math.floor(next() * (fields.length - first));
        if (next() < 0.3) fields.splice(index, 1);
        else fields[index] = [fields[index]?.[0] ?? 'X', pick(strange)];
      }
      const body = next() < 0.3 ? pick(strange) : someSdp;
      const uri = next() < 0.2 ? pick(strange) : `sip:+1555@127.0.0.1:${us.port}`;
      const lines = fields.filter(([name, value]) => name !== 'Require' || value).map((field) => field.join(': '));
      peer.send(
        [`${method} ${uri} SIP/2.0`, ...lines, `Content-Length: ${Buffer.byteLength(body)}`, '', body].join('\r\n'),
      );
      // Not faster than they are read: what the kernel drops tests nothing.
      for (let wait = 0; i % 20 === 0 && wait < 200; wait++) {
        if ((await us.gateway.serverStats()).messagesReceived >= i) break;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      // Requests of ours (BYE) get an answer of some kind.
      const request = peer.received.find((message) => message.method !== '');
      if (request) peer.respond(request, 200 + (i % 4) * 100);
    }
    us.onCall(async (call) => call.reject({ status: 486 }));
    // late answers to the messages above may be 486 too: this call has its own Call-ID
    const invite = peer.invite();
    const ours = () => peer.received.find((each) => each.status === 486 && each.header('call-id') === invite.callId);
    await expect.poll(ours).toBeDefined();
    peer.ackFailure(invite, ours()!);
    expect(us.gateway.connected).toBe(true);
    expect(us.gateway.counters().incomingCalls).toBeGreaterThan(20);
    expect(us.gateway.counters().refused).toMatchObject({
      malformed: expect.any(Number),
      unsupported: expect.any(Number),
    });
    await within(us.expectNothingLeft(), 15_000);
    await peer.close();
    await us.close();
  });
});
