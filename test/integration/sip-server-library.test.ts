import type Srf from 'drachtio-srf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SipMessage, SipResponse } from '../../sip/server/message/message.js';
import { SipPeer } from '../support/sip-peer.js';
import { ask, connect, openTestServer, SDP, type TestServer } from '../support/sip-server.js';

/** Two servers with a library each: what the library does by itself, over ours on both ends. */
let a: TestServer;
let b: TestServer;
let far: SipPeer;

beforeAll(async () => {
  [a, b] = await Promise.all([openTestServer(), openTestServer()]);
});
beforeEach(async () => {
  [a.srf, b.srf] = await Promise.all([connect(a.server), connect(b.server)]);
  far = await SipPeer.open(a.port);
});
afterEach(async () => {
  a.srf.disconnect();
  b.srf.disconnect();
  await far.close();
});
afterAll(async () => {
  [a.srf, b.srf] = await Promise.all([connect(a.server), connect(b.server)]);
  await Promise.all([a.idle(), b.idle()]);
  await Promise.all([a.close(), b.close()]);
});

type Any = { [name: string]: (...given: unknown[]) => Promise<never> };
const loosely = (value: unknown) => value as Any;
const tagged = (answer: SipMessage, cseq: string) => ({
  From: answer.get('from')!,
  To: answer.get('to')!,
  'Call-ID': answer.callId,
  CSeq: cseq,
});

function answerOn(server: TestServer, onDialog: (dialog: Srf.Dialog) => void = () => undefined): void {
  server.srf.invite((req, res) => {
    server.srf.createUAS(req, res, { localSdp: SDP }, (error: unknown, dialog: Srf.Dialog) => {
      if (!error) onDialog(dialog);
    });
  });
}

describe.each(['udp', 'tcp'])('the library calls the library over %s', (transport) => {
  const uri = () => `sip:bob@127.0.0.1:${b.port};transport=${transport}`;

  it('and both hold, refer, notify and hang up', async () => {
    const seen: string[] = [];
    const remote = new Promise<Srf.Dialog>((resolve) => answerOn(b, resolve));
    const dialog = (await loosely(a.srf).createUAC!(uri(), { localSdp: SDP })) as Srf.Dialog;
    const other = await remote;
    other.on('modify', (req, res) => {
      seen.push('modify');
      res.send(200, { body: req.body });
    });
    other.on('refer', (req, res) => {
      seen.push(req.get('Refer-To'));
      res.send(202);
    });
    dialog.on('notify', (req, res) => {
      seen.push(req.body);
      res.send(200);
    });
    const held = SDP.replace('RTP/AVP 0', 'RTP/AVP 0\r\na=sendonly');
    expect(await loosely(dialog).modify!(held)).toBe(held);
    expect(await loosely(dialog).request!({ method: 'REFER', headers: { 'Refer-To': '<sip:c@d>' } })).toMatchObject({
      status: 202,
    });
    const notify = {
      method: 'NOTIFY',
      headers: { Event: 'refer', 'Content-Type': 'message/sipfrag' },
      body: 'SIP/2.0 200 OK',
    };
    expect(await loosely(other).request!(notify)).toMatchObject({ status: 200 });
    expect(await loosely(other).modify!(SDP)).toBe(held);
    const over = new Promise<void>((resolve) => dialog.on('destroy', () => resolve()));
    await other.destroy();
    await over;
    expect(seen).toEqual(['modify', '<sip:c@d>', 'SIP/2.0 200 OK']);
  });

  it('with a delayed offer: the answer is in the ACK', async () => {
    const acked = new Promise<string>((resolve) =>
      answerOn(b, (dialog) => dialog.on('ack', (req) => resolve(req.body))),
    );
    const { sdp, ack } = (await loosely(a.srf).createUAC!(uri(), { noAck: true })) as {
      sdp: string;
      ack(sdp: string): Promise<Srf.Dialog>;
    };
    expect(sdp).toBe(SDP);
    const answer = SDP.replace('15000', '16000');
    const dialog = await ack(answer);
    expect(await acked).toBe(answer);
    await dialog.destroy();
  });
});

it('a back-to-back user agent passes both legs through one server', async () => {
  answerOn(b);
  a.srf.invite((req, res) => {
    loosely(a.srf).createB2BUA!(req, res, `sip:bob@127.0.0.1:${b.port}`, { localSdpB: req.body }).then(
      (legs: { uas: Srf.Dialog; uac: Srf.Dialog }) => {
        legs.uas.on('destroy', () => void legs.uac.destroy());
      },
    );
  });
  far.send(far.request('INVITE', {}, SDP));
  const answer = await far.response(200, 'INVITE');
  expect(answer.body.toString()).toBe(SDP);
  far.send(far.request('ACK', tagged(answer, '1 ACK')));
  await expect.poll(async () => (await a.server.stats()).live.dialogs).toBe(2);
  far.send(far.request('BYE', tagged(answer, '2 BYE')));
  await far.response(200, 'BYE');
  await expect.poll(async () => (await b.server.stats()).live.dialogs).toBe(0);
});

it('follows a redirect', async () => {
  answerOn(b);
  const dialling = loosely(a.srf).createUAC!(`sip:bob@127.0.0.1:${far.port}`, { localSdp: SDP, followRedirects: true });
  far.respond(await far.requestOf('INVITE'), 302, { Contact: `<sip:bob@127.0.0.1:${b.port}>` });
  await ((await dialling) as Srf.Dialog).destroy();
});

it('keeps UTF-8 in headers and bodies, frames longer than 12 kB included', async () => {
  const heard = new Promise<{ body: string; subject: string }>((resolve) => {
    b.srf.use('message', (req: Srf.SrfRequest, res: Srf.SrfResponse) => {
      res.send(200, { headers: { Subject: 'schön 🙂' } });
      resolve({ body: req.body, subject: req.get('Subject') });
    });
  });
  const body = '語'.repeat(5000);
  const answered = ask(a.srf, `sip:x@127.0.0.1:${b.port};transport=tcp`, {
    method: 'MESSAGE',
    headers: { Subject: 'grüß', 'Content-Type': 'text/plain' },
    body,
  });
  expect(await heard).toEqual({ body, subject: 'grüß' });
  expect((await answered).get('Subject')).toBe('schön 🙂');
});

it('takes turns among the applications that want a method', async () => {
  const second = await connect(a.server);
  const counts = [0, 0];
  for (const [i, srf] of [a.srf, second].entries()) {
    srf.use('options', (_req: unknown, res: Srf.SrfResponse) => {
      counts[i]!++;
      res.send(200);
    });
  }
  await expect
    .poll(async () => {
      far.send(far.request('OPTIONS', { 'Call-ID': `turn-${Math.random()}` }));
      await far.wait((m) => (m as SipResponse).status === 200);
      return counts[0]! > 0 && counts[1]! > 0;
    })
    .toBe(true);
  second.disconnect();
});
