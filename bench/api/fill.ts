/**
 * A year of calls in bulk: rows first, then the indexes and the counts that the store would have kept, by the migrations' own statements. Values
 * are pseudo-random, the same in every run.
 */
import { existsSync } from 'node:fs';
import { dayMs } from '../../src/store/calls/call-counts.js';
import { migrations } from '../../src/store/database/migrations/index.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { Store } from '../../src/store/store.js';

export const days = 365;
export const benchKey = `trunkline_live_${'b'.repeat(32)}`;
export const numbers = Array.from({ length: 7 }, (_, n) => `0198aaaa-0000-7000-8000-00000000000${n}`);
/** The newest calls have their events. */
const callsWithEvents = 1_000;
const eventsPerCall = 10;
const statuses = ['completed', 'failed', 'in_progress', 'no_answer', 'busy'];
const limits = { requests_per_second: 1_000_000, requests_per_day: 1_000_000_000 };

/** Calls written at once. */
const callsPerPart = 500_000;
/** A half-filled file is thrown away after a power failure, so nothing needs to be durable. */
const fast = ['synchronous = off', 'foreign_keys = off', 'cache_size = -1000000', 'temp_store = memory'];

type Sqlite = InstanceType<ReturnType<typeof loadDriver>>;

/**
 * Fills a database, part by part; each is noted when it is done, so that a run that is over at `untilMs` (of `performance.now()`) goes on in
 * the next. Answers whether all is done.
 */
