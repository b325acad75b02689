import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

/** Real connections in real time: fifty of them ask without pause over the edges of seconds. */

let api: TestApi;
beforeEach(async () => {
  api = await testApi();
  await api.app.listen({ host: '127.0.0.1', port: 0 });
});
afterEach(() => api.close());

const connections = 50;
const limit = 40;
const askingMs = 2_500;

interface Asked {
  sentMs: number;
  answeredMs: number;
  status: number;
}

describe('the limit of a second', () => {
  it('is never passed in any second by fifty connections', async () => {
    const limits = { requests_per_second: limit };
    const { id } = await api.store.organizations.create({ name: 'Edge', tier: 'enterprise', limits });
    const request = `GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${await api.addKey({ organizationId: id })}\r\n\r\n`;
    const { port } = api.app.server.address() as { port: number };
    const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
    const untilMs = performance.now() + askingMs;
    const asked = (await Promise.all(sockets.map((socket) => askUntil(socket, request, untilMs)))).flat();
    for (const socket of sockets) socket.destroy();

    expect(new Set(asked.map(({ status }) => status))).toEqual(new Set([200, 429]));
    const through = asked.filter(({ status }) => status === 200);
    // Those sent and answered within a second were surely counted within it.
    for (const { sentMs } of through) {
      const within = through.filter((other) => other.sentMs >= sentMs && other.answeredMs < sentMs + 1_000);
      expect(within.length).toBeLessThanOrEqual(limit);
    }
    expect(through.length).toBeGreaterThanOrEqual(2 * limit);
  });
});

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket));
    socket.setNoDelay(true);
    socket.once('error', reject);
  });
}

/** One request after the other. */
async function askUntil(socket: Socket, request: string, untilMs: number): Promise<Asked[]> {
  const asked: Asked[] = [];
  let received = '';
  let arrived: (status: number) => void = () => {};
  socket.on('data', (data) => {
    received += data;
    const [head = '', body] = received.split('\r\n\r\n', 2);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
    if (body === undefined || Buffer.byteLength(body) < length) return;
    received = '';
    arrived(Number(head.slice(9, 12)));
  });
  while (performance.now() < untilMs) {
    const sentMs = performance.now();
    const status = await new Promise<number>((resolve) => {
      arrived = resolve;
      socket.write(request);
    });
    asked.push({ sentMs, answeredMs: performance.now(), status });
  }
  return asked;
}
