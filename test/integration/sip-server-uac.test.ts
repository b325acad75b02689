import { createHash } from 'node:crypto';
import net from 'node:net';
import type Srf from 'drachtio-srf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseMessage, type SipMessage, SipRequest, SipResponse } from '../../sip/server/message/message.js';
import { SipPeer } from '../support/sip-peer.js';
import { ask, connect, openTestServer, SDP, type TestServer } from '../support/sip-server.js';

let t: TestServer;
let peer: SipPeer;

beforeAll(async () => {
  t = await openTestServer({ product: 'test/1' });
});
beforeEach(async () => {
  peer = await SipPeer.open(t.port);
  t.srf = await connect(t.server);
});
afterEach(async () => {
  t.srf.disconnect();
  await peer.close();
});
afterAll(async () => {
  t.srf = await connect(t.server);
  await t.idle();
  await t.close();
});

type Options = Record<string, unknown>;
/** The library's own types are narrower than what it does. */
interface Library {
  createUAC(
    uri: string,
    options: Options,
    progress?: { cbRequest?(e: unknown, req: SentRequest): void; cbProvisional?(res: Srf.SrfResponse): void },
  ): Promise<Srf.Dialog>;
  request(uri: string, options: Options): Promise<SentRequest>;
}
interface SentRequest {
  cancel(options?: Options): void;
  on(event: 'response', listener: (res: Srf.SrfResponse) => void): void;
  get(name: string): string;
  source_port: number;
}
interface TryingClient {
  mapServer: Map<net.Socket, unknown>;
  wp: { send(socket: net.Socket, frame: string): string };
}
const library = () => t.srf as unknown as Library;
const dial = (options: Options = {}, progress = {}) =>
  library().createUAC(`sip:bob@127.0.0.1:${peer.port}`, { localSdp: SDP, ...options }, progress);
const contact = () => ({ Contact: `<sip:bob@127.0.0.1:${peer.port}>` });
const count = (method: string) => peer.count((m) => m instanceof SipRequest && m.method === method);

async function established(): Promise<{ dialog: Srf.Dialog; invite: SipRequest }> {
  const dialling = dial();
  const invite = await peer.requestOf('INVITE');
  peer.respond(invite, 200, contact(), SDP);
  await peer.requestOf('ACK');
  return { dialog: await dialling, invite };
}

async function destroyed(dialog: Srf.Dialog): Promise<void> {
  const done = dialog.destroy();
  peer.respond(await peer.requestOf('BYE'), 200);
  await done;
}

