/**
 * Counters and webhook deliveries are now written by the code that changes the records, instead of by triggers. `settings_version` tells other
 * processes that their cached settings are stale. `journal_positions` records which batches of a process are written, in case the writing
 * thread dies.
 */
const triggers = [
  ...['call_days', 'call_hours'].flatMap((table) => ['insert', 'update', 'delete'].map((when) => `${table}_${when}`)),
  ...['call_insights', 'call_delay'].flatMap((what) => ['insert', 'end', 'delete'].map((when) => `${what}_${when}`)),
  'call_events_to_webhooks',
  ...['queued', 'again', 'done', 'gone'].map((when) => `webhook_deliveries_${when}`),
];

export const statements: readonly string[] = [
  ...triggers.map((trigger) => `drop trigger ${trigger}`),
  'drop index endpoints_told',
  "create index endpoints_told on endpoints (id) where type = 'webhook' and has_events_url = 1 and events_disabled_at is null",
  'create table settings_version (id integer primary key check (id = 1), version integer not null) strict',
  'insert into settings_version (id, version) values (1, 0)',
  'create table journal_positions (instance_id text primary key, number integer not null) strict, without rowid',
];
