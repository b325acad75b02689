/** A server behind address translation: 127.0.0.2 stands for the outside, 127.0.0.1 for our own net. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { SipPeer } from '../support/bare-sip-peer.js';
import { eventually } from '../support/media-engine.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { RtpPhone } from '../support/rtp-phone.js';

const external = '203.0.113.9';
let app: TestApp;
beforeAll(async () => {
  app = await startTestApp(
    { TRUNKLINE_EXTERNAL_IP: external, TRUNKLINE_LOCAL_NETS: '127.0.0.1/32', TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' },
    { t1: 100, t2: 400, t4: 500 },
  );
});
afterAll(() => app.end());

const port = () => app.sip.addresses[0]?.port ?? 0;

it.each([
  ['outside', '127.0.0.2', external],
  ['within', '127.0.0.1', '127.0.0.1'],
])('a phone %s behind a router of its own hears our right address, and itself', async (_where, address, told) => {
  const phone = await SipPeer.open(port(), address);
  const rtp = await RtpPhone.open(address);
  const number = '+15550100';
  // All that it says of itself is an address of a net that nobody else can reach.
  const hidden = '10.99.0.7';
  const invite = {
    ...{ callId: `nat-${told}`, branch: `z9hG4bK-nat-${told}`, cseq: 1 },
    ...{ from: `<sip:1001@${hidden}>;tag=mine`, to: `<sip:${number}@127.0.0.1>`, uri: `sip:${number}@127.0.0.1` },
  };
  const head = (method: string, branch: string, to: string) => [
    `${method} ${invite.uri} SIP/2.0`,
    `Via: SIP/2.0/UDP ${hidden}:5060;branch=${branch};rport`,
    'Max-Forwards: 70',
    `From: ${invite.from}`,
    `To: ${to}`,
    `Call-ID: ${invite.callId}`,
    `CSeq: 1 ${method}`,
  ];
  const sdp = rtp.sdp({ address: hidden });
  phone.send(
    [
      ...head('INVITE', invite.branch, invite.to),
      `Contact: <sip:1001@${hidden}:5060>`,
      'Content-Type: application/sdp',
      `Content-Length: ${sdp.length}`,
      '',
      sdp,
    ].join('\r\n'),
  );
  const answer = await phone.next(200);
  expect(answer.header('via')).toContain(`received=${address}`);
  expect(answer.header('via')).toContain(`rport=${phone.port}`);
  expect(answer.header('contact')).toContain(`${told}:`);
  expect(answer.body).toContain(`c=IN IP4 ${told}`);
  expect(answer.body).toMatch(new RegExp(`^o=.* IN IP4 ${told}\r$`, 'm'));
  if (told === external) expect(`${answer.header('contact')}${answer.body}`).not.toContain('127.0.0.1');
  phone.send([...head('ACK', `${invite.branch}-ack`, answer.header('to')), 'Content-Length: 0', '', ''].join('\r\n'));
  // Audio goes back to where it comes from, whatever the SDP says.
  rtp.to = { address: '127.0.0.1', port: Number(/^m=audio (\d+)/m.exec(answer.body)?.[1]) };
  await eventually(async () => {
    await rtp.talk(5, () => new Uint8Array(160).fill(0x21));
    return rtp.heard.some(({ payload }) => payload[0] === 0x21);
  }, 'the echo');
  const { data } = await app.api<{ data: { id: string; status: string }[] }>('GET', '/v1/calls');
  const id = data.find(({ status }) => status === 'in_progress')?.id;
  const hungUp = app.api('POST', `/v1/calls/${id}/hangup`);
  phone.respond(await phone.next('BYE'), 200); // our BYE finds it there as well
  await hungUp;
  await phone.close();
  rtp.close();
});

it('a carrier outside is called from our address outside', async () => {
  const carrier = await SipPeer.open(port(), '127.0.0.2');
  const rtp = await RtpPhone.open('127.0.0.2');
  const trunk = await addTrunk(app, [`sip:127.0.0.2:${carrier.port}`]);
  const { data } = await app.api<{ data: { id: string; endpoint_id: string }[] }>('GET', '/v1/phone-numbers');
  placeOutbound(app, { to: '+12025550188', numberId: data[0]?.id ?? '', endpointId: data[0]?.endpoint_id ?? '' });
  const invite = await carrier.next('INVITE');
  expect(invite.header('via')).toMatch(new RegExp(`^SIP/2.0/UDP ${external}:\\d+;.*rport`));
  expect(invite.header('contact')).toContain(`sip:${external}:`);
  expect(invite.header('from')).toContain(`@${external}`);
  expect(invite.body).toContain(`c=IN IP4 ${external}`);
  expect(invite.text).not.toContain('127.0.0.1');
  carrier.respond(invite, 200, [`Contact: <sip:carrier@10.99.0.8:5060>`], rtp.sdp({ address: '10.99.0.8' }));
  await carrier.next('ACK'); // to where the answer came from: nobody is at its Contact
  rtp.to = { address: '127.0.0.1', port: Number(/^m=audio (\d+)/m.exec(invite.body)?.[1]) };
  await eventually(async () => {
    await rtp.talk(5, () => new Uint8Array(160).fill(0x22));
    return rtp.heard.some(({ payload }) => payload[0] === 0x22);
  }, 'the echo');
  const { data: calls } = await app.api<{ data: { id: string; status: string }[] }>('GET', '/v1/calls');
  const hungUp = app.api('POST', `/v1/calls/${calls.find(({ status }) => status === 'in_progress')?.id}/hangup`);
  carrier.respond(await carrier.next('BYE'), 200);
  await hungUp;
  await app.finishedCall('+12025550188');
  await app.api('DELETE', `/v1/trunks/${trunk}`);
  await carrier.close();
  rtp.close();
});
