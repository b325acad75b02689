const dayMs = 86_400_000;
const key = 'organization_id, mode, day, grouped_by, group_id, figure, bucket';

/** Adds the figures of an ended call (`row`: new, old or calls) to its day: to the total, by endpoint and by trunk. */
function count(row: 'new' | 'old', sign: '' | '-'): string {
  return `insert into call_insights (${key}, n)
   select ${row}.organization_id, ${row}.mode, ${row}.created_at / ${dayMs}, g.column1, g.column2, f.figure, f.bucket, ${sign}f.n
   from (values ('all', ''), ('endpoint', ${row}.endpoint_id), ('trunk', ${row}.trunk_id)) g join (${figuresOf(row)}) f
   where g.column2 is not null
   on conflict (${key}) do update set n = n + excluded.n;`;
}

function figuresOf(row: 'new' | 'old' | 'calls'): string {
  const mos = `json_extract(${row}.quality, '$.mos')`;
  return `select 'ended' as figure, 0 as bucket, 1 as n
    union all select 'answered', 0, 1 where ${row}.answered_at is not null
    union all select 'mos', cast(round(${mos} * 100) as integer), 1 where ${mos} is not null
    union all select 'response_ms', ${bucketOf("cast(json_extract(t.value, '$.responseMs') as integer)")}, count(*)
      from json_each(${row}.turns) t
      where json_extract(t.value, '$.speaker') = 'agent' and json_extract(t.value, '$.responseMs') is not null group by 2`;
}

/** Rounds a time to the middle of its histogram step: within 2.5 %, or 5 ms. Times above a minute count as a minute. */
function bucketOf(ms: string): string {
  return `case when ${ms} < 1000 then (${ms} + 5) / 10 * 10 when ${ms} < 5000 then (${ms} + 25) / 50 * 50
      when ${ms} < 60000 then (${ms} + 125) / 250 * 250 else 60000 end`;
}

/**
 * The data of insights: for each day the number of ended and answered calls, their MOS, and the latency of agents. Triggers update it in the
 * transaction of the call's end or deletion. Also the secrets of this installation.
 */
export const statements = [
  `create table call_insights (
    organization_id text not null, mode text not null, day integer not null,
    grouped_by text not null check (grouped_by in ('all', 'endpoint', 'trunk')), group_id text not null,
    figure text not null, bucket integer not null, n integer not null, primary key (${key})
  ) strict, without rowid`,
  `create trigger call_insights_insert after insert on calls when new.status <> 'in_progress' begin ${count('new', '')} end`,
  `create trigger call_insights_end after update of status on calls when old.status = 'in_progress' and new.status <> 'in_progress'
   begin ${count('new', '')} end`,
  `create trigger call_insights_delete after delete on calls when old.status <> 'in_progress' begin ${count('old', '-')} end`,
  ...['all', 'endpoint', 'trunk'].map((group) => {
    const id = group === 'all' ? "''" : `calls.${group}_id`;
    const turns = `from calls, json_each(calls.turns) t
      where json_extract(t.value, '$.speaker') = 'agent' and json_extract(t.value, '$.responseMs') is not null`;
    const each = (figure: string, bucket: string, from: string) =>
      `select organization_id, mode, created_at / ${dayMs}, '${group}', ${id}, '${figure}', ${bucket}, count(*)
       ${from} and status <> 'in_progress' and ${id} is not null group by 1, 2, 3, 5, 7`;
    return `insert into call_insights (${key}, n) ${[
      each('ended', '0', 'from calls where true'),
      each('answered', '0', 'from calls where answered_at is not null'),
      each(
        'mos',
        "cast(round(json_extract(quality, '$.mos') * 100) as integer)",
        "from calls where json_extract(quality, '$.mos') is not null",
      ),
      each('response_ms', bucketOf("cast(json_extract(t.value, '$.responseMs') as integer)"), turns),
    ].join(' union all ')}`;
  }),

  'create table installation_secrets (name text primary key, secret text not null) strict, without rowid',
];
