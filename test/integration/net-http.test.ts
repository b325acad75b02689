import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createSafeHttp, type HttpRequest } from '../../net/http.js';
import { createSafeLookup } from '../../net/safe-lookup.js';

const servers: { server: Server; sockets: Set<Socket> }[] = [];
afterEach(async () => {
  for (const { server, sockets } of servers.splice(0)) {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(handle: (request: IncomingMessage, response: ServerResponse) => void) {
  const sockets = new Set<Socket>();
  const server = createServer(handle);
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  servers.push({ server, sockets });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets };
}

const open = createSafeHttp({ allowPrivate: true });
const ask = (url: string, more: Partial<HttpRequest> = {}): HttpRequest => ({
  url,
  method: 'GET',
  timeoutMs: 5000,
  maxBodyBytes: 1000,
  ...more,
});

describe('answers', () => {
  test('status, headers and body come back; what is sent arrives', async () => {
    const { url, sockets } = await serve((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        response.writeHead(418, { 'X-Seen': String(request.headers['x-mine']) });
        response.end(`${request.method} ${request.url} ${Buffer.concat(parts).toString()}`);
      });
    });
    const answer = await open.request(
      ask(`${url}/a?b=1`, { method: 'POST', body: 'hello', headers: { 'x-mine': '7' } }),
    );
    expect(answer.status).toBe(418);
    expect(answer.headers['x-seen']).toBe('7');
    expect(answer.body.toString()).toBe('POST /a?b=1 hello');
    await vi.waitFor(() => expect(sockets.size).toBe(0));
  });

  test('user and password of the URL become basic authentication', async () => {
    const { url } = await serve((request, response) => response.end(request.headers.authorization));
    const answer = await open.request(ask(url.replace('//', '//us%40er:pa%3Ass@')));
    expect(answer.body.toString()).toBe(`Basic ${Buffer.from('us@er:pa:ss').toString('base64')}`);
  });

  test.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
  ])('%s that nobody asked for is understood', async (encoding, pack) => {
    const { url } = await serve((_request, response) => {
      response.writeHead(200, { 'content-encoding': encoding });
      response.end(pack('packed'));
    });
    expect((await open.request(ask(url))).body.toString()).toBe('packed');
  });
});

describe('bounds', () => {
  test('an endless body ends at the limit, and its connection with it', async () => {
    const { url, sockets } = await serve((_request, response) => {
      response.on('error', () => {});
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(500)));
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    });
    await expect(open.request(ask(url))).rejects.toMatchObject({ code: 'body_too_large' });
    await vi.waitFor(() => expect(sockets.size).toBe(0));
  });

  test('a decompression bomb ends at the limit', async () => {
    const { url } = await serve((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end(gzipSync(Buffer.alloc(10_000_000)));
    });
    await expect(open.request(ask(url, { maxBodyBytes: 100_000 }))).rejects.toMatchObject({ code: 'body_too_large' });
  });

  test('broken and unknown encodings are reported', async () => {
    const { url } = await serve((request, response) => {
      response.writeHead(200, { 'content-encoding': request.url === '/gzip' ? 'gzip' : 'zip' });
      response.end('not packed');
    });
    for (const path of ['/gzip', '/zip'])
      await expect(open.request(ask(url + path))).rejects.toMatchObject({ code: 'bad_encoding' });
  });

  test.each([
    ['no headers', () => {}],
    ['half a body', (response: ServerResponse) => void response.writeHead(200, { 'content-length': 10 }).write('abc')],
    [
      'a body of one byte now and then',
      (response: ServerResponse) => {
        const timer = setInterval(() => response.write('.'), 20);
        response.on('close', () => clearInterval(timer));
      },
    ],
  ])('%s: the whole has one deadline', async (_name, behave) => {
    const { url, sockets } = await serve((_request, response) => behave(response));
    await expect(open.request(ask(url, { timeoutMs: 150 }))).rejects.toMatchObject({ code: 'timeout' });
    await vi.waitFor(() => expect(sockets.size).toBe(0));
  });

  test('a signal gives up, also one that has aborted already', async () => {
    const { url, sockets } = await serve(() => {});
    const stop = new AbortController();
    const asked = open.request(ask(url), stop.signal);
    await vi.waitFor(() => expect(sockets.size).toBe(1));
    stop.abort();
    await expect(asked).rejects.toMatchObject({ code: 'aborted' });
    await expect(open.request(ask(url), stop.signal)).rejects.toMatchObject({ code: 'aborted' });
    await vi.waitFor(() => expect(sockets.size).toBe(0));
  });

  test('nobody there, a connection cut in the answer, and no URL at all have their own codes', async () => {
    const { url } = await serve((request) => request.socket.destroy());
    await expect(open.request(ask(url))).rejects.toMatchObject({ code: 'broken' });
    await expect(open.request(ask('http://127.0.0.1:1/'))).rejects.toMatchObject({ code: 'connect' });
    await expect(open.request(ask('nonsense'))).rejects.toMatchObject({ code: 'bad_url' });
    await expect(open.request(ask('file:///etc/passwd'))).rejects.toMatchObject({ code: 'bad_url' });
  });
});

