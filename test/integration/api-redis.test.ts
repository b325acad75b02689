import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { RedisCounts } from '../../src/api/limits/redis-counter.js';
import { type TestApi, testApi } from '../support/api.js';
import { freePort } from '../support/port-ranges.js';

/** Request counts of several processes together, over a real Redis (Debian: redis-server). */

let folder: string;
let redis: { url: string; stop(): Promise<void> };

async function startRedis(): Promise<typeof redis> {
  const port = await freePort();
  const child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const failed = once(child, 'error').then(([error]) => {
    throw new Error(`redis-server does not start (apt-get install redis-server): ${(error as Error).message}`);
  });
  const ready = new Promise<void>((resolve) => {
    child.stdout.on('data', (data) => {
      if (String(data).includes('Ready to accept connections')) resolve();
    });
  });
  await Promise.race([ready, failed]);
  failed.catch(() => {});
  return {
    url: `redis://127.0.0.1:${port}`,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill();
      await once(child, 'exit');
    },
  };
}

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'trunkline-redis-'));
  redis = await startRedis();
});
afterAll(async () => {
  await redis?.stop();
  rmSync(folder, { recursive: true });
});

describe('requests counted in Redis', () => {
  it('share one limit over processes, which slides', async () => {
    const counts = await Promise.all([RedisCounts.connect(redis.url), RedisCounts.connect(redis.url)]);
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
      for (const count of counts) count.close();
    }
  });

  it('go on in each process alone without it, which is said once', async () => {
    const own = await startRedis();
    const said: string[] = [];
    const log = { info: (text: string) => said.push(text), warn: (_fields: object, text: string) => said.push(text) };
    const answersMs: number[] = [];
    const counts = await RedisCounts.connect(own.url, log, (ms) => answersMs.push(ms));
    const api: TestApi = await testApi({ tier: 'free', redis: counts });
    try {
      const ask = () => api.request('GET', '/v1/me');
      const first = await ask();
      expect([first.status, first.headers['x-ratelimit-remaining']]).toEqual([200, '9']);
      expect(first.headers.ratelimit).toMatch(/^"second";r=9;t=1, "day";r=999;t=\d+$/);
      expect(counts.answers).toBe(true);
      expect(answersMs.every((ms) => ms > 0 && ms < 10_000) && answersMs.length > 0).toBe(true);
      await own.stop();
      await expect.poll(() => counts.answers).toBe(false);
      vi.useFakeTimers({ toFake: ['performance'] });
      const alone = await Promise.all(Array.from({ length: 12 }, ask));
      expect(alone.filter(({ status }) => status === 200)).toHaveLength(10);
      expect(said).toEqual(['Redis does not answer: request limits are counted by this process alone']);
    } finally {
      vi.useRealTimers();
      counts.close();
      await api.close();
      await own.stop();
    }
  });

  it('does not start when nobody answers', async () => {
    const url = `redis://127.0.0.1:${await freePort()}`;
    await expect(RedisCounts.connect(url)).rejects.toThrow('Cannot reach Redis: ');
  });
});
