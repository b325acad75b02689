import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { soon } from '../support/webhook-app.js';

let app: TestApp;
let server: Server;
let url = '';
let nextNumber = 12025552000;
const sockets = new Set<Socket>();

const xml = (response: ServerResponse, text: string) =>
  void response.writeHead(200, { 'content-type': 'text/xml' }).end(text);
const json = (response: ServerResponse, text: string) =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end(text);
const laughs = Array.from({ length: 9 }, (_, i) => `<!ENTITY l${i + 1} "${`&l${i};`.repeat(10)}">`).join('');

/** A byte every 100 ms until the other side has enough. */
function drip(response: ServerResponse, what: string): void {
  const timer = setInterval(() => response.write(what), 100);
  response.on('close', () => clearInterval(timer));
}

type Bad = [name: string, answer: (response: ServerResponse) => void, facts: object];

const bad: Bad[] = [
  ['500', (response) => void response.writeHead(500).end(), { http_status: 500 }],
  ['404', (response) => void response.writeHead(404).end(), { http_status: 404 }],
  ['410', (response) => void response.writeHead(410).end(), { http_status: 410 }],
  ['429', (response) => void response.writeHead(429, { 'retry-after': '1' }).end(), { http_status: 429 }],
  ...[301, 302, 307, 308].map((status): Bad => {
    const location = 'http://127.0.0.1:1/';
    return [String(status), (response) => void response.writeHead(status, { location }).end(), {}];
  }),
  ['a redirect to nowhere', (response) => void response.writeHead(302).end(), { http_status: 302 }],
  ['a redirect in a circle', (response) => void response.writeHead(302, { location: '#' }).end(), {}],
  [
    'wrong type',
    (response) => void response.writeHead(200, { 'content-type': 'image/png' }).end('x'),
    { where: 'content-type' },
  ],
  ['no type', (response) => void response.writeHead(200).end('{"actions":[]}'), { where: 'content-type' }],
  ['broken JSON', (response) => json(response, '{"actions":['), { where: 'body' }],
  ['JSON of another shape', (response) => json(response, '[]'), { where: 'body' }],
  [
    'a field of nobody',
    (response) => json(response, '{"actions":[{"action":"answer"},{"action":"record","loud":1}]}'),
    { where: 'actions[1].loud' },
  ],
  [
    'a value out of range',
    (response) => json(response, '{"actions":[{"action":"record","max_s":0}]}'),
    { where: 'actions[0].max_s' },
  ],
  ['broken XML', (response) => xml(response, '<Response>\n<Say>Hello</Response>'), { where: 'line 2' }],
  ['an entity', (response) => xml(response, '<Response><Say>&xxe;</Say></Response>'), { where: 'line 1' }],
  [
    'a DTD',
    (response) => xml(response, '<!DOCTYPE Response SYSTEM "http://127.0.0.1/x.dtd"><Response/>'),
    { where: 'line 1' },
  ],
  [
    'a billion laughs',
    (response) => xml(response, `<!DOCTYPE r [<!ENTITY l0 "ha">${laughs}]>\n<Response><Say>&l9;</Say></Response>`),
    { where: 'line 1' },
  ],
  ['an unknown verb', (response) => xml(response, '<Response>\n\n<Dance/></Response>'), { where: 'line 3: <Dance>' }],
  [
    'an unknown encoding',
    (response) => xml(response, '<?xml version="1.0" encoding="klingon-1"?><Response/>'),
    { where: 'charset' },
  ],
  [
    'a noun in the wrong place',
    (response) => xml(response, '<Response><Number>+12025550100</Number></Response>'),
    { where: 'line 1: <Number>' },
  ],
  [
    'an endless body',
    (response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const more = () => {
        while (response.write(' '.repeat(65_536)));
        response.once('drain', more);
      };
      more();
    },
    {},
  ],
  [
    'a bomb',
    (response) =>
      void response
        .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
        .end(gzipSync(Buffer.alloc(50_000_000))),
    {},
  ],
  [
    'ten thousand headers',
    (response) => {
      for (let i = 0; i < 10_000; i += 1) response.setHeader(`x-${i}`, 'y');
      json(response, '{"actions":[]}');
    },
    {},
  ],
  [
    'a cut answer',
    (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' }).write('{');
      setTimeout(() => response.destroy(), 50);
    },
    {},
  ],
  [
    'slow headers',
    (response) => drip({ write: () => response.socket?.write('x'), on: response.on.bind(response) } as never, ''),
    {},
  ],
  ['silence', () => {}, {}],
  [
    'a slow body',
    (response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      drip(response, ' ');
    },
    {},
  ],
];

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' }, { t1: 100, t2: 400, t4: 500 });
  server = createServer({ maxHeaderSize: 65_536 }, (request, response) => {
    request.resume();
    response.on('error', () => {});
    const name = decodeURIComponent((request.url ?? '').slice(1));
    bad.find((each) => each[0] === name)?.[1](response);
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await app.end();
});

describe('a webhook that answers badly', () => {
  // The slow ones take the ten seconds that a webhook has.
  test('is a failed call that says what was wrong and where; the caller hears 503; nothing stays open', {
    timeout: 60_000,
  }, async () => {
    const calls = await Promise.all(
      bad.map(async ([name, , facts]) => {
        const number = `+${nextNumber++}`;
        const target = `${url}/${encodeURIComponent(name)}`;
        const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', { name, type: 'webhook', target });
        await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: id });
        return { name, number, facts };
      }),
    );
    const heard: Awaited<ReturnType<typeof phoneCalls>>[] = [];
    // Not more at once than any machine takes; the slow ones, which are last in the list, begin first.
    const waiting = [...calls.keys()];
    const callOneByOne = async () => {
      for (let index = waiting.pop(); index !== undefined; index = waiting.pop())
        heard[index] = await phoneCalls(app, calls[index]!.number, { durationMs: 30_000 });
    };
    await Promise.all(Array.from({ length: 8 }, callOneByOne));
    for (const [index, { name, number, facts }] of calls.entries()) {
      expect(heard[index]?.report(), name).toMatchObject({ answered: false, sipStatus: 503 });
      const record = await app.finishedCall(number);
      expect(record, name).toMatchObject({ status: 'failed', hangup_cause: 'webhook_error', answered_at: null });
      const failed = record.events.filter((event) => event.event_type === 'webhook.failed');
      expect(failed, name).toHaveLength(1);
      expect(failed[0]?.event_data, name).toMatchObject(facts);
      expect(String(failed[0]?.event_data.message).length, name).toBeGreaterThan(10);
    }
    await soon(() => expect(sockets.size).toBe(0));
  });

  test('too late, when the caller has hung up, changes nothing', async () => {
    const number = `+${nextNumber++}`;
    const name = `late for ${number.slice(1)}`;
    let answer!: () => void;
    const asked = new Promise<void>((resolve) => {
      bad.push([
        name,
        (response) => {
          resolve();
          answer = () => json(response, '{"actions":[{"action":"answer"},{"action":"pause","seconds":60}]}');
        },
        {},
      ]);
    });
    const target = `${url}/${encodeURIComponent(name)}`;
    const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', { name, type: 'webhook', target });
    await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: id });
    const stop = new AbortController();
    const calling = phoneCalls(app, number, { signal: stop.signal });
    await asked;
    stop.abort();
    await calling;
    answer();
    expect(await app.finishedCall(number)).toMatchObject({ status: 'no_answer', hangup_cause: 'originator_cancel' });
    await soon(() => expect(sockets.size).toBe(0));
    expect(app.live.count).toBe(0);
  });
});