describe('redirects', () => {
  test('are not followed unless allowed', async () => {
    const { url } = await serve((_request, response) => response.writeHead(302, { location: '/next' }).end());
    expect((await open.request(ask(url))).status).toBe(302);
  });

  test('are followed as often as allowed, 303 as a GET, 307 with its body', async () => {
    const { url } = await serve((request, response) => {
      const next = { '/303': 303, '/307': 307 }[request.url ?? ''];
      if (next !== undefined) return void response.writeHead(next, { location: '/end' }).end();
      request.on('data', (data) => response.write(data));
      request.on('end', () => response.end(`:${request.method}`));
    });
    const post = { method: 'POST', body: 'b', maxRedirects: 1 } as const;
    expect((await open.request(ask(`${url}/303`, post))).body.toString()).toBe(':GET');
    const answer = await open.request(ask(`${url}/307`, post));
    expect(answer.body.toString()).toBe('b:POST');
    expect(answer.url).toBe(`${url}/end`);
  });

  test('a loop ends', async () => {
    let requests = 0;
    const { url } = await serve((_request, response) => {
      requests += 1;
      response.writeHead(302, { location: '/' }).end();
    });
    await expect(open.request(ask(url, { maxRedirects: 3 }))).rejects.toMatchObject({ code: 'too_many_redirects' });
    expect(requests).toBe(4);
  });

  test('to another origin carry no credentials', async () => {
    let seen: IncomingMessage['headers'] = {};
    const other = await serve((request, response) => {
      seen = request.headers;
      response.end();
    });
    const { url } = await serve((_request, response) => response.writeHead(307, { location: other.url }).end());
    await open.request(
      ask(url, {
        maxRedirects: 1,
        headers: { authorization: 'Bearer secret', 'webhook-signature': 'v1,x', accept: 'a/b' },
      }),
    );
    expect(seen.authorization).toBeUndefined();
    expect(seen['webhook-signature']).toBeUndefined();
    expect(seen.accept).toBe('a/b');
  });
});

/** Names resolve to what the table says, in turn. */
function resolving(answers: string[][]) {
  let turn = 0;
  const resolve = ((_host: string, _options: unknown, callback: (error: null, found: object[]) => void) => {
    const addresses = answers[Math.min(turn, answers.length - 1)] ?? [];
    turn += 1;
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  }) as never;
  return { lookup: createSafeLookup(resolve), turns: () => turn };
}

