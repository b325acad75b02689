import dgram from 'node:dgram';
import net from 'node:net';
import { describe, expect, it } from 'vitest';
import type { SipServerOptions } from '../../sip/server/protocol.js';
import { type SipServer, startSipServer } from '../../sip/server/start.js';
import { SipPeer } from '../support/sip-peer.js';
import { ask, FAST_TIMERS, openTestServer } from '../support/sip-server.js';

const host = '127.0.0.1';

async function started(listen: Parameters<typeof startSipServer>[0]['listen']): Promise<SipServer> {
  return startSipServer({ listen, timersMs: FAST_TIMERS });
}

describe('starting', () => {
  it('gives UDP and TCP the same free port', async () => {
    const server = await started([
      { transport: 'udp', host, port: 0 },
      { transport: 'tcp', host, port: 0 },
    ]);
    const [udp, tcp] = server.addresses;
    expect(udp!.port).toBeGreaterThan(0);
    expect(tcp).toEqual({ transport: 'tcp', host, port: udp!.port });
    await server.close();
  });

  it('says which UDP port is taken, and what to do', async () => {
    const socket = dgram.createSocket('udp4');
    await new Promise<void>((resolve) => socket.bind(0, host, resolve));
    const { port } = socket.address();
    const error = await started([{ transport: 'udp', host, port }]).catch((e: NodeJS.ErrnoException) => e);
    expect(error).toMatchObject({
      code: 'EADDRINUSE',
      message: `UDP ${host}:${port} is already in use: stop the other program or choose another SIP port.`,
    });
    await new Promise<void>((resolve) => socket.close(() => resolve()));
  });

  it('says which TCP port is taken, and leaves no UDP socket behind', async () => {
    const listener = net.createServer();
    await new Promise<void>((resolve) => listener.listen(0, host, resolve));
    const { port } = listener.address() as net.AddressInfo;
    const both = [{ transport: 'udp', host, port } as const, { transport: 'tcp', host, port } as const];
    await expect(started(both)).rejects.toThrow(`TCP ${host}:${port} is already in use`);
    await new Promise((resolve) => listener.close(resolve));
    await (await started(both)).close();
  });

  it('says that an address is not ours', async () => {
    await expect(started([{ transport: 'udp', host: '192.0.2.77', port: 0 }])).rejects.toThrow(
      'not an address of this machine',
    );
  });

  it('says that a range is none', async () => {
    const options = { listen: [{ transport: 'udp', host, port: 0 } as const], localNets: ['10.0.0.0/99'] };
    await expect(startSipServer(options)).rejects.toThrow('10.0.0.0/99 is not an address range');
  });

  it('closes once, however often it is called, and frees its port', async () => {
    const listen = [{ transport: 'udp', host, port: 0 } as const];
    const server = await started(listen);
    await Promise.all([server.close(), server.close()]);
    await expect(server.stats()).rejects.toThrow('closed');
    await (await started([{ ...listen[0]!, port: server.addresses[0]!.port }])).close();
  });
});

describe('the control port', () => {
  const frame = (text: string) => `${Buffer.byteLength(text)}#${text}`;
  /** Sends it, and returns everything the server says until it closes or the text was seen. */
  async function say(server: SipServer, text: string, until?: RegExp): Promise<{ heard: string; closed: boolean }> {
    const socket = net.connect(server.control.port, server.control.host);
    let heard = '';
    const closed = await new Promise<boolean>((resolve) => {
      socket.on('close', () => resolve(true));
      socket.on('error', () => undefined);
      socket.on('data', (bytes) => {
        heard += bytes.toString();
        if (until?.test(heard)) resolve(false);
      });
      socket.write(text);
    });
    socket.destroy();
    return { heard, closed };
  }

  it('wants the secret before anything else', async () => {
    const server = await started([{ transport: 'udp', host, port: 0 }]);
    expect(await say(server, frame('1|authenticate|wrong|'))).toMatchObject({
      closed: true,
      heard: expect.stringContaining('|response|1|NO|incorrect secret'),
    });
    expect(await say(server, frame('1|route|invite'))).toMatchObject({
      closed: true,
      heard: expect.stringContaining('|NO|'),
    });
    expect(await say(server, 'x#nonsense')).toEqual({ closed: true, heard: '' });
    await server.close();
  });

  it('answers authenticate, route, remove_route, ping and refuses to proxy', async () => {
    const server = await started([{ transport: 'udp', host, port: 0 }]);
    const { port } = server.addresses[0]!;
    const hello = frame(`1|authenticate|${server.control.secret}|a,b`);
    const { heard } = await say(
      server,
      `${hello}${frame('2|route|invite')}${frame('3|remove_route|invite')}${frame('4|ping')}${frame('5|proxy|x|||||||sip:a@b')}`,
      /\|response\|5\|[^#]*/,
    );
    expect(heard).toMatch(
      new RegExp(`\\|response\\|1\\|OK\\|udp/127.0.0.1:${port}\\|v0\\.9\\.\\d+\\|udp/127.0.0.1:${port}`),
    );
    for (const answer of ['|response|2|OK', '|response|3|OK', '|response|4|OK|pong', '|response|5|NOK|'])
      expect(heard).toContain(answer);
    expect(await say(server, hello + frame('9|dance'))).toMatchObject({
      closed: true,
      heard: expect.stringContaining('|NO|Unknown message type'),
    });
    await server.close();
  });
});

describe('the address peers see', () => {
  it('is the one that routes to them when bound to all, or the external one outside the local nets', async () => {
    const listen: SipServerOptions['listen'] = [{ transport: 'udp', host: '0.0.0.0', port: 0 }];
    const cases: [SipServerOptions, string][] = [
      [{ listen }, '127.0.0.1'],
      [{ listen, externalIp: '203.0.113.7' }, '203.0.113.7'],
      [{ listen, externalIp: '203.0.113.7', localNets: ['127.0.0.0/8'] }, '127.0.0.1'],
    ];
    for (const [options, address] of cases) {
      const t = await openTestServer(options);
      const peer = await SipPeer.open(t.port);
      const answered = ask(t.srf, `sip:x@127.0.0.1:${peer.port}`, {
        method: 'OPTIONS',
        headers: { From: 'sip:me@localhost' },
      });
      const request = await peer.requestOf('OPTIONS');
      expect(request.topVia?.host).toBe(address);
      expect(request.from?.uri).toBe(`sip:me@${address}:${t.port}`);
      peer.respond(request, 200);
      await answered;
      await t.close();
      await peer.close();
    }
  });
});
