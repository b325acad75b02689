import net from 'node:net';
import tls from 'node:tls';
import type Srf from 'drachtio-srf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseMessage, type SipMessage, SipRequest } from '../../sip/server/message/message.js';
import { StreamFramer } from '../../sip/server/transport/stream-framer.js';
import { ask, openTestServer, SDP, type TestServer } from '../support/sip-server.js';
import { authority, carrier, client, expired, foreign, server, stranger } from '../support/tls.js';

const ours = { ...server, ca: authority };
let t: TestServer;
let tlsPort: number;
let answered: (dialog: Srf.Dialog) => void = () => undefined;

beforeAll(async () => {
  const host = '127.0.0.1';
  t = await openTestServer({
    listen: [
      { transport: 'udp', host, port: 0 },
      { transport: 'tcp', host, port: 0 },
      { transport: 'tls', host, port: 0 },
    ],
    tls: ours,
  });
  tlsPort = t.server.addresses.find((address) => address.transport === 'tls')!.port;
  t.srf.invite((req, res) => {
    t.srf.createUAS(req, res, { localSdp: SDP }).then((dialog) => answered(dialog));
  });
  t.srf.use('options', (_req: Srf.SrfRequest, res: Srf.SrfResponse) => res.send(200));
});
const connections = async () => (await t.server.stats()).live.tcpConnections;
const gone = () => expect.poll(connections, { timeout: 5000 }).toBe(0);
afterAll(async () => {
  await t.idle();
  await t.close();
});

/** Somebody at the other end of a TLS connection that he made. */
class Caller {
  readonly received: SipMessage[] = [];
  private readonly framer = new StreamFramer({
    message: (bytes) => this.received.push(parseMessage(bytes)!),
    ping: () => undefined,
    broken: () => undefined,
  });
  constructor(readonly socket: tls.TLSSocket) {
    socket.on('data', (bytes) => this.framer.push(bytes));
    socket.on('error', () => undefined);
  }
  static connect(options: tls.ConnectionOptions = {}): Promise<Caller> {
    const socket = tls.connect({ port: tlsPort, host: '127.0.0.1', ca: authority, ...options });
    return new Promise((resolve, reject) => {
      socket.once('secureConnect', () => resolve(new Caller(socket)));
      socket.once('error', reject);
    });
  }
  send(method: string, uri: string, lines: Record<string, string> = {}, body = ''): void {
    const headers = {
      Via: `SIP/2.0/TLS 127.0.0.1:5999;branch=z9hG4bK${this.socket.localPort}${method}`,
      From: '<sip:alice@127.0.0.1>;tag=a',
      To: '<sip:bob@127.0.0.1>',
      'Call-ID': `tls${this.socket.localPort}`,
      CSeq: `1 ${method}`,
      Contact: '<sip:alice@127.0.0.1:5999;transport=tls>',
      ...(body === '' ? {} : { 'Content-Type': 'application/sdp' }),
      'Content-Length': String(body.length),
      ...lines,
    };
    const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    this.socket.write(`${method} ${uri} SIP/2.0\r\n${head.join('')}\r\n${body}`);
  }
  answer(request: SipMessage): void {
    this.socket.write(okTo(request));
  }
  async wait(test: (m: SipMessage) => boolean): Promise<SipMessage> {
    await expect.poll(() => this.received.some(test), { timeout: 3000 }).toBe(true);
    return this.received.find(test)!;
  }
}

function okTo(request: SipMessage): string {
  const names = ['Via', 'From', 'To', 'Call-ID', 'CSeq'];
  const lines = names.map((name) => `${name}: ${request.get(name.toLowerCase())}`);
  return `SIP/2.0 200 OK\r\n${lines.join('\r\n')};\r\nContent-Length: 0\r\n\r\n`.replace(/;\r\nContent/, '\r\nContent');
}