describe('addresses inside our network', () => {
  const loopback = [
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.0.0.1',
    '0x7f.1',
    '017700000001',
    '0177.0.0.1',
    '0177.0.0.01',
    '127.0.0.1.',
    '127.255.255.254',
    '0.0.0.0',
    '0',
    '0x0',
    'localhost',
    'LOCALHOST',
    'localhost.',
    'api.localhost',
    '１２７.０.０.１',
    '127。0。0。1',
    'ⓛocalhost',
    '%31%32%37.0.0.1',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::]',
    '[::127.0.0.1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::ffff:0:127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b:1::7f00:1]',
    '[2002:7f00:1::]',
    '[2001::1]',
  ];
  const elsewhere = [
    '10.0.0.1',
    '10.1',
    '0x0a000001',
    '167772161',
    '012.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.0.1',
    '192.168.1',
    '0xc0a80001',
    '3232235521',
    '169.254.169.254',
    '2852039166',
    '0xa9fea9fe',
    '0251.0376.0251.0376',
    '[::ffff:169.254.169.254]',
    '[64:ff9b::a9fe:a9fe]',
    '100.64.0.1',
    '100.100.100.200',
    '168.63.129.16',
    '192.0.0.1',
    '198.18.0.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '[fe80::1]',
    '[fc00::1]',
    '[fd00:ec2::254]',
    '[::ffff:10.0.0.1]',
    '[::ffff:c0a8:1]',
    '[ff02::1]',
  ];

  test.each([...loopback, ...elsewhere])('http://%s is never connected to', async (host) => {
    const { url, sockets } = await serve((_request, response) => response.end());
    const { port } = new URL(url);
    const lookup = vi.fn();
    const http = createSafeHttp({ allowPrivate: false, lookup });
    await expect(http.request(ask(`http://${host}:${port}/`))).rejects.toMatchObject({ code: 'blocked_address' });
    expect(lookup).not.toHaveBeenCalled();
    expect(sockets.size).toBe(0);
  });

  test.each([
    [['127.0.0.1']],
    [['93.184.216.34', '127.0.0.1']],
    [['::1', '2606:4700:4700::1111']],
    [['::ffff:127.0.0.1']],
    [['64:ff9b::7f00:1']],
  ])('a name that resolves to %j is never connected to', async (addresses) => {
    const { url, sockets } = await serve((_request, response) => response.end());
    const http = createSafeHttp({ allowPrivate: false, lookup: resolving([addresses]).lookup });
    const asked = http.request(ask(`http://innocent.example:${new URL(url).port}/`));
    await expect(asked).rejects.toMatchObject({ code: 'blocked_address' });
    expect(sockets.size).toBe(0);
  });

  test('a name that changes its answer after the check gains nothing: it is asked once, and the checked address is dialled', async () => {
    const { url } = await serve((_request, response) => response.end('outside'));
    const { lookup, turns } = resolving([['93.184.216.34'], ['10.0.0.1']]);
    const dialled: unknown[] = [];
    // The checked public address leads to the test server, so that nothing leaves this machine.
    const translated = ((name: string, options: { all?: boolean }, callback: (...result: unknown[]) => void) =>
      lookup(name, { ...options, all: true }, (error, addresses) => {
        if (error !== null) return callback(error);
        dialled.push(addresses);
        callback(null, options.all ? [{ address: '127.0.0.1', family: 4 }] : '127.0.0.1', 4);
      })) as never;
    const http = createSafeHttp({ allowPrivate: false, lookup: translated });
    const answer = await http.request(ask(`http://rebind.example:${new URL(url).port}/`));
    expect(answer.body.toString()).toBe('outside');
    expect(turns()).toBe(1);
    expect(dialled).toEqual([[{ address: '93.184.216.34', family: 4 }]]);
    await expect(http.request(ask(`http://rebind.example:${new URL(url).port}/`))).rejects.toMatchObject({
      code: 'blocked_address',
    });
  });

  test('a redirect into our network is refused like a first address', async () => {
    const inside = await serve((_request, response) => response.end('secret'));
    const { url } = await serve((_request, response) => response.writeHead(302, { location: inside.url }).end());
    // The first hop is let through by a lookup that calls the test server's name public.
    const lookup = ((_name: string, options: { all?: boolean }, callback: (...result: unknown[]) => void) =>
      options.all ? callback(null, [{ address: '127.0.0.1', family: 4 }]) : callback(null, '127.0.0.1', 4)) as never;
    const http = createSafeHttp({ allowPrivate: false, lookup });
    const asked = http.request(ask(`http://outside.example:${new URL(url).port}/`, { maxRedirects: 3 }));
    await expect(asked).rejects.toMatchObject({ code: 'blocked_address' });
    expect(servers[0]?.sockets.size).toBe(0);
  });
});
