import dgram from 'node:dgram';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SipRequest } from '../../sip/server/message/message.js';
import { SipPeer } from '../support/sip-peer.js';
import { openTestServer, SDP, type TestServer } from '../support/sip-server.js';

let t: TestServer;
let peer: SipPeer;

beforeAll(async () => {
  t = await openTestServer();
  peer = await SipPeer.open(t.port);
  t.srf.invite((_req, res) => {
    res.send(486);
  });
  t.srf.use('options', (_req: unknown, res: { send(status: number): void }) => res.send(200));
});
afterAll(async () => {
  await t.idle(15_000);
  // rejects when anything was thrown inside
  await t.close();
  await peer.close();
});

/** Some bytes changed, cut out or doubled. */
function spoil(bytes: Buffer, changes: [number, number, number][]): Buffer {
  let spoilt = Buffer.from(bytes);
  for (const [at, value, kind] of changes) {
    const i = at % (spoilt.length || 1);
    if (kind === 0) spoilt[i] = value;
    else if (kind === 1) spoilt = Buffer.concat([spoilt.subarray(0, i), spoilt.subarray(i + (value % 20))]);
    else spoilt = Buffer.concat([spoilt.subarray(0, i), spoilt.subarray(Math.max(0, i - (value % 40)))]);
  }
  return spoilt;
}

const changes = fc.array(fc.tuple(fc.nat(2000), fc.nat(255), fc.nat(2)), { minLength: 1, maxLength: 6 });

it('spoilt requests and responses throw nothing, and sound ones are still answered', async () => {
  const dialling = (t.srf as unknown as { createUAC(uri: string, o: object): Promise<unknown> })
    .createUAC(`sip:x@127.0.0.1:${peer.port}`, { localSdp: SDP })
    .catch(() => undefined);
  const invite = await peer.requestOf('INVITE');
  const response = Buffer.from(
    [
      'SIP/2.0 183 Progress',
      ...invite.list('via').map((via) => `Via: ${via}`),
      `From: ${invite.get('from')}`,
      `To: ${invite.get('to')};tag=z`,
      `Call-ID: ${invite.callId}`,
      `CSeq: ${invite.get('cseq')}`,
      'Contact: <sip:x@127.0.0.1:9>',
      'Record-Route: <sip:127.0.0.1:9;lr>',
      'Session-Expires: 1800;refresher=uas',
      'Content-Length: 0\r\n\r\n',
    ].join('\r\n'),
  );
  const sound = () => [
    Buffer.from(
      peer.request(
        'INVITE',
        { Supported: 'timer, 100rel', 'Session-Expires': '90', 'Record-Route': '<sip:p;lr>' },
        SDP,
      ),
    ),
    Buffer.from(peer.request('OPTIONS', { Route: '<sip:a;lr>, <sip:b>' })),
    Buffer.from(peer.request('ACK')),
    Buffer.from(peer.request('CANCEL')),
    Buffer.from(peer.request('PRACK', { RAck: '1 1 INVITE', To: '<sip:a@b>;tag=1' })),
    response,
  ];
  // from a socket of its own: what comes back there is of no interest
  const noise = dgram.createSocket('udp4');
  for (const [i, sample] of fc.sample(changes, { numRuns: 3000, seed: 4475 }).entries()) {
    noise.send(spoil(sound()[i % 6]!, sample), t.port, '127.0.0.1');
    if (i % 100 === 0) {
      peer.send(peer.request('OPTIONS', { 'Call-ID': `alive-${i}` }));
      await peer.wait((m) => m.callId === `alive-${i}`);
    }
  }
  await new Promise<void>((resolve) => noise.close(() => resolve()));
  peer.respond(invite, 486);
  await dialling;
  expect(peer.count((m) => m instanceof SipRequest && m.method === 'INVITE')).toBeGreaterThan(0);
  expect(t.failures).toEqual([]);
});