describe('a call out', () => {
  it('carries what a request must', async () => {
    const dialling = dial({ callingNumber: '+1555', headers: { 'X-Own': 'kept', Route: '<sip:no@where>', Via: 'no' } });
    const invite = await peer.requestOf('INVITE');
    expect(invite.topVia).toMatchObject({ transport: 'udp', host: '127.0.0.1', port: t.port });
    expect(invite.topVia?.parameters.has('rport')).toBe(true);
    expect(invite.get('max-forwards')).toBe('70');
    expect(invite.from?.uri).toBe(`sip:+1555@127.0.0.1:${t.port}`);
    expect(invite.contact?.uri).toBe(`sip:+1555@127.0.0.1:${t.port}`);
    expect(invite.get('user-agent')).toBe('test/1');
    expect(invite.get('content-type')).toBe('application/sdp');
    expect(invite.body.toString()).toBe(SDP);
    expect(invite.raw.toString()).toContain('X-Own: kept');
    expect([invite.list('via').length, invite.count('route')]).toEqual([1, 0]);
    peer.respond(invite, 486);
    await expect(dialling).rejects.toMatchObject({ status: 486 });
    const ack = await peer.requestOf('ACK');
    expect(ack.topVia?.branch).toBe(invite.topVia?.branch);
    expect(ack.toTag).toBe('peer');
  });

  it('is retransmitted until a response arrives, and given up with 408', async () => {
    await expect(dial()).rejects.toMatchObject({ status: 408 });
    expect(count('INVITE')).toBeGreaterThanOrEqual(6);
    expect(new Set(peer.received.map((m) => m.topVia?.branch)).size).toBe(1);
  });

  it('is not repeated any more once it rings', async () => {
    const dialling = dial();
    const invite = await peer.requestOf('INVITE');
    peer.respond(invite, 180);
    const before = count('INVITE');
    await new Promise((resolve) => setTimeout(resolve, 400)); // real time: eight times T1 in which no INVITE may come
    expect(count('INVITE')).toBeLessThanOrEqual(before + 1);
    peer.respond(invite, 603);
    await expect(dialling).rejects.toMatchObject({ status: 603 });
  });

  it('repeats the ACK when the 200 is repeated, and tells the application once', async () => {
    const { dialog, invite } = await established();
    peer.respond(invite, 200, contact(), SDP);
    await peer.wait(() => count('ACK') === 2);
    const [first, second] = peer.received.filter((m) => m instanceof SipRequest && m.method === 'ACK') as [
      SipRequest,
      SipRequest,
    ];
    expect(second.raw.equals(first.raw)).toBe(true);
    expect(first.uri).toBe(`sip:bob@127.0.0.1:${peer.port}`);
    expect(first.topVia?.branch).not.toBe(invite.topVia?.branch);
    await destroyed(dialog);
  });

  it('ends the second answer of a fork by itself (13.2.2.4)', async () => {
    const { dialog, invite } = await established();
    peer.respond(invite, 200, contact(), SDP, 'second');
    const bye = await peer.requestOf('BYE');
    expect(bye.toTag).toBe('second');
    expect(peer.count((m) => m instanceof SipRequest && m.method === 'ACK' && m.toTag === 'second')).toBe(1);
    peer.respond(bye, 200);
    const done = dialog.destroy();
    const own = (await peer.wait(
      (m) => m instanceof SipRequest && m.method === 'BYE' && m.toTag === 'peer',
    )) as SipRequest;
    peer.respond(own, 200);
    await done;
  });

  it('knows each early dialog of a fork, and keeps the one that answers', async () => {
    const dialling = dial();
    const invite = await peer.requestOf('INVITE');
    peer.respond(invite, 180, contact(), '', 'one');
    peer.respond(invite, 183, contact(), SDP, 'two');
    peer.respond(invite, 200, contact(), SDP, 'one');
    const dialog = await dialling;
    expect((await peer.requestOf('ACK')).toTag).toBe('one');
    expect((await t.server.stats()).live.dialogs).toBe(1);
    await destroyed(dialog);
  });

  it('is cancelled only after a provisional answer (9.1)', async () => {
    let sent: SentRequest | null = null;
    const dialling = dial({}, { cbRequest: (_e: unknown, req: SentRequest) => (sent = req) });
    const failed = dialling.catch((error: { status: number }) => error.status);
    const invite = await peer.requestOf('INVITE');
    await expect.poll(() => sent).not.toBeNull();
    sent!.cancel({ headers: { Reason: 'SIP;cause=200' } });
    await peer.wait(() => count('INVITE') >= 2);
    expect(count('CANCEL')).toBe(0);
    peer.respond(invite, 180);
    const cancel = await peer.requestOf('CANCEL');
    expect(cancel.topVia?.branch).toBe(invite.topVia?.branch);
    expect(cancel.get('reason')).toBe('SIP;cause=200');
    expect(cancel.cseq?.number).toBe(invite.cseq?.number);
    peer.respond(cancel, 200);
    peer.respond(invite, 487);
    expect(await failed).toBe(487);
    await peer.requestOf('ACK');
  });

  it('is ended at once when the 200 crosses the CANCEL: ACK, BYE, and the application learns of it', async () => {
    let sent: SentRequest | null = null;
    const dialling = dial({}, { cbRequest: (_e: unknown, req: SentRequest) => (sent = req) });
    const invite = await peer.requestOf('INVITE');
    peer.respond(invite, 180);
    await expect.poll(() => sent).not.toBeNull();
    sent!.cancel();
    const cancel = await peer.requestOf('CANCEL');
    peer.respond(invite, 200, contact(), SDP);
    peer.respond(cancel, 481);
    const dialog = await dialling;
    const why = new Promise<string>((resolve) => {
      (dialog as unknown as NodeJS.EventEmitter).on('destroy', (_msg, reason) => resolve(reason));
    });
    await peer.requestOf('ACK');
    peer.respond(await peer.requestOf('BYE'), 200);
    expect(await why).toBe('ACK-BYE due to cancel race condition');
  });

  it('counts as cancelled when nothing at all comes after the CANCEL', async () => {
    const failed = dial(
      {},
      {
        cbProvisional: () => sent?.cancel(),
        cbRequest: (_e: unknown, req: SentRequest) => (sent = req),
      },
    ).catch((error: { status: number }) => error.status);
    let sent: SentRequest | null = null;
    peer.respond(await peer.requestOf('INVITE'), 180);
    await expect.poll(() => failed, { timeout: 6000 }).toBe(487);
  });

  it('is released when its answer has no Contact', async () => {
    const failed = dial().catch((error: { status: number }) => error.status);
    peer.respond(await peer.requestOf('INVITE'), 200, {}, SDP);
    expect(await failed).toBe(500);
    await peer.requestOf('ACK');
    peer.respond(await peer.requestOf('BYE'), 200);
  });

  it('is refused with 482 when it comes back to us, ringing or answered', async () => {
    const dialling = dial();
    const invite = await peer.requestOf('INVITE');
    const back = { From: invite.get('from')!, 'Call-ID': invite.callId, CSeq: '7 INVITE' };
    t.srf.invite((_req, res) => {
      res.send(200);
    });
    peer.send(peer.request('INVITE', back, SDP));
    await peer.response(482);
    peer.respond(invite, 200, contact(), SDP);
    await peer.requestOf('ACK');
    const dialog = await dialling;
    peer.send(peer.request('INVITE', { ...back, CSeq: '8 INVITE' }, SDP));
    await peer.wait(() => peer.count((m) => m instanceof SipResponse && m.status === 482) === 2);
    await destroyed(dialog);
  });

  it('is refused with 482 when it loops with our Via in it', async () => {
    const dialling = dial();
    const invite = await peer.requestOf('INVITE');
    peer.send(
      peer.request(
        'INVITE',
        { Via: `SIP/2.0/UDP 127.0.0.1:${peer.port};branch=z9hG4bKp, ${invite.list('via')[0]}`, 'Call-ID': 'loop' },
        SDP,
      ),
    );
    await peer.response(482);
    peer.respond(invite, 404);
    await expect(dialling).rejects.toMatchObject({ status: 404 });
  });

  it('keeps 100 Trying to itself, but for an application that routed it', async () => {
    const heard: number[] = [];
    const progress = { cbProvisional: (res: Srf.SrfResponse) => heard.push(res.status) };
    const first = dial({}, progress);
    const invite = await peer.requestOf('INVITE');
    peer.respond(invite, 100);
    peer.respond(invite, 180);
    peer.respond(invite, 486);
    await expect(first).rejects.toMatchObject({ status: 486 });
    expect(heard).toEqual([180]);
    const { client } = (t.srf as unknown as { app: { client: TryingClient } }).app;
    for (const socket of client.mapServer.keys()) client.wp.send(socket, 'route|trying');
    peer.received.length = 0;
    const second = dial({}, progress);
    const again = await peer.requestOf('INVITE');
    peer.respond(again, 100);
    peer.respond(again, 404);
    await expect(second).rejects.toMatchObject({ status: 404 });
    expect(heard).toEqual([180, 100]);
  });

  it('writes a bare From, To or Contact of the application with angle brackets', async () => {
    const dialling = dial({ headers: { From: 'sip:4711@localhost', Contact: 'sip:4711@localhost' } });
    const invite = await peer.requestOf('INVITE');
    expect(invite.get('from')).toMatch(new RegExp(`^<sip:4711@127.0.0.1:${t.port}>;tag=`));
    expect(invite.get('contact')).toBe(`<sip:4711@127.0.0.1:${t.port}>`);
    peer.respond(invite, 404);
    await expect(dialling).rejects.toMatchObject({ status: 404 });
  });

  it('PRACKs a reliable answer once, and drops its repeats', async () => {
    const dialling = dial();
    const invite = await peer.requestOf('INVITE');
    const lines = { ...contact(), Require: '100rel', RSeq: '10' };
    peer.respond(invite, 183, lines, SDP);
    const prack = await peer.requestOf('PRACK');
    expect(prack.get('rack')).toBe(`10 ${invite.cseq?.number} INVITE`);
    expect(prack.uri).toBe(`sip:bob@127.0.0.1:${peer.port}`);
    peer.respond(prack, 200);
    peer.respond(invite, 183, lines, SDP);
    peer.respond(invite, 183, { ...lines, RSeq: '11' }, SDP);
    const second = (await peer.wait(
      (m) => m instanceof SipRequest && m.method === 'PRACK' && m.get('rack')?.startsWith('11 ') === true,
    )) as SipRequest;
    peer.respond(second, 200);
    expect(
      new Set(peer.received.filter((m) => m instanceof SipRequest && m.method === 'PRACK').map((m) => m.cseq?.number))
        .size,
    ).toBe(2);
    peer.respond(invite, 200, contact(), SDP);
    await peer.requestOf('ACK');
    await destroyed(await dialling);
  });

  it('answers a digest challenge with the same Call-ID and From, and the next CSeq', async () => {
    const dialling = dial({ auth: { username: 'al', password: 'pw' } });
    const first = await peer.requestOf('INVITE');
    peer.respond(first, 401, { 'WWW-Authenticate': 'Digest realm="r", nonce="n"' });
    const second = (await peer.wait(
      (m) => m instanceof SipRequest && m.method === 'INVITE' && m.cseq?.number === first.cseq!.number + 1,
    )) as SipRequest;
    expect([second.callId, second.fromTag]).toEqual([first.callId, first.fromTag]);
    const md5 = (text: string) => createHash('md5').update(text).digest('hex');
    expect(second.get('authorization')).toContain(md5(`${md5('al:r:pw')}:n:${md5(`INVITE:${second.uri}`)}`));
    peer.respond(second, 200, contact(), SDP);
    await destroyed(await dialling);
  });

  it('hears of a BYE, and of requests, from the far side', async () => {
    const { dialog, invite } = await established();
    const info = new Promise<string>((resolve) => {
      dialog.on('info', (req, res) => {
        res.send(200);
        resolve(req.body);
      });
    });
    const lines = (method: string, cseq: number) => ({
      From: `${invite.get('to')};tag=peer`,
      To: invite.get('from')!,
      'Call-ID': invite.callId,
      CSeq: `${cseq} ${method}`,
    });
    peer.send(peer.request('INFO', { ...lines('INFO', 1), 'Content-Type': 'text/plain' }, 'x'));
    expect(await info).toBe('x');
    const over = new Promise<void>((resolve) => dialog.on('destroy', () => resolve()));
    peer.send(peer.request('BYE', lines('BYE', 2)));
    await peer.response(200, 'BYE');
    await over;
  });

  it('is ended here when its application vanishes while it rings', async () => {
    dial().catch(() => undefined);
    const invite = await peer.requestOf('INVITE');
    const before = (await t.server.stats()).messagesReceived;
    peer.respond(invite, 180);
    await expect.poll(async () => (await t.server.stats()).messagesReceived).toBeGreaterThan(before);
    t.srf.disconnect();
    t.srf = await connect(t.server);
    const cancel = await peer.requestOf('CANCEL');
    peer.respond(cancel, 200);
    peer.respond(invite, 487);
    await peer.requestOf('ACK');
  });
});

