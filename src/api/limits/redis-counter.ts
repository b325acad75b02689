import type { Redis, Result } from 'ioredis';
import type { Counted } from './counted.js';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    countRequest(
      second: string,
      day: string,
      limit: number,
      countsDay: 0 | 1,
    ): Result<[letThrough: 0 | 1, usedInSecond: number, secondMs: number, usedInDay: number], Context>;
  }
}

/** Hears when Redis is lost, and when it answers again. */
export interface RedisLog {
  info(text: string): void;
  warn(fields: object, text: string): void;
}

/**
 * One step on the server, by its clock, so that neither requests that come at once nor clocks that differ let one through too many. A sorted set
 * holds the moments (in microseconds) of those let through in the last second.
 */
const countRequest = `
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - 1000000))
local used = redis.call('ZCARD', KEYS[1])
local through = used < tonumber(ARGV[1])
if through then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), time[1] .. ':' .. time[2] .. ':' .. used)
  redis.call('PEXPIRE', KEYS[1], 1000)
  used = used + 1
end
local oldest = tonumber(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
local day = 0
if ARGV[2] == '1' then
  if through then
    day = redis.call('INCR', KEYS[2])
    if day == 1 then redis.call('EXPIRE', KEYS[2], 172800) end
  else
    day = tonumber(redis.call('GET', KEYS[2]) or 0)
  end
end
return { through and 1 or 0, used, math.ceil((oldest + 1000000 - now) / 1000), day }
`;

/** While it does not answer it is asked once in this time, so that requests do not wait for it one by one. */
const retryEveryMs = 1_000;
const answerLimitMs = 250;

/** Counts shared by several processes. */
export class RedisCounts {
  /** False from the first request it failed until it counts again. */
  answers = true;
  private askAgainAtMs = 0;

  private constructor(
    private readonly redis: Redis,
    private readonly log: RedisLog | null,
    private readonly onAnswered: (ms: number) => void,
  ) {}

  /**
   * Throws one clear sentence when the package is not installed or the server does not answer. `onAnswered`: called after each answer, with the
   * time that it took.
   */
  static async connect(
    url: string,
    log: RedisLog | null = null,
    onAnswered: (ms: number) => void = () => {},
  ): Promise<RedisCounts> {
    let Client: typeof Redis;
    try {
      ({ Redis: Client } = await import('ioredis'));
    } catch (error) {
      throw new Error('TRUNKLINE_REDIS_URL is set, but the package ioredis is not installed', { cause: error });
    }
    const redis = new Client(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      commandTimeout: answerLimitMs,
      connectTimeout: 5_000,
      maxRetriesPerRequest: 0,
      retryStrategy: (times) => Math.min(1_000 * times, 10_000),
    });
    redis.defineCommand('countRequest', { numberOfKeys: 2, lua: countRequest });
    redis.on('error', () => {}); // `close` follows
    try {
      await redis.connect();
    } catch (error) {
      redis.disconnect();
      throw new Error(`Cannot reach Redis: ${(error as Error).message}`, { cause: error });
    }
    const counts = new RedisCounts(redis, log, onAnswered);
    redis.on('close', () => counts.lost('the connection is closed'));
    redis.on('ready', () => counts.found());
    return counts;
  }

  /** As `RequestCounts.count`. Rejects when Redis does not answer. */
  async count(key: string, perSecond: number, day: number | null): Promise<Counted> {
    if (!this.answers && performance.now() < this.askAgainAtMs) throw new Error('Redis does not answer');
    const askedMs = performance.now();
    this.askAgainAtMs = askedMs + retryEveryMs;
    try {
      // One hash tag: both keys lie on one node of a cluster.
      const name = `trunkline:requests:{${key}}`;
      const [letThrough, usedInSecond, secondMs, usedInDay] = await this.redis.countRequest(
        `${name}:second`,
        `${name}:day:${day ?? ''}`,
        perSecond,
        day === null ? 0 : 1,
      );
      this.onAnswered(performance.now() - askedMs);
      this.found();
      return { isLetThrough: letThrough === 1, usedInSecond, secondMs, usedInDay };
    } catch (error) {
      this.lost((error as Error).message);
      throw error;
    }
  }

  close(): void {
    this.redis.removeAllListeners('close');
    this.redis.disconnect();
  }

  private lost(reason: string): void {
    if (!this.answers) return;
    this.answers = false;
    this.log?.warn({ reason }, 'Redis does not answer: request limits are counted by this process alone');
  }

  private found(): void {
    if (this.answers) return;
    this.answers = true;
    this.log?.info('Redis answers again: request limits are shared');
  }
}
