import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SipResponse } from '../../sip/server/message/message.js';
import { SipPeer } from '../support/sip-peer.js';
import { openTestServer, type TestServer } from '../support/sip-server.js';

let t: TestServer;
let asked = 0;

beforeAll(async () => {
  t = await openTestServer();
  t.srf.use('options', (_req, res) => {
    asked++;
    res.send(200);
  });
  t.srf.use('register', (_req, res) => {
    res.send(200);
  });
});
afterAll(async () => {
  await t.idle();
  await t.close();
});

/** Sends it, and returns the first response, or null when a sound request sent afterwards was answered first. */
async function answerTo(make: (peer: SipPeer) => string | Buffer): Promise<SipResponse | null> {
  const peer = await SipPeer.open(t.port);
  try {
    peer.send(make(peer));
    peer.send(peer.request('OPTIONS', { 'Call-ID': 'afterwards' }));
    await peer.wait((m) => m.callId === 'afterwards');
    const first = peer.received[0];
    return first?.callId === 'afterwards' && peer.received.length === 1
      ? null
      : ((await peer.wait(
          (m) => m.callId !== 'afterwards' && m instanceof SipResponse && m.status >= 200,
        )) as SipResponse);
  } finally {
    await peer.close();
  }
}

describe('a request that is not sound is answered before anything looks at it', () => {
  const cases: [string, number, (p: SipPeer) => string | Buffer][] = [
    ['another SIP version', 505, (p) => p.request('OPTIONS', {}, '', 'OPTIONS sip:bob@127.0.0.1 SIP/7.0')],
    ['an unknown method', 501, (p) => p.request('DANCE')],
    ['an unknown scheme', 416, (p) => p.request('OPTIONS', {}, '', 'OPTIONS nobodyKnowsThisScheme:x SIP/2.0')],
    ['a Request-URI that is none', 400, (p) => p.request('OPTIONS', {}, '', 'OPTIONS sip:user@@h:port SIP/2.0')],
    ['a call without hops left', 483, (p) => p.request('INVITE', { 'Max-Forwards': '0' })],
    ['Max-Forwards beyond measure', 400, (p) => p.request('OPTIONS', { 'Max-Forwards': '99999999999' })],
    ['an extension nobody knows', 420, (p) => p.request('OPTIONS', { Require: '100rel, teleport' })],
    ['a Content-Length larger than the datagram', 400, (p) => p.request('OPTIONS', { 'Content-Length': '9999' })],
    ['a negative Content-Length', 400, (p) => p.request('OPTIONS', { 'Content-Length': '-999' })],
    ['two From headers', 400, (p) => p.request('OPTIONS', { f: '<sip:other@h>;tag=2' })],
    ['two Call-IDs', 400, (p) => p.request('OPTIONS', { i: 'second' })],
    ['no To', 400, (p) => p.request('OPTIONS', { To: '' })],
    ['no CSeq', 400, (p) => p.request('OPTIONS', { CSeq: '' })],
    ['CSeq of another method', 400, (p) => p.request('OPTIONS', { CSeq: '1 INVITE' })],
    ['a CSeq number beyond 31 bits', 400, (p) => p.request('OPTIONS', { CSeq: '36893488147419103232 OPTIONS' })],
    ['an open quote in From', 400, (p) => p.request('OPTIONS', { From: '"Mr. <sip:a@h>;tag=1' })],
    ['an open bracket in To', 400, (p) => p.request('OPTIONS', { To: '<sip:a@h' })],
    ['a line without a colon', 400, (p) => p.request('OPTIONS').replace('Max-Forwards:', 'Max-Forwards')],
    ['a bar in Call-ID', 400, (p) => p.request('OPTIONS', { 'Call-ID': 'a|b' })],
    ['BYE outside a dialog', 481, (p) => p.request('BYE')],
    ['CANCEL of nothing', 481, (p) => p.request('CANCEL')],
    ['INVITE with the tag of no dialog', 481, (p) => p.request('INVITE', { To: '<sip:b@h>;tag=none' })],
    ['INVITE nobody wants', 503, (p) => p.request('INVITE')],
    ['SUBSCRIBE nobody wants', 405, (p) => p.request('SUBSCRIBE')],
  ];
  it.each(cases)('%s → %i', async (_what, status, make) => {
    expect((await answerTo(make))?.status).toBe(status);
  });

  it('420 names the extensions, 405 and 501 what is allowed', async () => {
    expect((await answerTo((p) => p.request('OPTIONS', { Require: '100rel, teleport' })))?.get('unsupported')).toBe(
      'teleport',
    );
    expect((await answerTo((p) => p.request('DANCE')))?.get('allow')).toContain('INVITE');
    expect((await answerTo((p) => p.request('PUBLISH')))?.get('allow')).toContain('INVITE');
  });
});