describe('what cannot be sent is refused with a reason', () => {
  it.each([
    ['our own address', () => `sip:x@127.0.0.1:${t.port}`, 'can not send request to myself'],
    [
      'a transport we have not',
      () => 'sip:x@127.0.0.1:5999;transport=ws',
      'requested protocol/transport not available',
    ],
    ['sips by UDP', () => 'sips:x@127.0.0.1:5999;transport=udp', 'requested protocol/transport not available'],
    ['a name that is none', () => 'sip:x@no-such-host.invalid', 'no address for no-such-host.invalid'],
    ['no SIP URI', () => 'tel:+15551234567', 'invalid request-uri: tel:+15551234567'],
  ])('%s', async (_what, uri, reason) => {
    await expect(ask(t.srf, uri(), { method: 'OPTIONS' })).rejects.toThrow(reason);
  });

  it('a body nobody can name', async () => {
    await expect(ask(t.srf, `sip:x@127.0.0.1:${peer.port}`, { method: 'MESSAGE', body: 'hello' })).rejects.toThrow(
      'missing content-type',
    );
  });

  it('a dialog that is over', async () => {
    const { dialog } = await established();
    await destroyed(dialog);
    const late = (dialog as unknown as { request(o: Options): Promise<unknown> }).request({ method: 'INFO' });
    await expect(late).rejects.toMatchObject({ code: 'ENODIALOG' });
  });

  it('a connection nobody accepts becomes 503', async () => {
    const closed = await SipPeer.open(t.port);
    await closed.close();
    const { status } = await ask(t.srf, `sip:x@127.0.0.1:${closed.port};transport=tcp`, { method: 'OPTIONS' });
    expect(status).toBe(503);
  });
});

