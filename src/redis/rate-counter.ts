import type { Result } from 'ioredis';
import type { RedisConnection } from './connection.js';

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

/** What a request finds of its limits. */
export interface Counted {
  /** False: the limit of the second is used up, and the request was counted nowhere. */
  isLetThrough: boolean;
  /** Requests let through in the last second, this one among them. */
  usedInSecond: number;
  /** Milliseconds until the oldest of them is a second old: then one more may come. */
  secondMs: number;
  /** Requests let through on this UTC day, this one among them; 0 where days are not counted. */
  usedInDay: number;
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

/** Rates counted by several nodes together. */
export class RateCounter {
  constructor(private readonly redis: RedisConnection) {
    redis.define('countRequest', { keys: 2, lua: countRequest });
  }

  /** As `RequestCounts.count`; `key` begins with what is counted. Rejects when Redis does not answer. */
  async count(key: string, perSecond: number, day: number | null): Promise<Counted> {
    // One hash tag: both keys lie on one node of a cluster.
    const name = `trunkline:requests:{${key}}`;
    const keys = [`${name}:second`, `${name}:day:${day ?? ''}`] as const;
    const [letThrough, usedInSecond, secondMs, usedInDay] = await this.redis.ask((redis) =>
      redis.countRequest(...keys, perSecond, day === null ? 0 : 1),
    );
    return { isLetThrough: letThrough === 1, usedInSecond, secondMs, usedInDay };
  }
}
