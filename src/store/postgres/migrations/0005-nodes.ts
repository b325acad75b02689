const text = 'text collate "C"';

/** Commands between nodes; and the order in which events were committed, for those that are written from now on. */
export const statements: readonly string[] = [
  `create table node_commands (
    id ${text} primary key, instance_id ${text} not null, call_id ${text} not null, command text not null, created_at bigint not null,
    taken_at bigint, answer text
  )`,
  'create index node_commands_by_instance on node_commands (instance_id)',
  'create sequence call_event_positions',
  'alter table call_events add column position bigint',
  "alter table call_events alter column position set default nextval('call_event_positions')",
  'create index call_events_by_position on call_events (position) where position is not null',
];
