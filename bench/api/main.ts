/**
 * What the API costs over a table of many calls: pages near and far, counts, details and insights beside plain SQL in the same run; how long a
 * query holds up the thread; requests per second beside a bare Fastify route with the same schema.
 * Run: `npm run build && node dist/bench/api/main.js [--calls 10000000] [--database FILE] [--part queries|throughput] [--askers 8]
 * [--fill-for SECONDS] [--only-fill]`. The file is kept and used again when it is named, else removed. 10,000,000 calls need 9 GB and some minutes.
 * `--database postgres://…` asks a database that `TRUNKLINE_DATABASE_URL=sqlite:FILE trunkline db migrate --to postgres://…` has filled from such a file; plain SQL
 * is for SQLite only.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { dayMs } from '../../src/store/calls/call-counts.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { spread } from '../load/figures.js';
import { markdown } from '../load/table.js';
import { benchKey, days, fill, isFilled, numbers } from './fill.js';
import { get, load } from './load.js';
import type { FromServer, ToServer } from './server.js';

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '10000000' },
    database: { type: 'string' },
    'fill-for': { type: 'string', default: '3600' },
    part: { type: 'string' },
    askers: { type: 'string', default: '1' },
    'only-fill': { type: 'boolean', default: false },
  },
});
const calls = Number(values.calls);
const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-bench-'));
const file = values.database ?? path.join(folder, 'trunkline.db');
const isPostgres = file.startsWith('postgres');
const askers = Number(values.askers);
const sockets = 16;
const roundMs = 2_000;
const warmMs = 2_000;
const rounds = 7;
const perQueryMs = 1_200;

class Server {
  private constructor(
    private readonly child: ChildProcess,
    readonly port: number,
    readonly organizationId: string,
  ) {}

  static async start(...parameters: string[]): Promise<Server> {
    const child = fork(new URL('./server.js', import.meta.url), parameters);
    const [{ port, organizationId }] = (await once(child, 'message')) as [Extract<FromServer, { port: number }>];
    return new Server(child, port, organizationId);
  }

  /** How far its loop was late while `work` ran, and what processor time it used. */
  async watched<T>(work: () => Promise<T>): Promise<{ result: T; worstMs: number; p99Ms: number; cpuMs: number }> {
    this.child.send({ kind: 'watch' } satisfies ToServer);
    const result = await work();
    this.child.send({ kind: 'tell' } satisfies ToServer);
    const [told] = (await once(this.child, 'message')) as [Extract<FromServer, { cpuMs: number }>];
    return { result, ...told };
  }

  async stop(): Promise<void> {
    this.child.send({ kind: 'end' } satisfies ToServer);
    await once(this.child, 'exit');
  }
}

const date = (day: number) => new Date(day * dayMs).toISOString().slice(0, 10);
const today = Math.floor(Date.now() / dayMs);
const span = (count: number) => `start_date=${date(today - count + 1)}&end_date=${date(today)}`;
const farPage = Math.min(100_000, Math.floor(calls / 20));

function ms(value: number | undefined): string {
  return value === undefined ? '-' : value < 10 ? value.toFixed(2) : value.toFixed(0);
}

/** Plain SQL, without the counters kept beside the calls. */
function plainSql(callId: string): Record<string, string> {
  const where = "where organization_id = (select organization_id from calls limit 1) and mode = 'live'";
  const byDay = (count: number) =>
    `select created_at / ${dayMs}, status, count(*) from calls ${where} and created_at >= ${(today - count + 1) * dayMs} group by 1, 2`;
  return {
    detail: `select * from calls ${where} and id = '${callId}'`,
    stats: `select status, count(*) from calls ${where} group by status`,
    'trends, 30 days': byDay(30),
    [`list, page ${farPage}`]: `select * from calls ${where} order by created_at desc, id desc limit 20 offset ${(farPage - 1) * 20}`,
    'list, page 1': `select count(*) from calls ${where}`,
    'trends, 365 days': byDay(365),
  };
}

function timed(sql: string): number {
  const database = new (loadDriver())(file, { readonly: true });
  const startMs = performance.now();
  database.prepare(sql).all();
  const tookMs = performance.now() - startMs;
  database.close();
  return tookMs;
}

async function main(): Promise<void> {
  if (!isPostgres && !isFilled(file)) {
    const untilMs = performance.now() + Number(values['fill-for']) * 1000;
    if (!(await fill(file, calls, untilMs, (step) => console.log(`  ${step}`)))) {
      console.log('Not full yet: the same command goes on from here.');
      return;
    }
  }
  if (values['only-fill']) return;
  const kept = isPostgres ? 'in PostgreSQL' : `${(statSync(file).size / 1e9).toFixed(1)} GB`;
  console.log(
    `\n${calls} calls of ${days} days, ${kept}; ${askers} at once; ${cpus()[0]?.model}, ${cpus().length} cores, Node ${process.version}\n`,
  );
  const ours = await Server.start('ours', file);
  const newestId = await newestCall(ours.port);
  const request = `/v1/calls/${newestId}`;
  if (values.part !== 'throughput') await queries(ours, request, newestId);
  if (values.part !== 'queries') await throughput(ours, request, newestId);
  await ours.stop();
}

