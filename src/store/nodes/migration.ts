/** Names of nodes, and what one node does for all; `text` is the database's type for it. Never changed: a later change is a new migration. */
export const statements = (text: string): readonly string[] => [
  `alter table instances add column name ${text}`,
  'create unique index instances_by_name on instances (name)',
  `create table node_roles (
    role ${text} primary key, instance_id ${text} not null references instances (id) on delete cascade
  )`,
];
