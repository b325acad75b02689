/**
 * What one, two and three nodes ask of PostgreSQL and Redis, and how much these carry: `node dist/bench/wall.js POSTGRES_URL REDIS_URL [seconds]`.
 * The database must exist and be empty; of Redis the statistics are reset.
 *
 * - `journal`: processes write records of calls through the store of the product, as fast as their beginnings are acknowledged;
 * - `Redis`: processes ask for a small change each, 50 at a time;
 * - `outbox`: processes deliver events to receivers that answer at once;
 * - `calls`: gateways take real calls with the built-in echo agent, and the servers say what was asked of them meanwhile, less what the same
 *   gateways ask without calls.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { cpus, loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import { createSafeHttp } from '../net/http.js';
import { createLog } from '../src/log.js';
import { placeCall } from '../src/simulator/place-call.js';
import { systemClock } from '../src/store/database/clock.js';
import { Store } from '../src/store/store.js';
import { EventSender } from '../src/webhook/event-sender.js';
import { benchFolder, type Gateway, startGateway } from './load/processes.js';
import { oneCall } from './store/one-call.js';

interface Order {
  part: 'journal' | 'redis' | 'outbox';
  url: string;
  organizationId: string;
  seconds: number;
}

/** `waitsMs`: of each question, as its asker waited. */
interface Report {
  done: number;
  waitsMs: number[];
  processUs: number;
}

const counts = [1, 2, 3];
/** Calls, or questions, that a process has open at a time. */
const open = 50;
const callsOfOutbox = 300;
const receivers = 8;
const demoNumber = '+15550100';
/** At each gateway, all at once. */
const callsPerGateway = 20;
const callMs = 5_000;

if (process.send) {
  process.once('message', (order: Order) => void carryOut(order));
} else await measure();

async function carryOut(order: Order): Promise<void> {
  const work = { journal, redis, outbox }[order.part];
  const report = await work(order, async () => {
    process.send?.('ready');
    await once(process, 'message');
  });
  process.send?.(report, () => process.disconnect());
}

/** Runs `one` again and again, `open` at a time. */
async function closedLoop(seconds: number, one: () => Promise<unknown>): Promise<Report> {
  const waitsMs: number[] = [];
  const { user, system } = process.cpuUsage();
  const endMs = performance.now() + seconds * 1_000;
  const turn = async (): Promise<void> => {
    while (performance.now() < endMs) {
      const beganMs = performance.now();
      await one();
      waitsMs.push(performance.now() - beganMs);
    }
  };
  await Promise.all(Array.from({ length: open }, turn));
  const used = process.cpuUsage();
  return { done: waitsMs.length, waitsMs, processUs: used.user + used.system - user - system };
}

async function journal({ url, organizationId, seconds }: Order, begin: () => Promise<void>): Promise<Report> {
  const store = await Store.open({ url });
  await begin();
  const report = await closedLoop(seconds, () => oneCall(store.calls, organizationId));
  await store.close();
  return report;
}

async function redis({ url, seconds }: Order, begin: () => Promise<void>): Promise<Report> {
  const client = new Redis(url);
  await client.ping();
  await begin();
  let asked = 0;
  const report = await closedLoop(seconds, () =>
    client.zadd(`bench ${process.pid}`, Date.now(), String(asked++ % 1_000)),
  );
  await client.del(`bench ${process.pid}`);
  await client.quit();
  return report;
}

async function outbox({ url }: Order, begin: () => Promise<void>): Promise<Report> {
  const store = await Store.open({ url });
  const sender = new EventSender({
    deliveries: store.webhookDeliveries,
    endpoints: store.endpoints,
    http: createSafeHttp({ allowPrivate: true }),
    clock: systemClock,
    log: createLog('error', 'bench'),
    onDead: () => {},
  });
  await begin();
  const { user, system } = process.cpuUsage();
  sender.start();
  await once(process, 'message');
  await sender.stop(1_000);
  await store.close();
  const used = process.cpuUsage();
  return { done: 0, waitsMs: [], processUs: used.user + used.system - user - system };
}

/** Children that are ready to begin at the same moment. */
async function children(orders: Order[]): Promise<{ each: ChildProcess[]; reports: Promise<Report[]> }> {
  const each = orders.map((order) => {
    const child = fork(new URL(import.meta.url).pathname);
    child.send(order);
    return child;
  });
  await Promise.all(each.map((child) => once(child, 'message')));
  const reports = Promise.all(each.map(async (child) => (await once(child, 'message'))[0] as Report));
  return { each, reports };
}

