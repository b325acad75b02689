/** A Redis of the test's own (Debian: redis-server), which forgets everything when it ends. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { RedisConnection } from '../../src/redis/connection.js';
import { freePort } from './port-ranges.js';

export interface RedisServer {
  url: string;
  port: number;
  stop(): Promise<void>;
}

/** `port`: that of one that was stopped; another one if absent. */
export async function startRedis(port?: number): Promise<RedisServer> {
  const chosen = port ?? (await freePort());
  const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-redis-'));
  const child = spawn(
    'redis-server',
    ['--port', String(chosen), '--bind', '127.0.0.1', '--save', '', '--dir', folder],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
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
    url: `redis://127.0.0.1:${chosen}`,
    port: chosen,
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill();
        await once(child, 'exit');
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export async function forgetAll({ url }: RedisServer): Promise<void> {
  const connection = await RedisConnection.connect(url);
  await connection.ask((redis) => redis.flushall());
  connection.close();
}
