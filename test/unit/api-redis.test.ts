import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { RedisCounts } from '../../src/api/redis-counter.js';
import { type TestApi, testApi } from '../support/api.js';
import { freePort } from '../support/port-ranges.js';

/** Request counts of several processes together, over a real Redis (Debian: redis-server). */

const nowMs = Date.UTC(2026, 0, 15, 12);
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
  it('share one limit over processes, and go on without it', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: nowMs });
    const counts = await Promise.all([RedisCounts.connect(redis.url), RedisCounts.connect(redis.url)]);
    const apis: TestApi[] = [];
    try {
      apis.push(await testApi({ tier: 'free', redis: counts[0]! }));
      // Another process over the same database.
      apis.push(await testApi({ store: apis[0]!.store, redis: counts[1]! }));
      const key = apis[0]!.a.key;
      const ask = (n: number) => apis[n % 2]!.request('GET', '/v1/me', { key });
      const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => ask(n)));
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
      expect(answers.filter(({ status }) => status === 429)).toHaveLength(40);
      vi.setSystemTime(nowMs + 1_000);
      const next = await ask(0);
      expect([next.status, next.headers['x-ratelimit-remaining']]).toEqual([200, '9']);
      expect(next.headers.ratelimit).toBe('"second";r=9;t=1, "day";r=989;t=43199');
      expect((await ask(1)).headers['x-ratelimit-remaining']).toBe('8');

      await redis.stop();
      vi.setSystemTime(nowMs + 2_000);
      const alone = await Promise.all(Array.from({ length: 12 }, () => ask(0)));
      expect(alone.filter(({ status }) => status === 200)).toHaveLength(10); // each process for itself
    } finally {
      vi.useRealTimers();
      for (const count of counts) count.close();
      await apis[1]?.app.close();
      await apis[0]?.close();
    }
  });

  it('does not start when nobody answers', async () => {
    const url = `redis://127.0.0.1:${await freePort()}`;
    await expect(RedisCounts.connect(url)).rejects.toThrow('Cannot reach Redis: ');
  });
});