export async function fill(
  file: string,
  calls: number,
  untilMs: number,
  say: (step: string) => void,
): Promise<boolean> {
  if (!existsSync(file)) await createTenant(file);
  const database = new (loadDriver())(file);
  try {
    for (const pragma of fast) database.pragma(pragma);
    database.exec('create table if not exists bench_parts (name text primary key) strict');
    // Indexes and triggers of calls, which come back when the rows are there.
    database.exec('create table if not exists bench_schema (type text, name text, sql text) strict');
    const done = new Set(database.prepare('select name from bench_parts').pluck().all());
    for (const [name, work] of parts(database, calls)) {
      if (done.has(name)) continue;
      if (performance.now() > untilMs) return false;
      const startMs = performance.now();
      database.transaction(() => {
        work();
        database.prepare('insert into bench_parts (name) values (?)').run(name);
      })();
      say(`${name}: ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
    }
    database.pragma('journal_mode = wal');
    return true;
  } finally {
    database.close();
  }
}

function* parts(database: Sqlite, calls: number): Generator<[name: string, work: () => void]> {
  const kept = (type: string) =>
    database.prepare('select name, sql from bench_schema where type = ?').all(type) as { name: string; sql: string }[];
  yield ['indexes and triggers put aside', () => putAside(database)];
  const organizationId = database.prepare('select id from organizations').pluck().get() as string;
  for (let from = 0; from < calls; from += callsPerPart) {
    const to = Math.min(calls, from + callsPerPart);
    yield [`rows up to ${to}`, () => addCalls(database, { organizationId, from, to, calls })];
  }
  for (const { name, sql } of kept('index')) yield [name, () => database.exec(sql)];
  yield ['counts by hour and day', () => count(database)];
  for (const sql of migrations['0006-rest']?.statements ?? []) {
    if (!sql.startsWith('insert into call_insights')) continue;
    const [first = '', ...others] = sql.split(' union all ');
    const into = first.slice(0, first.indexOf(') ') + 2);
    for (const [n, each] of [first.slice(into.length), ...others].entries())
      yield [`insights ${/'(all|endpoint|trunk)'/.exec(each)?.[1]} ${n + 1}`, () => database.exec(into + each)];
  }
  yield ['events', () => addEvents(database)];
  yield ['ledger', () => addLedger(database, organizationId, calls / 10)];
  yield ['webhook deliveries', () => addDeliveries(database, organizationId, calls / 10)];
  yield [
    'triggers',
    () => {
      for (const { sql } of kept('trigger')) database.exec(sql);
    },
  ];
  yield ['what the planner knows', () => database.exec('pragma optimize')];
  yield ['end', () => {}];
}

function putAside(database: Sqlite): void {
  database.exec(
    "insert into bench_schema select type, name, sql from sqlite_master where tbl_name = 'calls' and type in ('index', 'trigger') and sql is not null",
  );
  for (const { type, name } of database.prepare('select type, name from bench_schema').all() as {
    type: string;
    name: string;
  }[])
    database.exec(`drop ${type} ${name}`);
}

function addCalls(database: Sqlite, range: { organizationId: string; from: number; to: number; calls: number }): void {
  const today = Math.floor(Date.now() / dayMs);
  // Pseudo-random, the same for the same i.
  const mixed = '((i * 2654435761) & 2147483647)';
  const digit = (from: number, of: number) => `((${mixed} / ${from}) % ${of})`;
  database
    .prepare(
      `with recursive n(i) as (select @from union all select i + 1 from n where i + 1 < @to)
       insert into calls (id, organization_id, mode, instance_id, direction, from_number, to_number, status, duration_sec, cost_microcents,
         latency_ms, phone_number_id, endpoint_id, trunk_id, hangup_cause, hangup_source, ring_seconds, timings, quality, turns,
         created_at, answered_at, completed_at)
       select printf('%08x-%04x-7000-8000-%012x', at / 65536, at % 65536, i), @organizationId, 'live', 'bench',
         iif(${digit(7, 3)} = 0, 'outbound', 'inbound'), '+1202555' || (1000 + ${digit(3, 9000)}), '+12025550100', status,
         iif(status = 'completed', ${digit(11, 600)}, 0), iif(status = 'completed', ${digit(11, 600)} * 33333, 0), 400 + ${digit(5, 300)},
         '0198aaaa-0000-7000-8000-00000000000' || ${digit(13, 7)}, '0198bbbb-0000-7000-8000-00000000000' || ${digit(17, 9)},
         '0198cccc-0000-7000-8000-00000000000' || ${digit(19, 3)},
         iif(status = 'completed', 'normal_clearing', 'unspecified'), 'caller', 3,
         iif(status = 'completed', '{"setupMs":480,"postDialDelayMs":60,"answerToFirstAudioMs":210}', null),
         iif(status = 'completed', '{"mos":' || (3.9 + ${digit(23, 51)} / 100.0) || ',"jitter_ms":2,"packet_loss":0.1,"codec":"PCMU"}', null),
         iif(status = 'completed', '[{"startedAt":"2026-01-15T12:00:00.690Z","speaker":"agent","durationMs":600,"responseMs":' || (300 + ${digit(29, 1500)}) || '}]', null),
         at, iif(status = 'completed', at + 480, null), at + 60000
       from (select i, cast(@firstMs + cast(i as real) / @calls * @spanMs as integer) as at,
         case ${digit(31, 10)} when 0 then 'failed' when 1 then 'busy' when 2 then 'no_answer' else 'completed' end as status from n)`,
    )
    .run({ ...range, firstMs: (today - days + 1) * dayMs, spanMs: days * dayMs });
}

/** One pass over the calls; the migration takes four. */
function count(database: Sqlite): void {
  database.exec(
    `create temp table hours as select organization_id, mode, phone_number_id, created_at / 3600000 as hour, direction, status, count(*) as n
     from calls group by 1, 2, 3, 4, 5, 6`,
  );
  for (const [table, bucket, hours] of [
    ['call_hours', 'hour', 1],
    ['call_days', 'day', 24],
  ] as const) {
    const each = statuses.map((status) => `sum(iif(status = '${status}', n, 0))`).join(', ');
    for (const number of ['phone_number_id', "''"])
      database.exec(
        `insert into ${table} (organization_id, mode, phone_number_id, ${bucket}, direction, ${statuses.join(', ')})
         select organization_id, mode, ${number}, hour / ${hours}, direction, ${each} from hours group by 1, 2, 3, 4, 5`,
      );
  }
}

function addEvents(database: Sqlite): void {
  database
    .prepare(
      `with recursive e(n) as (select 1 union all select n + 1 from e where n < ${eventsPerCall})
       insert into call_events (id, call_id, sequence, event_type, event_data, created_at)
       select printf('%s-%02x', c.id, e.n), c.id, e.n, 'turn.completed', '{"speaker":"agent","duration_ms":600,"response_ms":710}', c.created_at
       from (select id, created_at from calls order by id desc limit ${callsWithEvents}) c, e`,
    )
    .run();
}

/** Every tenth call has a cost. */
function addLedger(database: Sqlite, organizationId: string, entries: number): void {
  database
    .prepare(
      `with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < @entries)
       insert into ledger (id, organization_id, kind, amount_microcents, balance_microcents, call_id, note, created_at)
       select printf('0198dddd-0000-7000-8000-%012x', i), @organizationId, 'call', -1, 0, null, '', 1700000000000 + i * 1000 from n`,
    )
    .run({ entries, organizationId });
}

const webhookId = '0198bbbb-0000-7000-8000-000000000001';

/** None failed, so that a list of failed deliveries scans them all. */
function addDeliveries(database: Sqlite, organizationId: string, deliveries: number): void {
  database
    .prepare(
      `insert or ignore into endpoints (id, organization_id, mode, name, type, target, provider_config, record, status, health, created_at, updated_at)
       values (@webhookId, @organizationId, 'live', 'Webhook', 'webhook', 'https://example.com/calls', '{}', 0, 'active', 'unknown', 0, 0)`,
    )
    .run({ webhookId, organizationId });
  database
    .prepare(
      `with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < @deliveries)
       insert into webhook_deliveries (id, organization_id, mode, endpoint_id, call_id, sequence, event_type, status, attempts, next_attempt_at, created_at)
       select printf('0198eeee-0000-7000-8000-%012x', i), @organizationId, 'live', @webhookId, printf('%012x', i), 1,
         'call.completed', 'delivered', 1, 0, 1700000000000 + i * 1000 from n`,
    )
    .run({ deliveries, organizationId, webhookId });
}

/** Whether `fill` is done. */
export function isFilled(file: string): boolean {
  if (!existsSync(file)) return false;
  const database = new (loadDriver())(file, { readonly: true });
  try {
    return database.prepare("select 1 from bench_parts where name = 'end'").get() !== undefined;
  } finally {
    database.close();
  }
}

/** The organization and its key. */
export async function createTenant(file: string): Promise<string> {
  const store = await Store.open({ file });
  const { id } = await store.organizations.create({ name: 'Bench', tier: 'enterprise', limits });
  const user = await store.organizations.createUser({ name: 'Bench', platformOwner: true });
  await store.organizations.addMember(id, user.id, 'owner');
  await store.apiKeys.create({ userId: user.id, organizationId: null, mode: 'live', name: 'Bench', key: benchKey });
  await store.close();
  return id;
}
