import type { Result } from 'ioredis';
import {
  contactKey,
  type LocationDirectory,
  type SharedBinding,
  type SipAddress,
} from '../../sip/registrar/locations.js';
import type { RedisConnection } from './connection.js';
import type { LivingNodes } from './living-nodes.js';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    findContacts(key: string): Result<(string | number)[], Context>;
    changeContacts(key: string, ...change: (string | number)[]): Result<null, Context>;
  }
}

const keyOf = (username: string) => `trunkline:registrations:{${username}}`;

/** A hash of contacts; each value begins with the moment of its end by the server's clock. */
const now = `
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function split(value) return string.match(value, '^(%d+)|(.*)$') end
`;
const findContacts = `${now}
local found = {}
for _, value in ipairs(redis.call('HVALS', KEYS[1])) do
  local till, text = split(value)
  if tonumber(till) > now then
    found[#found + 1] = tonumber(till) - now
    found[#found + 1] = text
  end
end
return found
`;
/** ARGV: whether what expires later stays; how many contacts are removed, and their names; then name, milliseconds and text of each new one. */
const changeContacts = `${now}
local removed = tonumber(ARGV[2])
for at = 3, 2 + removed do redis.call('HDEL', KEYS[1], ARGV[at]) end
for at = 3 + removed, #ARGV, 3 do
  local till = now + tonumber(ARGV[at + 1])
  local before = redis.call('HGET', KEYS[1], ARGV[at])
  if ARGV[1] == '0' or not before or tonumber((split(before))) < till then
    redis.call('HSET', KEYS[1], ARGV[at], string.format('%.0f|', till) .. ARGV[at + 2])
  end
end
local last = 0
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local till = tonumber((split(all[at + 1])))
  if till <= now then redis.call('HDEL', KEYS[1], all[at]) elseif till > last then last = till end
end
if last > 0 then redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', last)) end
return nil
`;

/** The registrations of all nodes, in Redis. */
export class SharedRegistrations implements LocationDirectory {
  constructor(
    private readonly redis: RedisConnection,
    private readonly nodes: LivingNodes,
  ) {
    redis.define('findContacts', { keys: 1, lua: findContacts });
    redis.define('changeContacts', { keys: 1, lua: changeContacts });
  }

  get node(): string {
    return this.nodes.id;
  }

  async find(username: string): Promise<SharedBinding[]> {
    const found = await this.redis.ask((redis) => redis.findContacts(keyOf(username)));
    const bindings: SharedBinding[] = [];
    for (let at = 0; at + 1 < found.length; at += 2)
      bindings.push({ ...(JSON.parse(String(found[at + 1])) as SharedBinding), leftMs: Number(found[at]) });
    await this.nodes.know(bindings.map(({ node }) => node));
    return bindings;
  }

  async change(username: string, change: { set: readonly SharedBinding[]; removed: readonly string[] }): Promise<void> {
    const removed = change.removed.map(contactKey);
    const args = [0, removed.length, ...removed, ...change.set.flatMap(written)];
    await this.redis.ask((redis) => redis.changeContacts(keyOf(username), ...args));
  }

  async restore(username: string, bindings: readonly SharedBinding[]): Promise<void> {
    await this.redis.ask((redis) => redis.changeContacts(keyOf(username), 1, 0, ...bindings.flatMap(written)));
  }

  addressesOf(node: string): readonly SipAddress[] | null {
    return this.nodes.addressesOf(node);
  }

  onRestored(listener: () => void): void {
    this.redis.onRestored(listener);
  }
}

function written({ leftMs, ...binding }: SharedBinding): [string, number, string] {
  return [contactKey(binding.contact), leftMs, JSON.stringify(binding)];
}
