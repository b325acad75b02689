import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TrunkLoad } from '../../src/call/routing/trunk-load.js';
import { CallPlaces } from '../../src/redis/call-places.js';
import { CallRates } from '../../src/redis/call-rates.js';
import { RedisConnection } from '../../src/redis/connection.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';

/** Calls at once of a trunk, counted by several nodes together over a real Redis (Debian: redis-server). */

const times = { heldForMs: 1_500, renewEveryMs: 100 };

let redis: RedisServer;
let close: (() => void)[];

beforeEach(async () => {
  redis = await startRedis();
  close = [];
});
afterEach(async () => {
  for (const each of close) each();
  await redis.stop();
});

async function node() {
  const connection = await RedisConnection.connect(redis.url);
  const places = new CallPlaces(connection, times);
  const die = () => {
    places.close();
    connection.close();
  };
  close.push(die);
  return { connection, places, die };
}

describe('places of calls', () => {
  it('are of all nodes together, and free again when a call ends', async () => {
    const nodes = [await node(), await node()];
    const taken = await Promise.all(
      Array.from({ length: 10 }, (_, i) => nodes[i % 2]?.places.take('trunk:t', 3) ?? null),
    );
    const leaves = taken.filter((leave) => leave !== null);
    expect(leaves).toHaveLength(3);
    for (const { places } of nodes) expect(await places.take('trunk:t', 3)).toBeNull();
    expect(await nodes[0]?.places.take('trunk:other', 1), 'another trunk').not.toBeNull();
    leaves[0]?.();
    leaves[0]?.();
    await expect.poll(() => nodes[1]?.places.take('trunk:t', 3)).not.toBeNull();
    expect(await nodes[0]?.places.take('trunk:t', 3), 'given back once').toBeNull();
  });

  it('of a node that died are free after its lease, and those of living nodes stay taken', async () => {
    const [living, dying] = [await node(), await node()];
    expect(await living.places.take('trunk:t', 2)).not.toBeNull();
    expect(await dying.places.take('trunk:t', 2)).not.toBeNull();
    dying.die();
    expect(await living.places.take('trunk:t', 2), 'not at once').toBeNull();
    await expect.poll(() => living.places.take('trunk:t', 2), { timeout: 10_000 }).not.toBeNull();
    expect(await living.places.take('trunk:t', 2), 'the first place is older than a lease').toBeNull();
  });

  it('are counted by each node alone while Redis is gone, and together again when it is back', async () => {
    const [one, two] = [await node(), await node()];
    const { port } = redis;
    await redis.stop();
    await expect.poll(() => one.connection.answers || two.connection.answers).toBe(false);
    for (const { places } of [one, two]) {
      const taken = await Promise.all(Array.from({ length: 4 }, () => places.take('trunk:t', 2)));
      expect(taken.filter((leave) => leave !== null)).toHaveLength(2);
    }
    redis = await startRedis(port);
    await expect.poll(() => one.connection.answers && two.connection.answers, { timeout: 20_000 }).toBe(true);
    const counted = await RedisConnection.connect(redis.url);
    close.push(() => counted.close());
    await expect.poll(() => counted.ask((client) => client.zcard('trunkline:calls:{trunk:t}'))).toBe(4);
    expect(await one.places.take('trunk:t', 4)).toBeNull();
    expect(await two.places.take('trunk:t', 5)).not.toBeNull();
  });
});

describe('a trunk with a limit of calls at once', () => {
  it('is full for every node', async () => {
    const loads = [await node(), await node()].map(({ places }) => new TrunkLoad(new CallRates(null), places));
    const caps = { maxCalls: 1, callsPerSecond: null };
    const leave = await loads[0]?.enter('t', caps);
    expect(leave).toBeTypeOf('function');
    expect(await loads[1]?.enter('t', caps)).toBeNull();
    leave?.();
    await expect.poll(() => loads[1]?.enter('t', caps)).not.toBeNull();
  });
});
