import { randomUUID } from 'node:crypto';
import type { Result } from 'ioredis';
import type { RedisConnection } from './connection.js';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    takePlace(places: string, id: string, limit: number, ms: number): Result<0 | 1, Context>;
    holdPlaces(places: string, ms: number, ...ids: string[]): Result<0 | 1, Context>;
  }
}

/** A place is held as long as a lease in the database (ADR 13), so that a node that died gives its places back. */
const asLeases = { heldForMs: 8_000, renewEveryMs: 2_000 };

/** A sorted set of those that hold a place, by the server's time until which they do. */
const takePlace = `
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`;
const holdPlaces = `
local time = redis.call('TIME')
local untilMs = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + tonumber(ARGV[1])
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], untilMs, ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
`;

/**
 * Places of running calls that all nodes count together. While Redis does not answer a node counts its own; when it answers again, its calls are
 * added, so that all nodes together may have more than the limit until calls end, and none is counted twice.
 */
export class CallPlaces {
  /** The ids of this node's calls, by group. */
  private readonly held = new Map<string, Set<string>>();
  private readonly timer: NodeJS.Timeout;

  constructor(
    private readonly redis: RedisConnection,
    private readonly times = asLeases,
  ) {
    redis.define('takePlace', { keys: 1, lua: takePlace });
    redis.define('holdPlaces', { keys: 1, lua: holdPlaces });
    redis.onRestored(() => void this.renew());
    this.timer = setInterval(() => void this.renew(), times.renewEveryMs).unref();
  }

  /** Takes one of `limit` places of a group; the function gives it back. null: all are taken. Never rejects. */
  async take(group: string, limit: number): Promise<(() => void) | null> {
    const id = randomUUID();
    const own = this.held.get(group) ?? new Set();
    this.held.set(group, own.add(id)); // from now on, since an answer that comes too late is not heard of
    const answer = this.redis.ask((redis) => redis.takePlace(nameOf(group), id, limit, this.times.heldForMs));
    // alone, those that came first have the places
    const isTaken = await answer.then((taken) => taken === 1).catch(() => [...own].indexOf(id) < limit);
    const leave = () => this.leave(group, id);
    if (isTaken) return leave;
    leave();
    return null;
  }

  /** Places are held no longer. */
  close(): void {
    clearInterval(this.timer);
  }

  private leave(group: string, id: string): void {
    const own = this.held.get(group);
    if (!own?.delete(id)) return;
    if (own.size === 0) this.held.delete(group);
    this.redis.ask((redis) => redis.zrem(nameOf(group), id)).catch(() => {}); // it runs out by itself
  }

  /** What goes wrong is known to the connection. */
  private async renew(): Promise<void> {
    const renewed = [...this.held].map(([group, ids]) =>
      this.redis.ask((redis) => redis.holdPlaces(nameOf(group), this.times.heldForMs, ...ids)),
    );
    await Promise.allSettled(renewed);
  }
}

function nameOf(group: string): string {
  return `trunkline:calls:{${group}}`;
}
