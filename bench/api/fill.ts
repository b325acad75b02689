/**
 * A year of calls in bulk: rows first, then the indexes and the counts that triggers would have kept, by the migrations' own statements. Values
 * are pseudo-random, the same in every run.
 */
import { dayMs } from '../../src/store/call-counts.js';
import { loadDriver } from '../../src/store/driver.js';
import { migrations } from '../../src/store/migrations/index.js';
import { Store } from '../../src/store/store.js';

export const days = 365;
export const benchKey = `trunkline_live_${'b'.repeat(32)}`;
export const numbers = Array.from({ length: 7 }, (_, n) => `0198aaaa-0000-7000-8000-00000000000${n}`);
/** The newest calls have their events. */
const callsWithEvents = 1_000;
const eventsPerCall = 10;
const statuses = ['completed', 'failed', 'in_progress', 'no_answer', 'busy'];
const limits = { requests_per_second: 1_000_000, requests_per_day: 1_000_000_000 };

/** Fills a new database. */
export function fill(file: string, calls: number, say: (step: string) => void): void {
  const organizationId = createTenant(file);
  const database = new (loadDriver())(file);
  const since = performance.now();
  const step = (name: string, work: () => unknown) => {
    const startMs = performance.now();
    work();
    say(`${name} ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
  };
  database.pragma('journal_mode = off');
  database.pragma('synchronous = off');
  database.pragma('foreign_keys = off');
  database.pragma('cache_size = -1000000');
  database.pragma('temp_store = memory');
  const parts = database
    .prepare(
      "select type, name, sql from sqlite_master where tbl_name = 'calls' and type in ('index', 'trigger') and sql is not null",
    )
    .all() as { type: string; name: string; sql: string }[];
  for (const { type, name } of parts) database.exec(`drop ${type} ${name}`);
  const today = Math.floor(Date.now() / dayMs);
  const mixed = '((i * 2654435761) & 2147483647)'; // looks random, and is the same for the same i
  const digit = (from: number, of: number) => `((${mixed} / ${from}) % ${of})`;
  step('rows', () =>
    database
      .prepare(
        `with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < @calls)
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
      .run({ calls, organizationId, firstMs: (today - days + 1) * dayMs, spanMs: days * dayMs }),
  );
  for (const { type, name, sql } of parts) if (type === 'index') step(name, () => database.exec(sql));
  step('counts by hour and day', () => {
    // In one pass over the calls: what the migration does takes four.
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
  });
  for (const sql of migrations['0006-rest']?.statements ?? [])
    if (sql.startsWith('insert into call_insights')) step('insights', () => database.exec(sql));
  for (const { type, sql } of parts) if (type === 'trigger') database.exec(sql);
  database
    .prepare(
      `with recursive e(n) as (select 1 union all select n + 1 from e where n < ${eventsPerCall})
       insert into call_events (id, call_id, sequence, event_type, event_data, created_at)
       select printf('%s-%02x', c.id, e.n), c.id, e.n, 'turn.completed', '{"speaker":"agent","duration_ms":600,"response_ms":710}', c.created_at
       from (select id, created_at from calls order by created_at desc limit ${callsWithEvents}) c, e`,
    )
    .run();
  step('analyze', () => database.exec('pragma optimize'));
  database.pragma('journal_mode = wal');
  database.close();
  say(`in all ${((performance.now() - since) / 1000).toFixed(0)} s`);
}

/** The organization and its key. */
function createTenant(file: string): string {
  const store = Store.open({ file });
  const { id } = store.organizations.create({ name: 'Bench', tier: 'enterprise', limits });
  const user = store.organizations.createUser({ name: 'Bench', platformOwner: true });
  store.organizations.addMember(id, user.id, 'owner');
  store.apiKeys.create({ userId: user.id, organizationId: null, mode: 'live', name: 'Bench', key: benchKey });
  store.close();
  return id;
}
