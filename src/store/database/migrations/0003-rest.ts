const statuses = ['completed', 'failed', 'in_progress', 'no_answer', 'busy'] as const;

/** Counts of calls by day or hour, per number; the number '' has the total. */
function counts(table: 'call_days' | 'call_hours', bucket: 'day' | 'hour', bucketMs: number): string[] {
  const key = `organization_id, mode, phone_number_id, ${bucket}, direction`;
  const added = statuses.map((status) => `${status} = ${status} + excluded.${status}`).join(', ');
  /** Adds to the counts of `row` ('new' or 'old'): those of its number and the total. */
  const count = (row: 'new' | 'old', change: (status: string) => string): string =>
    `insert into ${table} (${key}, ${statuses.join(', ')})
     select ${row}.organization_id, ${row}.mode, n.column1, ${row}.created_at / ${bucketMs}, ${row}.direction,
       ${statuses.map(change).join(', ')}
     from (values (''), (${row}.phone_number_id)) n where true
     on conflict (${key}) do update set ${added};`;
  return [
    `create table ${table} (
      organization_id text not null, mode text not null, phone_number_id text not null, ${bucket} integer not null, direction text not null,
      ${statuses.map((status) => `${status} integer not null`).join(', ')}, primary key (${key})
    ) strict, without rowid`,
    `create trigger ${table}_insert after insert on calls begin ${count('new', (status) => `new.status = '${status}'`)} end`,
    `create trigger ${table}_update after update of status on calls when new.status <> old.status begin
      ${count('new', (status) => `(new.status = '${status}') - (old.status = '${status}')`)} end`,
    `create trigger ${table}_delete after delete on calls begin ${count('old', (status) => `-(old.status = '${status}')`)} end`,
    `insert into ${table} (${key}, ${statuses.join(', ')})
     select organization_id, mode, n.number, created_at / ${bucketMs}, direction, ${statuses.map((status) => `sum(status = '${status}')`).join(', ')}
     from (select *, phone_number_id as number from calls union all select *, '' from calls) n
     group by 1, 2, 3, 4, 5`,
  ];
}

/**
 * Counts of calls, which triggers update in the transaction of every change; indexes for the filters of lists; balances and the ledger;
 * idempotency keys; requests per day; INVITEs that were rejected before they became calls.
 */
export const statements = [
  ...counts('call_days', 'day', 86_400_000),
  ...counts('call_hours', 'hour', 3_600_000),

  'drop index calls_by_status',
  'drop index calls_by_number',
  'create index calls_by_status on calls (organization_id, mode, status, created_at, id, direction)',
  'create index calls_by_direction on calls (organization_id, mode, direction, created_at, id)',
  'create index calls_by_number on calls (organization_id, mode, phone_number_id, created_at, id, status, direction)',

  // Null: not metered. The spendable amount is the balance less the reservations of running calls.
  'alter table organizations add column balance_microcents integer',
  `create table rates (
    organization_id text not null references organizations (id) on delete cascade,
    direction text not null check (direction in ('inbound', 'outbound')), prefix text not null,
    microcents_per_minute integer not null, initial_increment_s integer not null, increment_s integer not null,
    primary key (organization_id, direction, prefix)
  ) strict, without rowid`,
  `create table call_funds (
    call_id text primary key references calls (id) on delete cascade, organization_id text not null,
    microcents_per_minute integer not null, initial_increment_s integer not null, increment_s integer not null,
    funded_s integer, held_microcents integer not null
  ) strict, without rowid`,
  'create index call_funds_held on call_funds (organization_id) where held_microcents > 0',
  `create table ledger (
    id text primary key, organization_id text not null references organizations (id) on delete cascade,
    kind text not null check (kind in ('credit', 'call')), amount_microcents integer not null, balance_microcents integer not null,
    call_id text, note text not null, created_at integer not null
  ) strict, without rowid`,
  'create index ledger_newest on ledger (organization_id, created_at, id)',
  `create table spend_days (
    organization_id text not null references organizations (id) on delete cascade, day integer not null, microcents integer not null,
    primary key (organization_id, day)
  ) strict, without rowid`,

  `create table idempotency_keys (
    organization_id text not null references organizations (id) on delete cascade, mode text not null, operation text not null, key text not null,
    body_hash text not null, status integer not null, answer text not null, created_at integer not null,
    primary key (organization_id, mode, operation, key)
  ) strict, without rowid`,
  'create index idempotency_keys_oldest on idempotency_keys (created_at)',

  `create table request_days (
    organization_id text not null, day integer not null, requests integer not null, primary key (organization_id, day)
  ) strict, without rowid`,

  `create table rejected_invites (
    id text primary key, sip_call_id text not null, from_number text not null, to_number text not null,
    transport text not null, address text not null, port integer not null, sip_status integer not null, cause text not null,
    created_at integer not null
  ) strict, without rowid`,

  `create table call_quality (
    call_id text primary key references calls (id) on delete cascade, samples text not null
  ) strict, without rowid`,
];
