/**
 * What reading a large table of calls costs: pages near and far, counts by status and by day, beside plain SQL over the calls in the same
 * run. Run: `npm run build && node dist/bench/store.js [calls]` (1,000,000 unless given).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { dayMs } from '../src/store/call-counts.js';
import { loadDriver } from '../src/store/driver.js';
import { Store } from '../src/store/store.js';

const calls = Number(process.argv[2] ?? 1_000_000);
const days = 365;
const runs = 200;

const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-bench-'));
const file = path.join(folder, 'trunkline.db');
const store = Store.open({ file });
const organizationId = store.organizations.create({ name: 'Bench', tier: 'enterprise' }).id;
const scope = { organizationId, mode: 'live' } as const;
const today = Math.floor(Date.now() / dayMs);
const firstMs = (today - days + 1) * dayMs;

const database = new (loadDriver())(file);
const fillAtMs = performance.now();
database.pragma('synchronous = off');
database
  .prepare(
    `with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ?)
     insert into calls (id, organization_id, mode, instance_id, direction, from_number, to_number, status, phone_number_id, created_at, completed_at)
     select printf('%08x-0000-7000-8000-%012x', i, i), ?, 'live', 'bench', iif(i % 3 = 0, 'outbound', 'inbound'), '+15550001', '+15550002',
       case i % 10 when 0 then 'failed' when 1 then 'busy' when 2 then 'no_answer' else 'completed' end,
       printf('0198aaaa-0000-7000-8000-%012d', i % 7), ? + cast(i as real) / ? * ?, 1
     from n`.replace('? + cast(i as real) / ? * ?', 'cast(? + cast(i as real) / ? * ? as integer)'),
  )
  .run(calls, organizationId, firstMs, calls, days * dayMs);
console.log(
  `${calls} calls over ${days} days, filled in ${((performance.now() - fillAtMs) / 1000).toFixed(1)} s (with their counts)\n`,
);

function measure(name: string, work: () => unknown, times = runs): number {
  const ms: number[] = [];
  for (let run = 0; run < times + 3; run += 1) {
    const startMs = performance.now();
    work();
    if (run >= 3) ms.push(performance.now() - startMs);
  }
  ms.sort((a, b) => a - b);
  const at = (share: number) => ms[Math.min(ms.length - 1, Math.floor(share * ms.length))] ?? 0;
  console.log(
    `${name.padEnd(44)} p50 ${at(0.5).toFixed(2).padStart(9)} ms   p99 ${at(0.99).toFixed(2).padStart(9)} ms`,
  );
  return at(0.5);
}

const limit = 20;
const lastPage = Math.floor(calls / limit);
const page =
  (number: number, filter = {}) =>
  () =>
    store.records.list(scope, filter, { limit, offset: (number - 1) * limit });
const span = (count: number) => ({ firstDay: today - count + 1, lastDay: today });
measure('list, page 1', page(1));
measure(`list, page ${Math.min(100_000, lastPage)}`, page(Math.min(100_000, lastPage)));
measure('list, page 1, status busy', page(1, { status: 'busy' }));
measure('list, page 1000, busy and outbound', page(1000, { status: 'busy', direction: 'outbound' }));
const stats = measure('stats', () => store.records.stats(scope, {}));
const month = measure('trends, 30 days', () => store.records.trends(scope, span(30)));
const year = measure('trends, 365 days', () => store.records.trends(scope, span(365)));

const naive = (name: string, sql: string, ...parameters: unknown[]): number => {
  const statement = database.prepare(sql);
  return measure(name, () => statement.all(...parameters), 5);
};
const where = "where organization_id = ? and mode = 'live'";
const byDay = `select created_at / ${dayMs} as day, status, count(*) from calls ${where} and created_at >= ? group by 1, 2`;
console.log('\nplain SQL over the calls:');
const offset = (Math.min(100_000, lastPage) - 1) * limit;
naive(
  'list by offset',
  `select * from calls ${where} order by created_at desc, id desc limit 20 offset ${offset}`,
  organizationId,
);
const naiveStats = naive('stats', `select status, count(*) from calls ${where} group by status`, organizationId);
const naiveMonth = naive('trends, 30 days', byDay, organizationId, (today - 29) * dayMs);
const naiveYear = naive('trends, 365 days', byDay, organizationId, firstMs);
const times = (slow: number, fast: number) => `${Math.round(slow / fast)} times`;
console.log(
  `\nfaster than plain SQL: stats ${times(naiveStats, stats)}, 30 days ${times(naiveMonth, month)}, 365 days ${times(naiveYear, year)}`,
);

database.close();
store.close();
rmSync(folder, { recursive: true });
