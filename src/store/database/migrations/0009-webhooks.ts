/** Recordings of parts of a call, by `record` and by `dial`. See `tables.ts`. */
export const statements = [
  `create table recordings (
    id text primary key, call_id text not null references calls (id) on delete cascade, token text not null, file text not null,
    duration_ms integer not null, bytes integer not null, created_at integer not null
  ) strict`,
  'create index recordings_by_call on recordings (call_id)',
];
