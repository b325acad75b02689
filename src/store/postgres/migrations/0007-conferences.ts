const text = 'text collate "C"';

/** The node that has a conference: as long as its lease holds. */
export const statements: readonly string[] = [
  `create table conferences (
    organization_id ${text} not null, mode ${text} not null, name ${text} not null, id ${text} not null,
    instance_id ${text} not null references instances (id) on delete cascade, address ${text} not null,
    primary key (organization_id, mode, name)
  )`,
  'create index conferences_by_instance on conferences (instance_id)',
];
