/**
 * Calls and what they write, in partitions by the time in the id. What an older version wrote becomes the first partition as it is: no row is
 * moved, each is read once. References from and to partitions go: a partition could not be dropped while others refer to it.
 */
const byId = ['calls', 'call_events', 'call_traces', 'call_quality'] as const;
const keyOf = (table: string) => (table === 'calls' ? 'id' : 'call_id');
const primaryKey = { calls: 'id', call_events: 'call_id, sequence', call_traces: 'call_id', call_quality: 'call_id' };

const indexes = [
  'calls_newest on calls (organization_id, mode, created_at, id)',
  "calls_running on calls (instance_id) where status = 'in_progress'",
  'calls_by_status on calls (organization_id, mode, status, created_at, id, direction)',
  'calls_by_direction on calls (organization_id, mode, direction, created_at, id)',
  'calls_by_number on calls (organization_id, mode, phone_number_id, created_at, id, status, direction)',
  'calls_by_from_number on calls (from_number)',
  'calls_by_to_number on calls (to_number)',
];
const nameOf = (index: string) => index.slice(0, index.indexOf(' '));

export const statements: readonly string[] = [
  'alter table webhook_deliveries drop constraint webhook_deliveries_id_fkey',
  ...['call_events', 'call_traces', 'call_quality', 'call_dialogs', 'call_funds', 'recordings'].map(
    (table) => `alter table ${table} drop constraint ${table}_call_id_fkey`,
  ),
  ...indexes.map((index) => `alter index ${nameOf(index)} rename to ${nameOf(index)}_before`),
  ...byId.flatMap((table) => [
    `alter table ${table} rename to ${table}_before`,
    `alter index ${table}_pkey rename to ${table}_before_pkey`,
    `create table ${table} (like ${table}_before including defaults including constraints) partition by range (${keyOf(table)})`,
    `alter table ${table} add primary key (${primaryKey[table]})`,
    `create table ${table}_other partition of ${table} default`, // ids that no month has
  ]),
  'alter table calls add foreign key (organization_id) references organizations (id) on delete cascade',
  'create index call_events_other_id on call_events_other (id)',
  // the first month that has no record yet begins where the old table ends
  `do $$
  declare
    last text := (select max(id) from calls_before);
    ends text := lpad(to_hex((extract(epoch from date_trunc('month', now() at time zone 'UTC') + interval '1 month') * 1000)::bigint), 12, '0');
    name text;
  begin
    ends := left(ends, 8) || '-' || right(ends, 4);
    if last >= ends then ends := last || '~'; end if;
    foreach name in array array['calls', 'call_events', 'call_traces', 'call_quality'] loop
      if last is null then
        execute format('drop table %I', name || '_before');
      else
        execute format('alter table %I attach partition %I for values from (minvalue) to (%L)', name, name || '_before', ends);
      end if;
    end loop;
  end $$`,
  ...indexes.map((index) => `create index ${index}`),
];
