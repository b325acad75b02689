/** Events of calls that another process numbers; `text` is the database's type for it, `integer` the one for times. Never changed: a later change is a new migration. */
export const statements = (text: string, integer: string): readonly string[] => [
  `create table waiting_events (
    id ${text} primary key, call_id ${text} not null, event_type ${text} not null, event_data text not null, created_at ${integer} not null
  )`,
  'create index waiting_events_by_call on waiting_events (call_id)',
];
