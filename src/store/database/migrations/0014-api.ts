/**
 * Stored responses of idempotent requests belong to the caller of the API. Old rows name no caller and may contain secrets, so they are deleted.
 * Also the invitations of members.
 */
export const statements: readonly string[] = [
  'drop table idempotency_keys',
  `create table idempotency_keys (
    caller text not null, organization_id text not null references organizations (id) on delete cascade, operation text not null,
    key text not null, body_hash text not null, status integer not null, answer text not null, created_at integer not null,
    primary key (caller, organization_id, operation, key)
  ) strict, without rowid`,
  'create index idempotency_keys_oldest on idempotency_keys (created_at)',

  `create table invitations (
    id text primary key, organization_id text not null references organizations (id) on delete cascade, subject text, email text,
    role text not null, name text, created_at integer not null, expires_at integer not null,
    check ((subject is null) <> (email is null))
  ) strict, without rowid`,
  'create unique index invitations_of_subject on invitations (organization_id, subject) where subject is not null',
  'create unique index invitations_of_email on invitations (organization_id, email) where email is not null',
  'create index invitations_by_subject on invitations (subject) where subject is not null',
  'create index invitations_by_email on invitations (email) where email is not null',
];
