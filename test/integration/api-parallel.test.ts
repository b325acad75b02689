import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OutboundCall } from '../../src/call/core/outbound-request.js';
import { type TestApi, testApi } from '../support/api.js';

/** Fifty real connections that ask for outbound calls in the same moment. */

const connections = 50;
let api: TestApi;
let started: OutboundCall[];
let endpointId: string;
let sockets: Socket[];

beforeEach(async () => {
  started = [];
  api = await testApi({ outboundCalls: { refusal: () => null, start: (call) => started.push(call) } });
  const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
  const agent = { name: 'E', type: 'agent', target: 'wss://a.example.com', provider: 'custom', providerConfig: {} };
  endpointId = (await api.store.endpoints.create(scope, agent as Parameters<typeof api.store.endpoints.create>[1]))
    .record.id;
  await api.store.phoneNumbers.create(scope, { number: '+15551112222', endpointId });
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = api.app.server.address() as { port: number };
  sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await api.close();
});

interface Answered {
  status: number;
  replayed: boolean;
  body: { id?: string; code?: string };
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket));
    socket.setNoDelay(true);
    socket.once('error', reject);
  });
}

function headOf(bytes: number, key?: string): string {
  return [
    'POST /v1/outbound-calls HTTP/1.1',
    ...['Host: x', `X-Api-Key: ${api.a.key}`, 'Content-Type: application/json', `Content-Length: ${bytes}`],
    ...(key === undefined ? [] : [`Idempotency-Key: ${key}`]),
    '\r\n',
  ].join('\r\n');
}
const bodyOf = (over: object = {}) =>
  JSON.stringify({ to_number: '+493012345678', from_number: '+15551112222', endpoint_id: endpointId, ...over });
const requestOf = (key?: string, over: object = {}) => `${headOf(bodyOf(over).length, key)}${bodyOf(over)}`;

/** The next answer on the connection. */
function answerOn(socket: Socket): Promise<Answered> {
  return new Promise((resolve) => {
    let text = '';
    const take = (data: Buffer) => {
      text += data;
      const end = text.indexOf('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1]);
      if (end < 0 || Buffer.byteLength(text.slice(end + 4)) < length) return;
      socket.off('data', take);
      const replayed = /idempotent-replayed: true/i.test(text.slice(0, end));
      resolve({ status: Number(text.slice(9, 12)), replayed, body: JSON.parse(text.slice(end + 4)) });
    };
    socket.on('data', take);
  });
}
const send = (socket: Socket, text: string): Promise<Answered> => {
  const answer = answerOn(socket);
  socket.write(text);
  return answer;
};
const all = (request: (n: number) => string) =>
  Promise.all(sockets.map((socket, n) => send(socket, request(n)))) as Promise<Answered[]>;

describe('fifty requests at once', () => {
  it('never spend more than there is', async () => {
    const card = { microcentsPerMinute: 10e6, initialIncrementSec: 60, incrementSec: 60 };
    await api.store.accounts.setRates(api.a.organizationId, [{ direction: 'outbound', prefix: '', ...card }]);
    await api.store.accounts.credit(api.a.organizationId, 105, '');
    const answers = await all(() => requestOf());
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(10);
    expect(answers.filter(({ status, body }) => status === 402 && body.code === 'INSUFFICIENT_BALANCE')).toHaveLength(
      40,
    );
    expect(started).toHaveLength(10);
    expect(await api.store.accounts.balance(api.a.organizationId)).toEqual({
      microcents: 105e6,
      heldMicrocents: 100e6,
    });
  });

  it('never pass the cap on calls', async () => {
    await api.store.organizations.update(api.a.organizationId, { limits: { concurrent_calls: 7 } });
    const answers = await all(() => requestOf());
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(7);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201, 429]));
  });

  it('with one Idempotency-Key are one call: its answer, again or not yet', async () => {
    const answers = await all(() => requestOf('order-7'));
    expect(started).toHaveLength(1);
    expect(answers.filter(({ status, replayed }) => status === 201 && !replayed)).toHaveLength(1);
    for (const { status, body } of answers) {
      if (status === 201) expect(body.id).toBe(started[0]?.begun.id);
      else expect([status, body.code]).toEqual([409, 'IDEMPOTENCY_IN_PROGRESS']);
    }
    const [socket] = sockets as [Socket];
    expect(await send(socket, requestOf('order-7'))).toMatchObject({ status: 201, replayed: true });
  });

  it('with one Idempotency-Key and bodies of their own are one call, and no other gets its answer', async () => {
    const answers = await all((n) => requestOf('order-8', { ring_timeout: 5 + n }));
    expect(started).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    for (const { status, body } of answers)
      if (status !== 201) expect(body.code).toMatch(/^IDEMPOTENCY_(IN_PROGRESS|KEY_REUSED)$/);
  });
});

describe('a request with the key of one that is still arriving', () => {
  it('is 409 until that one is answered, and then gets its answer', async () => {
    const [first, second, third] = sockets as [Socket, Socket, Socket];
    const body = bodyOf();
    const answered = answerOn(first);
    first.write(headOf(body.length, 'slow') + body.slice(0, 10));
    // The server has seen the head when it answers what came later on another connection.
    let early: Answered;
    do early = await send(third, requestOf('slow', { ring_timeout: 4 }));
    while (early.status !== 400); // its shape is wrong: told before anything about the key
    expect(await send(second, requestOf('slow'))).toMatchObject({
      status: 409,
      body: { code: 'IDEMPOTENCY_IN_PROGRESS' },
    });
    expect(started).toHaveLength(0);
    first.write(body.slice(10));
    const { status, body: call } = await answered;
    expect(status).toBe(201);
    expect(await send(second, requestOf('slow'))).toMatchObject({ status: 201, replayed: true, body: { id: call.id } });
  });

  it('is carried out when that one is never finished', async () => {
    const [first, second] = sockets as [Socket, Socket];
    first.write(headOf(200, 'cut') + bodyOf().slice(0, 10));
    first.destroy();
    let answer: Answered;
    do answer = await send(second, requestOf('cut'));
    while (answer.status === 409); // until the server has noticed
    expect(answer.status).toBe(201);
    expect(started).toHaveLength(1);
  });
});