function share(reports: readonly Report[], part: number): string {
  const sorted = reports.flatMap(({ waitsMs }) => waitsMs).sort((a, b) => a - b);
  return (sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(1);
}

/** What the database has done so far. */
async function asked(client: pg.Client): Promise<{ commits: number; rows: number; walBytes: number }> {
  await sleep(1_200); // its connections report once a second
  const { rows } = await client.query(
    `select xact_commit::float8 as commits, (tup_inserted + tup_updated + tup_deleted)::float8 as rows,
       (select wal_bytes::float8 from pg_stat_wal) as "walBytes" from pg_stat_database where datname = current_database()`,
  );
  return rows[0] as { commits: number; rows: number; walBytes: number };
}

/** Commands to Redis so far, without ours. */
async function commands(client: Redis): Promise<Map<string, number>> {
  const text = await client.info('commandstats');
  const found = [...text.matchAll(/^cmdstat_(\S+):calls=(\d+)/gm)];
  return new Map(
    found
      .filter(([, name]) => name !== 'info' && name !== 'config|resetstat')
      .map(([, name = '', calls]) => [name, Number(calls)]),
  );
}

/** How busy all cores were since the last question, in percent. */
function busy(): () => string {
  const now = () => {
    const times = cpus().map(({ times: of }) => of);
    const all = times.reduce((sum, of) => sum + of.user + of.nice + of.sys + of.idle + of.irq, 0);
    return { all, idle: times.reduce((sum, of) => sum + of.idle, 0) };
  };
  const before = now();
  return () => {
    const after = now();
    return (100 * (1 - (after.idle - before.idle) / (after.all - before.all))).toFixed(0);
  };
}

async function measure(): Promise<void> {
  const [url = '', redisUrl = '', seconds = '5'] = process.argv.slice(2);
  const client = new pg.Client(url);
  await client.connect();
  const redisClient = new Redis(redisUrl);
  console.log(
    `${cpus().length} cores, load average at the start ${loadavg()
      .map((each) => each.toFixed(1))
      .join(' ')}; ${seconds} s a turn`,
  );
  // first: the demonstration number is made on an empty database
  console.log(
    `\ncalls of ${callMs / 1_000} s with an agent: gateways, calls, PostgreSQL rows, commits and WAL kB per call, commands to Redis per call, cores busy %`,
  );
  for (const count of counts) {
    const { folder, remove } = benchFolder();
    const gateways: Gateway[] = [];
    for (let i = 0; i < count; i += 1)
      gateways.push(
        await startGateway({
          folder,
          environment: {
            TRUNKLINE_DATABASE_URL: url,
            TRUNKLINE_REDIS_URL: redisUrl,
            TRUNKLINE_NODE_NAME: `bench-${i}`,
            TRUNKLINE_MEDIA_THREADS: '1',
            TRUNKLINE_RTP_PORTS: `${20_000 + i * 1_000}-${20_999 + i * 1_000}`,
          },
        }),
      );
    const observe = async (work: () => Promise<unknown>) => {
      const before = await asked(client);
      await redisClient.config('RESETSTAT');
      await work();
      const after = await asked(client);
      return {
        ...{
          commits: after.commits - before.commits,
          rows: after.rows - before.rows,
          walBytes: after.walBytes - before.walBytes,
        },
        redis: await commands(redisClient),
      };
    };
    const lastsMs = callMs + 3_000;
    const idle = await observe(() => sleep(lastsMs));
    const load = busy();
    let busyPercent = '';
    const used = await observe(async () => {
      const rest = sleep(lastsMs);
      const placed = gateways.flatMap(({ sipPort }) =>
        Array.from({ length: callsPerGateway }, () =>
          placeCall({
            to: demoNumber,
            durationMs: callMs,
            target: { host: '127.0.0.1', port: sipPort, transport: 'udp' },
          }),
        ),
      );
      const unanswered = (await Promise.all(placed)).filter((call) => !call.report().answered).length;
      if (unanswered > 0) console.log(`  ${unanswered} calls were not answered`);
      await rest;
      busyPercent = load();
    });
    const calls = count * callsPerGateway;
    const perCall = (what: 'rows' | 'commits' | 'walBytes', unit = 1) =>
      ((used[what] - idle[what]) / calls / unit).toFixed(1);
    const names = [...used.redis.keys()];
    const redisPerCall = names
      .map((name) => [name, ((used.redis.get(name) ?? 0) - (idle.redis.get(name) ?? 0)) / calls] as const)
      .filter(([, value]) => Math.abs(value) >= 0.05);
    const total = redisPerCall.reduce((sum, [, value]) => sum + value, 0);
    console.log(
      count,
      calls,
      perCall('rows'),
      perCall('commits'),
      perCall('walBytes', 1_000),
      total.toFixed(1),
      redisPerCall.map(([name, value]) => `${name} ${value.toFixed(1)}`).join(' ') || '-',
      busyPercent,
    );
    const perSecond = (value: number) => (value / (lastsMs / 1_000 + 1.2) / count).toFixed(1);
    const idleRedis = [...idle.redis.values()].reduce((sum, value) => sum + value, 0);
    console.log(
      `  without calls, per gateway and second: ${perSecond(idle.commits)} commits, ${perSecond(idle.rows)} rows, ${perSecond(idleRedis)} commands to Redis`,
    );
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    remove();
  }

  const store = await Store.open({ url });
  const organizationId = (await store.organizations.create({ name: 'Bench', tier: 'enterprise' })).id;

  console.log(
    '\njournal: processes, calls/s, rows/s, commits/s, WAL kB per call, wait for the beginning p50 / p99 ms, µs per call of the processes, cores busy %',
  );
  for (const count of counts) {
    const { each, reports } = await children(
      Array.from({ length: count }, () => ({ part: 'journal', url, organizationId, seconds: Number(seconds) })),
    );
    const before = await asked(client);
    const load = busy();
    for (const child of each) child.send('go');
    const made = await reports;
    const busyPercent = load();
    const after = await asked(client);
    const calls = made.reduce((sum, { done }) => sum + done, 0);
    const perSecond = (value: number) => (value / Number(seconds)).toFixed(0);
    console.log(
      ...[count, perSecond(calls), perSecond(after.rows - before.rows), perSecond(after.commits - before.commits)],
      ...[
        ((after.walBytes - before.walBytes) / calls / 1_000).toFixed(1),
        `${share(made, 0.5)} / ${share(made, 0.99)}`,
      ],
      ...[(made.reduce((sum, { processUs }) => sum + processUs, 0) / calls).toFixed(0), busyPercent],
    );
  }

  console.log('\nRedis: processes, questions/s, p50 / p99 ms, cores busy %');
  for (const count of counts) {
    const { each, reports } = await children(
      Array.from({ length: count }, () => ({ part: 'redis', url: redisUrl, organizationId, seconds: Number(seconds) })),
    );
    const load = busy();
    for (const child of each) child.send('go');
    const made = await reports;
    const done = made.reduce((sum, report) => sum + report.done, 0);
    console.log(count, (done / Number(seconds)).toFixed(0), `${share(made, 0.5)} / ${share(made, 0.99)}`, load());
  }

  console.log('\noutbox: processes, deliveries/s, µs per delivery of the processes, cores busy %');
  const receiver = createServer((request, response) => {
    request.resume();
    request.once('end', () => response.writeHead(204).end());
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const address = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const endpoints: string[] = [];
  for (let i = 0; i < receivers; i += 1) {
    const providerConfig = { format: 'json', events_url: `${address}/${i}` };
    const made = { name: `Bench ${i}`, type: 'webhook' as const, target: address, provider: null, providerConfig };
    endpoints.push((await store.endpoints.create({ organizationId, mode: 'live' }, made)).record.id);
  }
  for (const count of counts) {
    for (let i = 0; i < callsOfOutbox; i += 1)
      oneCall(store.calls, organizationId, endpoints[i % receivers]).catch(() => {});
    while (!(await store.calls.flush()));
    const waiting = async () =>
      Number((await client.query("select count(*) as n from webhook_deliveries where status = 'pending'")).rows[0]?.n);
    const { each, reports } = await children(
      Array.from({ length: count }, () => ({ part: 'outbox', url, organizationId, seconds: 0 })),
    );
    const deliveries = await waiting();
    const load = busy();
    const beganMs = performance.now();
    for (const child of each) child.send('go');
    while ((await waiting()) > 0) await sleep(50);
    const tookSec = (performance.now() - beganMs) / 1_000;
    const busyPercent = load();
    for (const child of each) child.send('over');
    const used = (await reports).reduce((sum, { processUs }) => sum + processUs, 0);
    console.log(count, (deliveries / tookSec).toFixed(0), (used / deliveries).toFixed(0), busyPercent);
  }
  receiver.close();

  await store.close();
  await client.end();
  await redisClient.quit();
  console.log(
    `load average at the end ${loadavg()
      .map((each) => each.toFixed(1))
      .join(' ')}`,
  );
}