async function newestCall(port: number): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/calls?limit=1`, { headers: { 'x-api-key': benchKey } });
  const { data: newest } = (await answer.json()) as { data: { id: string }[] };
  if (newest[0] === undefined) throw new Error('the database has no call');
  return newest[0].id;
}

/** How long each request takes, how late the loop is meanwhile, and plain SQL for the same. */
async function queries(ours: Server, detail: string, callId: string): Promise<void> {
  const asked: [string, string][] = [
    ['list, page 1', '/v1/calls'],
    [`list, page ${farPage}`, `/v1/calls?page=${farPage}`],
    ['list, last page', `/v1/calls?page=${Math.ceil(calls / 20)}`],
    ['list, 100 a page, in the middle', `/v1/calls?limit=100&page=${Math.floor(calls / 200)}`],
    ['list, busy, page 1', '/v1/calls?status=busy'],
    ['list, busy, far', `/v1/calls?status=busy&page=${Math.floor(calls / 400)}`],
    ['list, outbound, far', `/v1/calls?direction=outbound&page=${Math.floor(calls / 120)}`],
    ['list, of a number, far', `/v1/calls?phone_number_id=${numbers[3]}&page=${Math.floor(calls / 280)}`],
    ['list, 30 days', `/v1/calls?${span(30)}`],
    [
      'list, all filters, far',
      `/v1/calls?status=busy&direction=outbound&phone_number_id=${numbers[3]}&limit=100&page=${Math.max(1, Math.floor(calls / 50_000))}`,
    ],
    ['detail', detail],
    ['stats', '/v1/calls?action=stats'],
    ['stats, of a number', `/v1/calls?action=stats&phone_number_id=${numbers[3]}&direction=inbound`],
    ['trends, 30 days', '/v1/calls?action=trends'],
    ['trends, 365 days', `/v1/calls?action=trends&${span(365)}`],
    ['overview', '/v1/overview'],
    ['search, by a number', '/v1/calls/search?number=%2B12025551234'],
    ['search, by a beginning that many numbers have', '/v1/calls/search?number=%2B12025551'],
    ['search, by a beginning that no number has', '/v1/calls/search?number=%2B1555'],
    ['insights, 30 days', '/v1/calls/insights'],
    ['insights, 365 days', `/v1/calls/insights?${span(365)}`],
    ['ledger', `/v1/organizations/${ours.organizationId}/ledger`],
    ['webhook deliveries', '/v1/webhook-deliveries?status=failed'],
  ];
  // The lateness of the machine itself in the same seconds.
  const idle = await Server.start('bare', file, callId, benchKey);
  console.log(markdown([['request', 'p50 ms', 'p99 ms', 'loop late, p99 ms', 'worst ms', 'idle server late, p99 ms']]));
  const figures = new Map<string, number>();
  for (const [name, url] of asked) {
    // A database server needs the core that a generator awake would use up.
    const ask = (forMs: number) => load(ours.port, get(url, benchKey), askers, forMs, { rests: isPostgres });
    await ask(300);
    const { result: watched, p99Ms: idleMs } = await idle.watched(() => ours.watched(() => ask(perQueryMs)));
    const { result, worstMs, p99Ms } = watched;
    if (result.notOk > 0) throw new Error(`${url}: ${result.notOk} answers were not 200`);
    const { p50 = 0, p99 } = spread(result.latenciesMs) ?? {};
    figures.set(name, p50);
    console.log(`| ${[name, ms(p50), ms(p99), ms(p99Ms), ms(worstMs), ms(idleMs)].join(' | ')} |`);
  }
  await idle.stop();
  if (isPostgres) return;
  console.log(`\n${markdown([['plain SQL for the same', 'ms', 'times slower']])}`);
  for (const [name, sql] of Object.entries(plainSql(callId))) {
    const tookMs = timed(sql);
    console.log(`| ${[name, ms(tookMs), Math.round(tookMs / (figures.get(name) ?? 1))].join(' | ')} |`);
  }
}

/** Requests per second beside the bare route, in turns. */
async function throughput(ours: Server, url: string, callId: string): Promise<void> {
  const bare = await Server.start('bare', file, callId, benchKey);
  const request = get(url, benchKey);
  const best = { ours: 0, bare: 0 };
  const shares: number[] = [];
  const cpuShares: number[] = [];
  const cpuUs = { ours: Number.POSITIVE_INFINITY, bare: Number.POSITIVE_INFINITY };
  for (let round = 0; round <= rounds; round += 1) {
    const one = (server: Server) =>
      server.watched(() => load(server.port, request, sockets, round === 0 ? warmMs : roundMs));
    const { result: a, cpuMs: cpuOfBare } = await one(bare);
    const { result: b, cpuMs: cpuOfOurs } = await one(ours);
    if (a.notOk + b.notOk > 0) throw new Error('an answer was not 200');
    if (round === 0) continue; // both warm now
    best.bare = Math.max(best.bare, a.perSecond);
    best.ours = Math.max(best.ours, b.perSecond);
    cpuUs.bare = Math.min(cpuUs.bare, (cpuOfBare * 1000) / a.latenciesMs.length);
    cpuUs.ours = Math.min(cpuUs.ours, (cpuOfOurs * 1000) / b.latenciesMs.length);
    shares.push(b.perSecond / a.perSecond);
    // The same, robust against other programs that disturb only one of the two.
    cpuShares.push(b.latenciesMs.length / cpuOfOurs / (a.latenciesMs.length / cpuOfBare));
  }
  const each = (list: number[]) => list.map((share) => share.toFixed(2)).join(', ');
  console.log(
    `GET /calls/{id}, ${sockets} connections: ${Math.round(best.ours)} requests/s, bare Fastify ${Math.round(best.bare)} requests/s; share in each round ${each(shares)}; of requests per second of processor time ${each(cpuShares)}; least processor time per request ${Math.round(cpuUs.ours)} µs, bare ${Math.round(cpuUs.bare)} µs`,
  );
  await bare.stop();
}

try {
  await main();
} finally {
  rmSync(folder, { recursive: true });
}