describe('silence', () => {
  const cases: [string, (p: SipPeer) => string | Buffer][] = [
    ['noise', () => Buffer.from([1, 2, 3, 255, 0, 10])],
    ['an empty datagram', () => Buffer.alloc(0)],
    ['64 kB of nothing', () => Buffer.alloc(65_000, 'a')],
    ['no Via', (p) => p.request('OPTIONS', { Via: '' })],
    ['a Via that is none', (p) => p.request('OPTIONS', { Via: 'SIP/2.0/UDP' })],
    ['an ACK for nothing', (p) => p.request('ACK')],
    ['an ACK without Call-ID', (p) => p.request('ACK', { 'Call-ID': '' })],
    ['a response to nothing', () => 'SIP/2.0 200 OK\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKno\nCSeq: 1 INVITE\n\n'],
    ['carriage returns only', (p) => p.request('OPTIONS').replaceAll('\r\n', '\r')],
  ];
  it.each(cases)('answers %s with nothing', async (_what, make) => {
    expect(await answerTo(make)).toBeNull();
  });
});

describe('odd but sound requests reach the application', () => {
  const cases: [string, (p: SipPeer) => string | Buffer][] = [
    [
      'folded lines and compact forms',
      (p) => p.request('OPTIONS', { Subject: 'a\r\n b\r\n\tc', From: '', f: '"x\\"y" <sip:a@h;p>;tag=1' }),
    ],
    [
      'a whole lot of headers',
      (p) => p.request('OPTIONS', Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`X-${i}`, 'v']))),
    ],
    [
      'bytes that are no UTF-8',
      (p) => Buffer.from(p.request('OPTIONS', { From: '"\xe4\xff" <sip:a@h>;tag=1' }), 'latin1'),
    ],
    [
      'a branch without the cookie (RFC 2543)',
      (p) => p.request('OPTIONS', { Via: `SIP/2.0/UDP 127.0.0.1:${p.port};branch=1` }),
    ],
    ['no branch at all (RFC 2543)', (p) => p.request('OPTIONS', { Via: `SIP/2.0/UDP 127.0.0.1:${p.port}` })],
    [
      'unknown Content-Type, and a body with NUL',
      (p) => p.request('OPTIONS', { 'Content-Type': 'application/x-none' }, 'a\0b'),
    ],
    ['no Contact, which only a request that can make a dialog needs', (p) => p.request('OPTIONS', { Contact: '' })],
    ['no hops left: nothing is passed on', (p) => p.request('OPTIONS', { 'Max-Forwards': '0' })],
    ['rubbish after the body', (p) => `${p.request('OPTIONS')}rubbish`],
    [
      'escaped characters in URIs',
      (p) => p.request('OPTIONS', {}, '', 'OPTIONS sip:%61%00;x=%22@127.0.0.1;unknownparam=1?h=v SIP/2.0'),
    ],
  ];
  it.each(cases)('%s', async (_what, make) => {
    const before = asked;
    const response = await answerTo(make);
    expect(response?.status).toBe(200);
    expect(asked).toBe(before + 2);
  });
});

it('answers a repeated request with the same answer and asks the application once', async () => {
  const peer = await SipPeer.open(t.port);
  const before = asked;
  const text = peer.request('OPTIONS');
  for (let i = 0; i < 5; i++) peer.send(text);
  await peer.wait(() => peer.received.length === 5 || (asked === before + 1 && peer.received.length >= 1));
  peer.send(text);
  await peer.wait((m) => m !== peer.received[0]);
  expect(asked).toBe(before + 1);
  expect(new Set(peer.received.map((m) => m.raw.toString())).size).toBe(1);
  await peer.close();
});

it('refuses the second copy of a request that came by two ways (8.2.2.2)', async () => {
  const peer = await SipPeer.open(t.port);
  peer.send(peer.request('REGISTER', { 'Call-ID': 'merged' }));
  peer.send(peer.request('REGISTER', { 'Call-ID': 'merged' }));
  await peer.response(200);
  await peer.response(482);
  await peer.close();
});