describe('a caller over TLS', () => {
  afterEach(gone);

  it.each([
    ['sip', '<sip:'],
    ['sips', '<sips:'],
  ])('calls a %s address: Contact says so, and BYE comes over the connection of the call', async (scheme, contact) => {
    const dialling = new Promise<Srf.Dialog>((resolve) => {
      answered = resolve;
    });
    const caller = await Caller.connect();
    expect(caller.socket.getProtocol()).toMatch(/TLSv1\.[23]/);
    caller.send('INVITE', `${scheme}:bob@127.0.0.1`, {}, SDP);
    const answer = await caller.wait((m) => m.kind === 'response' && m.status === 200);
    expect(answer.get('contact')).toBe(`${contact}127.0.0.1:${tlsPort};transport=tls>`);
    caller.send('ACK', `${scheme}:bob@127.0.0.1`, { To: answer.get('to')! });
    const destroyed = (await dialling).destroy();
    const bye = await caller.wait((m) => m instanceof SipRequest && m.method === 'BYE');
    expect(bye.get('via')).toMatch(new RegExp(`^SIP/2\\.0/TLS 127\\.0\\.0\\.1:${tlsPort};branch=\\S+;rport;alias$`));
    caller.answer(bye);
    await destroyed;
    caller.socket.destroy();
  });

  it('that never finishes its handshake is cut off, and so is one that speaks no TLS', async () => {
    for (const words of ['', 'OPTIONS sip:bob@127.0.0.1 SIP/2.0\r\n\r\n']) {
      const slow = net.connect(tlsPort, '127.0.0.1');
      slow.on('error', () => undefined);
      slow.write(words);
      await new Promise((resolve) => slow.once('close', resolve)); // 20 T1: a second here
    }
  });

  it('is shown a renewed certificate from then on; one that cannot be used changes nothing', async () => {
    t.server.secure({ ...ours, ...foreign });
    t.server.secure({ ...ours, key: 'no PEM at all' });
    const shown = () =>
      Caller.connect({ rejectUnauthorized: false }).then(({ socket }) => {
        const { CN } = socket.getPeerCertificate().subject;
        socket.destroy();
        return CN;
      });
    await expect.poll(() => t.failures.length).toBe(1);
    expect(t.failures.splice(0).join()).toContain('setKey');
    expect(await shown()).toBe('Trunkline test foreign');
    t.server.secure(ours);
    await expect.poll(shown).toBe('Trunkline test server');
  });
});

it('a server that wants certificates talks to nobody without one', async () => {
  const listen = [{ transport: 'tls' as const, host: '127.0.0.1', port: 0 }];
  const strict = await openTestServer({ listen, tls: { ...ours, requireClientCertificate: true } });
  const to = { port: strict.port, host: '127.0.0.1', ca: authority };
  const known = await Caller.connect({ ...to, cert: client.certificate, key: client.key });
  known.send('OPTIONS', 'sip:bob@127.0.0.1');
  await known.wait((m) => m.kind === 'response' && m.status === 503);
  known.socket.destroy();
  const stranger = tls.connect(to);
  const error = await new Promise<NodeJS.ErrnoException>((resolve) => stranger.on('error', resolve));
  expect(error.code).toBe('ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED');
  await strict.close();
});

/** A TLS server that answers every request with 200. */
class Carrier {
  readonly requests: SipMessage[] = [];
  readonly connections: tls.TLSSocket[] = [];
  readonly names: unknown[] = [];
  private readonly sockets = new Set<net.Socket>();
  private constructor(
    readonly port: number,
    private readonly listener: net.Server,
  ) {}
  static async open(options: tls.TlsOptions | null): Promise<Carrier> {
    const listener = options ? tls.createServer(options) : net.createServer();
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const made = new Carrier((listener.address() as net.AddressInfo).port, listener);
    listener.on('connection', (socket: net.Socket) => {
      made.sockets.add(socket);
      socket.on('error', () => undefined);
    });
    listener.on('secureConnection', (socket: tls.TLSSocket) => made.take(socket));
    return made;
  }
  private take(socket: tls.TLSSocket): void {
    this.connections.push(socket);
    this.names.push((socket as { servername?: unknown }).servername);
    const framer = new StreamFramer({
      message: (bytes) => {
        const request = parseMessage(bytes)!;
        this.requests.push(request);
        socket.write(okTo(request));
      },
      ping: () => undefined,
      broken: () => undefined,
    });
    socket.on('data', (bytes) => framer.push(bytes));
    socket.on('error', () => undefined);
  }
  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.listener.close(resolve));
  }
}

const asOptions = (pair: { certificate: string; key: string }) => ({ cert: pair.certificate, key: pair.key });
const hop = (port: number, name: string, trust = '') => ({
  proxy: `sip:127.0.0.1:${port};transport=tls;tls-name=${name}${trust === '' ? '' : `;tls-trust=${trust}`}`,
});
const options = (uri: string, more: Record<string, unknown> = {}) => ask(t.srf, uri, { method: 'OPTIONS', ...more });

