import type { Redis } from 'ioredis';

/** Counts shared by several processes: one key per window, counted up in one step. */
export class RedisCounts {
  private constructor(private readonly redis: Redis) {}

  /** Throws one clear sentence when the package is not installed or the server does not answer. */
  static async connect(url: string): Promise<RedisCounts> {
    let Client: typeof Redis;
    try {
      ({ Redis: Client } = await import('ioredis'));
    } catch (error) {
      throw new Error('TRUNKLINE_REDIS_URL is set, but the package ioredis is not installed', { cause: error });
    }
    const redis = new Client(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      commandTimeout: 250,
      connectTimeout: 5_000,
      maxRetriesPerRequest: 0,
      retryStrategy: (times) => Math.min(1_000 * times, 10_000),
    });
    redis.on('error', () => {}); // requests notice, and count in this process meanwhile
    try {
      await redis.connect();
    } catch (error) {
      redis.disconnect();
      throw new Error(`Cannot reach Redis: ${(error as Error).message}`, { cause: error });
    }
    return new RedisCounts(redis);
  }

  /** Answers the number of this request in its window. Rejects when Redis does not answer. */
  async add(key: string, startMs: number, windowMs: number): Promise<number> {
    const name = nameOf(key, startMs, windowMs);
    const results = await this.redis
      .multi()
      .incr(name)
      .pexpire(name, windowMs * 2, 'NX')
      .exec();
    const [error, count] = results?.[0] ?? [new Error('no answer'), 0];
    if (error) throw error;
    return Number(count);
  }

  async read(key: string, startMs: number, windowMs: number): Promise<number> {
    return Number((await this.redis.get(nameOf(key, startMs, windowMs))) ?? 0);
  }

  close(): void {
    this.redis.disconnect();
  }
}

function nameOf(key: string, startMs: number, windowMs: number): string {
  return `trunkline:requests:${key}:${windowMs}:${startMs}`;
}
