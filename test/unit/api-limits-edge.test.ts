import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

/** Real connections in real time: many of them at the edge of a second. */

let api: TestApi;
beforeEach(async () => {
  api = await testApi();
  await api.app.listen({ host: '127.0.0.1', port: 0 });
});
afterEach(() => api.close());

const connections = 50;
const perConnection = 14;
const limit = 40;

describe('the limit of a second', () => {
  it('is never passed by fifty connections at its edge', async () => {
    const limits = { requests_per_second: limit };
    const { id } = api.store.organizations.create({ name: 'Edge', tier: 'enterprise', limits });
    const request = `GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${api.addKey({ organizationId: id })}\r\n\r\n`;
    const { port } = api.app.server.address() as { port: number };
    const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
    // Half before the edge, in packets of two; the other half as answers come, so that they meet it.
    await new Promise((resolve) => setTimeout(resolve, (1_950 - (Date.now() % 1_000)) % 1_000));
    const answers = (await Promise.all(sockets.map((socket) => askAll(socket, request)))).flat();
    for (const socket of sockets) socket.destroy();

    expect(answers).toHaveLength(connections * perConnection);
    const passed = new Map<string, number>();
    for (const { status, second } of answers) {
      expect([200, 429]).toContain(status);
      passed.set(second, (passed.get(second) ?? 0) + (status === 200 ? 1 : 0));
    }
    // The header tells which second a request was counted in.
    expect(passed.size).toBeGreaterThanOrEqual(2);
    for (const count of passed.values()) expect(count).toBeLessThanOrEqual(limit);
    expect(Math.max(...passed.values())).toBe(limit);
  });
});

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket));
    socket.setNoDelay(true);
    socket.once('error', reject);
  });
}

/** Two requests at a time; the last pair not before the next second has begun. */
async function askAll(socket: Socket, request: string): Promise<{ status: number; second: string }[]> {
  const answers: { status: number; second: string }[] = [];
  let received = '';
  let arrived: () => void = () => {};
  socket.on('data', (data) => {
    received += data;
    // Heads alone are counted; bodies have none of these words.
    const heads = [...received.matchAll(/HTTP\/1\.1 (\d{3})[\s\S]*?x-ratelimit-reset: (\d+)\r\n/g)];
    if (heads.length < answers.length + 2) return;
    for (const [, status, second = ''] of heads.slice(answers.length)) answers.push({ status: Number(status), second });
    arrived();
  });
  for (let sent = 0; sent < perConnection; sent += 2) {
    const isLast = sent + 2 >= perConnection;
    if (isLast) await new Promise((resolve) => setTimeout(resolve, 1_010 - (Date.now() % 1_000)));
    await new Promise<void>((resolve) => {
      arrived = resolve;
      socket.write(request.repeat(2));
    });
  }
  return answers;
}
