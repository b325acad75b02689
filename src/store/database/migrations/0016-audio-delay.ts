const dayMs = 86_400_000;
const key = 'organization_id, mode, day, grouped_by, group_id, figure, bucket';
const hops = ['caller_network', 'gateway_uplink', 'gateway_playout'];

/** Counts the p95 of each hop's delay of an ended call, as the counters of the other insights do; see 0006. */
function count(row: 'new' | 'old', sign: '' | '-'): string {
  const figures = hops
    .map((hop) => {
      const ms = `cast(round(json_extract(${row}.quality, '$.audio_delay.${hop}.p95_ms')) as integer)`;
      return `select '${hop}_ms' as figure, ${bucketOf(ms)} as bucket where ${ms} is not null`;
    })
    .join(' union all ');
  return `insert into call_insights (${key}, n)
   select ${row}.organization_id, ${row}.mode, ${row}.created_at / ${dayMs}, g.column1, g.column2, f.figure, f.bucket, ${sign}1
   from (values ('all', ''), ('endpoint', ${row}.endpoint_id), ('trunk', ${row}.trunk_id)) g join (${figures}) f
   where g.column2 is not null
   on conflict (${key}) do update set n = n + excluded.n;`;
}

/** Exact to 1 ms below 100 ms, to 10 ms below 1 s, then to 250 ms, up to a minute. */
function bucketOf(ms: string): string {
  return `case when ${ms} < 100 then ${ms} when ${ms} < 1000 then (${ms} + 5) / 10 * 10
      when ${ms} < 60000 then (${ms} + 125) / 250 * 250 else 60000 end`;
}

/** Insights of where calls are delayed. Calls that ended before have no such figures. */
export const statements: readonly string[] = [
  `create trigger call_delay_insert after insert on calls when new.status <> 'in_progress' and new.quality is not null
   begin ${count('new', '')} end`,
  `create trigger call_delay_end after update of status on calls
   when old.status = 'in_progress' and new.status <> 'in_progress' and new.quality is not null
   begin ${count('new', '')} end`,
  `create trigger call_delay_delete after delete on calls when old.status <> 'in_progress' and old.quality is not null
   begin ${count('old', '-')} end`,
];