describe('large requests (18.1.1)', () => {
  const large = { method: 'MESSAGE', headers: { 'Content-Type': 'text/plain' }, body: 'x'.repeat(1400) };

  it('go over TCP when the far side takes it', async () => {
    const listener = net.createServer();
    const received = new Promise<{ message: SipMessage; socket: net.Socket }>((resolve) => {
      listener.once('connection', (socket) =>
        socket.once('data', (bytes) => resolve({ message: parseMessage(bytes)!, socket })),
      );
    });
    await new Promise<void>((resolve) => listener.listen(peer.port, '127.0.0.1', resolve));
    const answered = ask(t.srf, `sip:bob@127.0.0.1:${peer.port}`, large);
    const { message, socket } = await received;
    expect(message.topVia?.transport).toBe('tcp');
    const lines = [
      'SIP/2.0 200 OK',
      `Via: ${message.get('via')}`,
      `From: ${message.get('from')}`,
      `To: ${message.get('to')};tag=1`,
      `Call-ID: ${message.callId}`,
      `CSeq: ${message.get('cseq')}`,
      'Content-Length: 0',
    ];
    socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    expect((await answered).status).toBe(200);
    socket.destroy();
    await new Promise((resolve) => listener.close(resolve));
  });

  it('go over UDP when it does not', async () => {
    const answered = ask(t.srf, `sip:bob@127.0.0.1:${peer.port}`, large);
    const message = await peer.requestOf('MESSAGE');
    expect(message.topVia?.transport).toBe('udp');
    expect(message.body).toHaveLength(1400);
    peer.respond(message, 200);
    await answered;
  });
});

