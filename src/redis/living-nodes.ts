import type { Result } from 'ioredis';
import { uuidv7 } from 'uuidv7';
import type { SipAddress } from '../../sip/registrar/locations.js';
import type { RedisConnection } from './connection.js';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    announceNode(leases: string, about: string, id: string, ms: number, text: string): Result<string[], Context>;
  }
}

/** An entry lives as long as a lease in the database (ADR 13). */
const asLeases = { livesForMs: 8_000, announceEveryMs: 2_000 };
const leases = 'trunkline:{nodes}:leases';
const about = 'trunkline:{nodes}:about';

/** Renews a node's entry by the server's clock, removes those that ran out, and answers the ids and texts of all that live. */
const announceNode = `
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
  redis.call('ZREM', KEYS[1], gone)
  redis.call('HDEL', KEYS[2], gone)
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return redis.call('HGETALL', KEYS[2])
`;

/** The nodes that are alive, by their entries in Redis, with the addresses at which they take SIP from each other. */
export class LivingNodes {
  /** Of this process: a node that is started again has lost its connections. */
  readonly id = uuidv7();
  private addresses: readonly SipAddress[] = [];
  private living = new Map<string, readonly SipAddress[]>();
  private timer: NodeJS.Timeout | null = null;
  private readonly onChanged: ((hosts: readonly string[]) => void)[] = [];

  constructor(
    private readonly redis: RedisConnection,
    private readonly times = asLeases,
  ) {
    redis.define('announceNode', { keys: 2, lua: announceNode });
    redis.onRestored(() => void this.announce());
  }

  /** From now on, until `stop`, the others know this node. Their hosts are passed to `onOthers`. */
  async start(addresses: readonly SipAddress[], onOthers: (hosts: readonly string[]) => void): Promise<void> {
    const own = this.redis.localAddress;
    // a socket that listens everywhere is found where we meet the others: on the way to Redis
    this.addresses = addresses.flatMap((address) =>
      address.host !== '0.0.0.0' && address.host !== '::' ? address : own === null ? [] : { ...address, host: own },
    );
    this.onChanged.push(onOthers);
    this.timer = setInterval(() => void this.announce(), this.times.announceEveryMs).unref();
    await this.announce();
  }

  /** Where a node takes SIP; null: it is gone. */
  addressesOf(id: string): readonly SipAddress[] | null {
    return this.living.get(id) ?? null;
  }

  /** Makes sure that a node of which others speak is known, if it lives. Rejects when Redis does not answer. */
  async know(ids: Iterable<string>): Promise<void> {
    for (const id of ids) if (id !== this.id && !this.living.has(id)) return this.renew();
  }

  /** The others know at once that this node is gone. */
  async stop(): Promise<void> {
    if (this.timer === null) return;
    clearInterval(this.timer);
    this.timer = null;
    const left = this.redis.ask((redis) => redis.multi().zrem(leases, this.id).hdel(about, this.id).exec());
    await left.catch(() => undefined); // it runs out by itself
  }

  /** Renews the entry; what goes wrong is known to the connection. */
  private announce(): Promise<void> {
    return this.renew().catch(() => undefined);
  }

  private async renew(): Promise<void> {
    if (this.timer === null) return;
    const text = JSON.stringify(this.addresses);
    const found = await this.redis.ask((redis) =>
      redis.announceNode(leases, about, this.id, this.times.livesForMs, text),
    );
    const living = new Map<string, readonly SipAddress[]>();
    for (let at = 0; at + 1 < found.length; at += 2)
      living.set(found[at] ?? '', JSON.parse(found[at + 1] ?? '[]') as SipAddress[]);
    living.delete(this.id);
    this.living = living;
    const hosts = [...new Set([...living.values()].flat().map(({ host }) => host))].sort();
    for (const listener of this.onChanged) listener(hosts);
  }
}
