import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { CallRates } from '../../src/redis/call-rates.js';
import { RedisConnection } from '../../src/redis/connection.js';
import { RateCounter } from '../../src/redis/rate-counter.js';
import { type TestApi, testApi } from '../support/api.js';
import { freePort } from '../support/port-ranges.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';

/** Request counts of several processes together, over a real Redis (Debian: redis-server). */

let redis: RedisServer;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis?.stop());

describe('requests counted in Redis', () => {
  it('share one limit over processes, which slides', async () => {
    const connections = await Promise.all([RedisConnection.connect(redis.url), RedisConnection.connect(redis.url)]);
    const counts = connections.map((connection) => new RateCounter(connection));
    try {
      const limit = 20;
      const through: { sentMs: number; answeredMs: number }[] = [];
      const untilMs = performance.now() + 2_500;
      const asking = counts.flatMap((count) => Array.from({ length: 10 }, () => count));
      const days = new Set<number>();
      await Promise.all(
        asking.map(async (count) => {
          while (performance.now() < untilMs) {
            const sentMs = performance.now();
            const counted = await count.count('org', limit, 7).catch(() => null);
            if (counted === null) {
              await new Promise((resolve) => setImmediate(resolve)); // a busy machine: it took longer than is waited for
              continue;
            }
            expect(counted.usedInSecond).toBeLessThanOrEqual(limit);
            expect(counted.secondMs).toBeGreaterThan(0);
            expect(counted.secondMs).toBeLessThanOrEqual(1_000);
            if (!counted.isLetThrough) continue;
            through.push({ sentMs, answeredMs: performance.now() });
            days.add(counted.usedInDay);
          }
        }),
      );
      for (const { sentMs } of through) {
        const within = through.filter((other) => other.sentMs >= sentMs && other.answeredMs < sentMs + 1_000);
        expect(within.length).toBeLessThanOrEqual(limit);
      }
      expect(through.length).toBeGreaterThanOrEqual(2 * limit);
      // Each request that passed has a number of its own.
      expect(days.size).toBe(through.length);
    } finally {
      for (const connection of connections) connection.close();
    }
  });

  it('go on in each process alone without it, which is said once', async () => {
    const own = await startRedis();
    const said: string[] = [];
    const log = { info: (text: string) => said.push(text), warn: (_fields: object, text: string) => said.push(text) };
    const answersMs: number[] = [];
    const connection = await RedisConnection.connect(own.url, log, (ms) => answersMs.push(ms));
    const api: TestApi = await testApi({ tier: 'free', redis: new RateCounter(connection) });
    try {
      const ask = () => api.request('GET', '/v1/me');
      const first = await ask();
      expect([first.status, first.headers['x-ratelimit-remaining']]).toEqual([200, '9']);
      expect(first.headers.ratelimit).toMatch(/^"second";r=9;t=1, "day";r=999;t=\d+$/);
      expect(connection.answers).toBe(true);
      expect(answersMs.every((ms) => ms > 0 && ms < 10_000) && answersMs.length > 0).toBe(true);
      await own.stop();
      await expect.poll(() => connection.answers).toBe(false);
      vi.useFakeTimers({ toFake: ['performance'] });
      const alone = await Promise.all(Array.from({ length: 12 }, ask));
      expect(alone.filter(({ status }) => status === 200)).toHaveLength(10);
      expect(said).toEqual(['Redis does not answer: this node counts limits alone and knows its own phones only']);
    } finally {
      vi.useRealTimers();
      connection.close();
      await api.close();
      await own.stop();
    }
  });

  it('does not start when nobody answers', async () => {
    const url = `redis://127.0.0.1:${await freePort()}`;
    await expect(RedisConnection.connect(url)).rejects.toThrow('Cannot reach Redis: ');
  });

  it('share the calls per second of an organization and of a trunk, and count each in a node without it', async () => {
    const own = await startRedis();
    const nodes = await Promise.all([RedisConnection.connect(own.url), RedisConnection.connect(own.url)]);
    const [one, two] = nodes.map((node) => new CallRates(new RateCounter(node), () => 0));
    if (!one || !two) throw new Error('no nodes');
    try {
      const asked = Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? one : two).begin('organization', 'o', 5));
      expect((await Promise.all(asked)).filter(Boolean)).toHaveLength(5);
      // a trunk with the same id, and another organization, have their own
      expect(await one.begin('trunk', 'o', 1)).toBe(true);
      expect(await two.begin('trunk', 'o', 1)).toBe(false);
      expect(await two.begin('organization', 'p', 1)).toBe(true);
      await own.stop();
      await expect.poll(() => nodes.some(({ answers }) => answers)).toBe(false);
      for (const node of [one, two]) {
        const alone = await Promise.all(Array.from({ length: 8 }, () => node.begin('organization', 'o', 5)));
        expect(alone.filter(Boolean)).toHaveLength(5);
      }
    } finally {
      for (const node of nodes) node.close();
      await own.stop();
    }
  });
});