it('uses the next hop the application names, and its own idea of the Request-URI', async () => {
  const answered = ask(t.srf, 'sip:bob@elsewhere.example.com', {
    method: 'OPTIONS',
    proxy: `sip:127.0.0.1:${peer.port};lr`,
  });
  const options = await peer.requestOf('OPTIONS');
  expect(options.uri).toBe('sip:bob@elsewhere.example.com');
  expect(options.list('route')).toEqual([`<sip:127.0.0.1:${peer.port};lr>`]);
  peer.respond(options, 404);
  expect((await answered).status).toBe(404);
});

it('sends the BYE of a dialog that an earlier process had, and refuses one that names no dialog at all', async () => {
  const uri = `sip:bob@127.0.0.1:${peer.port}`;
  const headers = { 'Call-ID': 'orphan', From: '<sip:a@us>;tag=ours', To: '<sip:b@far>;tag=theirs', CSeq: '1004 BYE' };
  const req = await library().request(uri, { method: 'BYE', headers });
  const bye = await peer.requestOf('BYE');
  expect([bye.callId, bye.fromTag, bye.toTag, bye.cseq?.number]).toEqual(['orphan', 'ours', 'theirs', 1004]);
  const answered = new Promise((resolve) => req.on('response', (res) => resolve(res.status)));
  peer.respond(bye, 481);
  expect(await answered).toBe(481);
  const stranger = library().request(uri, { method: 'BYE', headers: { ...headers, To: '<sip:b@far>' } });
  await expect(stranger).rejects.toThrow('unable to find dialog');
});
