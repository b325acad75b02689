/** Names of nodes, and what one node does for all. */
export const statements: readonly string[] = [
  'alter table instances add column name text collate "C"',
  'create unique index instances_by_name on instances (name)',
  `create table node_roles (
    role text collate "C" primary key, instance_id text collate "C" not null references instances (id) on delete cascade
  )`,
];
