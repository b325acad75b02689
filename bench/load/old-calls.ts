/** A database that has seen a million calls. */
import path from 'node:path';
import { dayMs } from '../../src/store/calls/call-counts.js';
import { migrations } from '../../src/store/database/migrations/index.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';

const days = 365;

/** Fills the database of a stopped gateway; the calls belong to its first organization. */
export function oldCalls(folder: string, count: number): void {
  const database = new (loadDriver())(path.join(folder, 'trunkline.db'));
  database.pragma('synchronous = off');
  const firstMs = (Math.floor(Date.now() / dayMs) - days + 1) * dayMs;
  database
    .prepare(
      `with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ?)
       insert into calls (id, organization_id, mode, instance_id, direction, from_number, to_number, status, phone_number_id, created_at, completed_at)
       select printf('%08x-0000-7000-8000-%012x', i, i), (select id from organizations limit 1), 'live', 'bench',
         iif(i % 3 = 0, 'outbound', 'inbound'), '+15550001', '+15550002',
         case i % 10 when 0 then 'failed' when 1 then 'busy' when 2 then 'no_answer' else 'completed' end,
         printf('0198aaaa-0000-7000-8000-%012d', i % 7),
         cast(? + cast(i as real) / ? * ? as integer), 1
       from n`,
    )
    .run(count, firstMs, count, days * dayMs);
  // the counters that the store otherwise keeps as it writes calls
  for (const table of ['call_days', 'call_hours', 'call_insights']) database.exec(`delete from ${table}`);
  for (const name of ['0003-rest', '0006-rest'])
    for (const sql of migrations[name]?.statements ?? []) if (sql.startsWith('insert into call_')) database.exec(sql);
  database.close();
}
