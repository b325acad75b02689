/**
 * How soon a node acts on what another one committed: `node dist/bench/store/wakeups.js POSTGRES-URL REDIS-URL [changes]`. One process changes a row,
 * another one is woken and reads it, as nodes do with commands, events and settings. In turns the second one is woken
 *
 * - `notify`: by PostgreSQL, with the commit, in the same statement (as the product does);
 * - `publish`: by Redis, after the commit, since a reader that is woken before it would find nothing.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import { clientConfig } from '../../src/store/postgres/connections.js';

const ways = ['notify', 'publish'] as const;
const channel = 'trunkline_bench_wakeups';
const betweenMs = 10;

interface Woken {
  change: number;
  /** On the clock of the machine, in milliseconds. */
  wokenMs: number;
  readMs: number;
}

const nowMs = (): number => performance.timeOrigin + performance.now();
const [postgresUrl = '', redisUrl = '', changes = '2000'] = process.argv.slice(2);
const connect = async (name: string): Promise<pg.Client> => {
  const client = new pg.Client(clientConfig({ url: postgresUrl, name }));
  await client.connect();
  return client;
};

if (process.send) await follow();
else await compare();

/** Reads the row when it is woken, and says when. */
async function follow(): Promise<void> {
  const [listening, reading, redis] = [await connect('bench'), await connect('bench'), new Redis(redisUrl)];
  const wake = async (text: string): Promise<void> => {
    const wokenMs = nowMs();
    const { rows } = await reading.query({ name: 'read', text: 'select change from bench_wakeups' });
    if (Number(rows[0]?.change) !== Number(text)) throw new Error('woken before the commit');
    process.send?.({ change: Number(text), wokenMs, readMs: nowMs() } satisfies Woken);
  };
  listening.on('notification', ({ payload = '' }) => void wake(payload));
  redis.on('message', (_channel, text) => void wake(text));
  await listening.query(`listen ${channel}`);
  await redis.subscribe(channel);
  process.send?.('ready');
}

async function compare(): Promise<void> {
  const [writing, redis] = [await connect('bench'), new Redis(redisUrl)];
  await writing.query('create table if not exists bench_wakeups (change int not null)');
  await writing.query('delete from bench_wakeups');
  await writing.query('insert into bench_wakeups values (0)');
  const follower = fork(process.argv[1] ?? '', process.argv.slice(2));
  await once(follower, 'message');
  const took = {
    notify: { woken: [] as number[], read: [] as number[] },
    publish: { woken: [] as number[], read: [] as number[] },
  };
  const update = 'update bench_wakeups set change = $1 returning change';
  for (let change = 1; change <= Number(changes); change += 1) {
    const way = ways[change % ways.length] ?? 'notify';
    const beganMs = nowMs();
    const answered = once(follower, 'message');
    if (way === 'notify') {
      const text = `with changed as (${update}) select pg_notify('${channel}', change::text) from changed`;
      await writing.query({ name: 'notify', text, values: [change] });
    } else {
      await writing.query({ name: 'update', text: update, values: [change] });
      await redis.publish(channel, String(change));
    }
    const [woken] = (await answered) as [Woken];
    took[way].woken.push(woken.wokenMs - beganMs);
    took[way].read.push(woken.readMs - beganMs);
    await sleep(betweenMs);
  }
  for (const way of ways)
    console.log(`${way}: woken ${quantiles(took[way].woken)}, has read ${quantiles(took[way].read)} ms (p50 / p99)`);
  follower.kill();
  redis.disconnect();
  await writing.query('drop table bench_wakeups');
  await writing.end();
}

function quantiles(values: number[]): string {
  const sorted = values.sort((a, b) => a - b);
  const at = (share: number): string => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(2);
  return `${at(0.5)} / ${at(0.99)}`;
}
