import net from 'node:net';
import type Srf from 'drachtio-srf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SipRequest } from '../../sip/server/message/message.js';
import { ask, openTestServer, SDP, type TestServer } from '../support/sip-server.js';
import { TcpPeer } from '../support/tcp-peer.js';

let t: TestServer;
let peer: TcpPeer;

beforeAll(async () => {
  t = await openTestServer();
  t.srf.use('options', (_req: Srf.SrfRequest, res: Srf.SrfResponse) => {
    res.send(200);
  });
  t.srf.use('register', (_req: Srf.SrfRequest, res: Srf.SrfResponse) => {
    res.send(200);
  });
});
beforeEach(async () => {
  peer = await TcpPeer.connect(t.port);
});
afterEach(async () => {
  peer.socket.destroy();
  await expect.poll(async () => (await t.server.stats()).live.tcpConnections).toBe(0);
});
afterAll(async () => {
  await t.idle();
  await t.close();
});

describe('one connection', () => {
  it('carries many requests in one segment, and halves of one', async () => {
    const [a, b, c] = [peer.request('OPTIONS'), peer.request('OPTIONS'), peer.request('OPTIONS')];
    peer.socket.write(a + b + c.slice(0, 30));
    await expect.poll(() => peer.received.length).toBe(2);
    peer.socket.write(c.slice(30, 100));
    await new Promise((resolve) => setImmediate(resolve));
    peer.socket.write(c.slice(100));
    await expect.poll(() => peer.received.length).toBe(3);
  });

  it('answers a keepalive', async () => {
    peer.socket.write('\r\n\r\n');
    await expect.poll(() => peer.pongs).toBe(1);
  });

  it.each([
    ['a message without Content-Length', (p: TcpPeer) => p.request('OPTIONS').replace('Content-Length', 'X-Length')],
    ['a head that never ends', () => `OPTIONS sip:a SIP/2.0\r\nX: ${'a'.repeat(100_000)}`],
  ])('closes on %s', async (_what, text) => {
    peer.socket.write(text(peer));
    await peer.closed;
  });

  it('drops what is no SIP and goes on', async () => {
    peer.socket.write(`GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n${peer.request('OPTIONS')}`);
    await peer.final('OPTIONS');
  });
});

it('a call stays on the connection it came by, both ways, and its 200 is repeated there too', async () => {
  const dialling = new Promise<Srf.Dialog>((resolve, reject) => {
    t.srf.invite((req, res) => {
      t.srf.createUAS(req, res, { localSdp: SDP }).then(resolve, reject);
    });
  });
  peer.socket.write(peer.request('INVITE', {}, SDP));
  const answer = await peer.final('INVITE');
  expect(answer.contact?.uri).toBe(`sip:127.0.0.1:${t.port};transport=tcp`);
  await expect.poll(() => peer.received.filter((m) => m.cseq?.method === 'INVITE').length).toBeGreaterThanOrEqual(3);
  peer.socket.write(peer.request('ACK', { To: answer.get('to')!, 'Call-ID': answer.callId }));
  const destroyed = (await dialling).destroy();
  const bye = await peer.wait((m) => m instanceof SipRequest && m.method === 'BYE');
  const lines = [
    `Via: ${bye.get('via')}`,
    `From: ${bye.get('from')}`,
    `To: ${bye.get('to')}`,
    `Call-ID: ${bye.callId}`,
    `CSeq: ${bye.get('cseq')}`,
  ];
  peer.socket.write(`SIP/2.0 200 OK\r\n${lines.join('\r\n')}\r\nContent-Length: 0\r\n\r\n`);
  await destroyed;
});

it('a registered contact is reached over the connection it registered on, until that closes', async () => {
  peer.socket.write(peer.request('REGISTER', { Contact: '<sip:phone@10.9.9.9:5060;transport=tcp>;expires=600' }));
  await peer.final('REGISTER');
  const answered = ask(t.srf, 'sip:phone@10.9.9.9:5060;transport=tcp', { method: 'OPTIONS' });
  const options = await peer.wait((m) => m instanceof SipRequest && m.method === 'OPTIONS');
  expect((options as SipRequest).uri).toBe('sip:phone@10.9.9.9:5060;transport=tcp');
  const lines = [
    `Via: ${options.get('via')}`,
    `From: ${options.get('from')}`,
    `To: ${options.get('to')};tag=1`,
    `Call-ID: ${options.callId}`,
    `CSeq: ${options.get('cseq')}`,
  ];
  peer.socket.write(`SIP/2.0 200 OK\r\n${lines.join('\r\n')}\r\nContent-Length: 0\r\n\r\n`);
  expect((await answered).status).toBe(200);
  peer.socket.destroy();
  await t.idle();
});

it('a connection that breaks before any answer fails the request at once', async () => {
  const listener = net.createServer((socket) => socket.once('data', () => socket.destroy()));
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const { port } = listener.address() as net.AddressInfo;
  const { status } = await ask(t.srf, `sip:x@127.0.0.1:${port};transport=tcp`, { method: 'OPTIONS' });
  expect(status).toBe(503);
  await new Promise((resolve) => listener.close(resolve));
});
