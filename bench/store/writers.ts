/**
 * What several processes write to one PostgreSQL database: `node dist/bench/store/writers.js URL [seconds] [rounds]`. The database must exist
 * and may be emptied. One, two and three processes write batches of whole calls as fast as they can, in turns, in three ways:
 *
 * - `lock`: as the product does, each batch under the lock of all writers;
 * - `no lock`: without it; processes wait for each other at the rows of the counters only;
 * - `own counters`: without it, and no two processes have a row in common: as much as a row of counters for each process could gain.
 */
import { fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Calls } from '../../src/store/calls/calls.js';
import { systemClock } from '../../src/store/database/clock.js';
import type { Execute } from '../../src/store/database/database.js';
import { silentLog } from '../../src/store/database/log.js';
import { writeBatch } from '../../src/store/journal/write-batch.js';
import { clientConfig, executing } from '../../src/store/postgres/connections.js';
import { bigintColumns, PostgresTransaction, together } from '../../src/store/postgres/transaction.js';
import { Store } from '../../src/store/store.js';
import { entriesOfCall, oneCall } from './one-call.js';

const ways = ['lock', 'no lock', 'own counters'] as const;
type Way = (typeof ways)[number];
/** As many as a batch has when processes wait for each other. */
const callsInBatch = 50;
const warmUpMs = 1_000;

interface Order {
  url: string;
  way: Way;
  organizationId: string;
  seconds: number;
}

interface Report {
  calls: number;
  /** Of each batch, from `begin` to the answer to `commit`. */
  batchMs: number[];
  /** Of these, the wait for the lock. */
  lockMs: number[];
  processUs: number;
}

if (process.send) process.once('message', (order: Order) => void write(order).then((report) => process.send?.(report)));
else await compare();

async function write({ url, way, organizationId, seconds }: Order): Promise<Report> {
  const client = new pg.Client(clientConfig({ url, name: 'bench' }));
  await client.connect();
  const onServer = executing(client);
  let report: Report = { calls: 0, batchMs: [], lockMs: [], processUs: 0 };
  const execute: Execute = async (sql, parameters, want) => {
    const beganMs = performance.now();
    const answer = await onServer(sql, parameters, want);
    if (sql.includes('pg_advisory_xact_lock')) report.lockMs.push(performance.now() - beganMs);
    return answer;
  };
  const bigints = await bigintColumns(execute);
  const alone = async <T>(work: (transaction: PostgresTransaction) => Promise<T>): Promise<T> => {
    await execute('begin', [], 'changes');
    const result = await work(new PostgresTransaction(execute, bigints));
    await execute('commit', [], 'changes');
    return result;
  };
  const instanceId = `bench ${process.pid} ${Date.now()}`;
  await execute(
    'insert into instances (id, name, host, pid, started_at, heartbeat_at) values (?, ?, ?, ?, ?, ?)',
    [instanceId, instanceId, 'bench', process.pid, Date.now(), Date.now()],
    'changes',
  );
  const calls = new Calls({
    clock: systemClock,
    instanceId,
    log: silentLog,
    write: async (leaseId, number, entries) => {
      const beganMs = performance.now();
      const answer = await writeBatch(way === 'lock' ? (work) => together(execute, bigints, work) : alone, {
        instanceId: leaseId,
        number,
        entries,
      });
      if (answer.dropped.length > 0) throw new Error(answer.dropped[0]?.message);
      report.batchMs.push(performance.now() - beganMs);
      return answer;
    },
  });
  const writeFor = async (ms: number): Promise<void> => {
    for (const endMs = performance.now() + ms; performance.now() < endMs; ) {
      for (let i = 0; i < callsInBatch; i += 1) oneCall(calls, organizationId).catch(() => {});
      while (!(await calls.flush()));
      report.calls += callsInBatch;
    }
  };
  await writeFor(warmUpMs);
  report = { calls: 0, batchMs: [], lockMs: [], processUs: 0 };
  const { user, system } = process.cpuUsage();
  await writeFor(seconds * 1_000);
  const after = process.cpuUsage();
  report.processUs = after.user + after.system - user - system;
  await calls.close();
  await client.end();
  setImmediate(() => process.disconnect());
  return report;
}

function run(order: Order): Promise<Report> {
  return new Promise((resolve, reject) => {
    const child = fork(new URL(import.meta.url).pathname);
    child.once('message', (report) => resolve(report as Report));
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`a writer ended with ${code}`))); // after the report this changes nothing
    child.send(order);
  });
}

async function compare(): Promise<void> {
  const [url = '', seconds = '4', rounds = '3'] = process.argv.slice(2);
  const store = await Store.open({ url });
  const organizations: string[] = [];
  for (let i = 0; i < 3; i += 1)
    organizations.push((await store.organizations.create({ name: `B${i}`, tier: 'enterprise' })).id);
  await store.close();
  console.log(
    `batches of ${callsInBatch} calls (${callsInBatch * entriesOfCall} entries); ${seconds} s a turn, ${rounds} rounds`,
  );
  console.log('processes  way            calls/s  batch ms p50 / p99  lock ms p50 / p99  µs/call writer');
  for (let round = 0; round < Number(rounds); round += 1)
    for (const processes of [1, 2, 3])
      for (const way of ways) {
        const reports = await Promise.all(
          Array.from({ length: processes }, (_, i) => {
            const organizationId = organizations[way === 'own counters' ? i : 0] ?? '';
            return run({ url, way, organizationId, seconds: Number(seconds) });
          }),
        );
        const calls = reports.reduce((sum, report) => sum + report.calls, 0);
        const at = (of: 'batchMs' | 'lockMs', share: number) => {
          const sorted = reports.flatMap((report) => report[of]).sort((a, b) => a - b);
          return sorted[Math.floor(share * (sorted.length - 1))]?.toFixed(1) ?? '-';
        };
        const writerUs = reports.reduce((sum, report) => sum + report.processUs, 0) / calls;
        console.log(
          String(processes).padEnd(10),
          way.padEnd(13),
          (calls / Number(seconds)).toFixed(0).padStart(8),
          `${at('batchMs', 0.5)} / ${at('batchMs', 0.99)}`.padStart(19),
          `${at('lockMs', 0.5)} / ${at('lockMs', 0.99)}`.padStart(18),
          writerUs.toFixed(0).padStart(15),
        );
        await sleep(200);
      }
}