describe('a carrier behind TLS', () => {
  let there: Carrier | null = null;
  const open = async (with_: tls.TlsOptions | null) => {
    there = await Carrier.open(with_);
    return there.port;
  };
  beforeEach(() => t.server.secure(ours));
  afterEach(async () => {
    await there?.close();
    there = null;
    await gone();
  });

  it.each([
    ['by its address', '127.0.0.1', server, false],
    ['by a DNS name', 'carrier.example', carrier, 'carrier.example'],
    ['by a SIP domain', 'domain.example', carrier, 'domain.example'],
  ] as const)('is known %s, and one connection carries everything', async (_what, name, pair, sni) => {
    const port = await open(asOptions(pair));
    const uri = `sip:x@${name}:${port};transport=tls`;
    for (let i = 0; i < 3; i++) expect((await options(uri, hop(port, name))).status).toBe(200);
    expect(there!.connections).toHaveLength(1);
    expect(there!.names).toEqual([sni]);
    expect(there!.requests[0]!.get('via')).toContain(`SIP/2.0/TLS 127.0.0.1:${tlsPort};`);
  });

  it('sips means TLS, with a secure Contact', async () => {
    const port = await open(asOptions(server));
    const headers = { Contact: '<sip:us@localhost>' };
    expect((await options(`sips:x@127.0.0.1:${port}`, { headers })).status).toBe(200);
    expect(there!.requests[0]!.get('contact')).toBe(`<sips:us@127.0.0.1:${tlsPort};transport=tls>`);
  });

  it('has authorities of its own, is shown a certificate of its own, and a connection of its own', async () => {
    const port = await open({ ...asOptions(foreign), requestCert: true, ca: authority });
    t.server.secure({ ...ours, trust: { one: { ca: stranger, ...client }, two: { ca: stranger } } });
    const uri = `sip:x@localhost:${port};transport=tls`;
    expect((await options(uri, hop(port, 'localhost', 'one'))).status).toBe(200);
    expect((await options(uri, hop(port, 'localhost', 'two'))).status).toBe(200);
    const shown = there!.connections.map((socket) => socket.getPeerCertificate().subject?.CN);
    expect(shown).toEqual(['Trunkline test client', 'Trunkline test server']);
    expect((await options(uri, hop(port, 'localhost'))).get('reason')).toContain('an authority that is not trusted');
  });

  it.each<[string, () => Promise<{ port: number; name: string }>, string]>([
    [
      'whose certificate has expired',
      async () => ({ port: await open(asOptions(expired)), name: '127.0.0.1' }),
      'has expired',
    ],
    ['nobody vouches for', async () => ({ port: await open(asOptions(foreign)), name: '127.0.0.1' }), 'not trusted'],
    [
      'with the name of another',
      async () => ({ port: await open(asOptions(carrier)), name: 'other.example' }),
      'for another name',
    ],
    [
      'that speaks only TLS 1.1',
      async () => ({
        port: await open({
          ...asOptions(server),
          maxVersion: 'TLSv1.1',
          minVersion: 'TLSv1',
          ciphers: 'DEFAULT@SECLEVEL=0',
        }),
        name: '127.0.0.1',
      }),
      'no TLS version in common',
    ],
    ['that is silent', async () => ({ port: await open(null), name: '127.0.0.1' }), 'did not answer in time'],
    ['that is not there', async () => ({ port: 1, name: '127.0.0.1' }), 'connection refused'],
    [
      'that wants a certificate it trusts',
      async () => ({
        port: await open({ ...asOptions(server), requestCert: true, rejectUnauthorized: true, ca: stranger }),
        name: '127.0.0.1',
      }),
      'closed',
    ],
  ])('%s is not called: the answer says why', async (_what, at, why) => {
    const { port, name } = await at();
    const answer = await options(`sip:x@${name}:${port};transport=tls`, hop(port, name));
    expect(answer.status).toBe(503);
    expect(answer.get('reason')).toContain(why);
    expect(there?.requests ?? []).toEqual([]);
  });

  it('that said nothing of itself is not reached by a new connection', async () => {
    const answer = await options('sip:x@127.0.0.1:1;transport=tls', { proxy: 'sip:127.0.0.1:1;transport=tls' });
    expect(answer.get('reason')).toContain('the one it made is gone');
  });
});

it('a server without a certificate calls over TLS, and listens to nobody', async () => {
  const alone = await openTestServer({ tls: { ca: authority } });
  const there = await Carrier.open(asOptions(server));
  expect((await ask(alone.srf, `sips:x@127.0.0.1:${there.port}`, { method: 'OPTIONS' })).status).toBe(200);
  expect(alone.server.addresses.map((address) => address.transport)).toEqual(['udp', 'tcp']);
  await alone.close();
  await there.close();
  const listen = [{ transport: 'tls' as const, host: '127.0.0.1', port: 0 }];
  await expect(openTestServer({ listen })).rejects.toThrow('SIP over TLS needs a certificate and its key.');
});
