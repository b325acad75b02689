/** Tenants, routing and calls. See `tables.ts` for what each column means. */
export const statements = [
  `create table instances (
    id text primary key, host text not null, pid integer not null, started_at integer not null, heartbeat_at integer not null
  ) strict`,

  `create table organizations (
    id text primary key, name text not null,
    tier text not null check (tier in ('free', 'pro', 'business', 'enterprise')),
    limits text not null, created_at integer not null, updated_at integer not null
  ) strict`,

  `create table users (
    id text primary key, name text not null, subject text unique, platform_owner integer not null, created_at integer not null
  ) strict`,

  `create table members (
    organization_id text not null references organizations (id) on delete cascade,
    user_id text not null references users (id) on delete cascade,
    role text not null check (role in ('owner', 'admin', 'member')), joined_at integer not null,
    primary key (user_id, organization_id)
  ) strict, without rowid`,
  'create index members_by_organization on members (organization_id)',

  `create table api_keys (
    id text primary key, user_id text not null references users (id) on delete cascade,
    organization_id text references organizations (id) on delete cascade,
    mode text not null check (mode in ('live', 'test')), name text not null, prefix text not null, hash text not null unique,
    created_at integer not null, last_used_at integer, revoked_at integer
  ) strict`,
  'create index api_keys_by_organization on api_keys (organization_id)',
  'create index api_keys_by_user on api_keys (user_id)',

  `create table endpoints (
    id text primary key, organization_id text not null references organizations (id) on delete cascade,
    mode text not null check (mode in ('live', 'test')), name text not null,
    type text not null check (type in ('agent', 'webhook')), target text not null, provider text, provider_config text not null,
    record integer not null, status text not null check (status in ('active', 'inactive')), health text not null,
    fallback_endpoint_id text references endpoints (id) on delete set null, webhook_secret text,
    created_at integer not null, updated_at integer not null
  ) strict`,
  'create index endpoints_newest on endpoints (organization_id, mode, created_at, id)',
  'create index endpoints_by_fallback on endpoints (fallback_endpoint_id) where fallback_endpoint_id is not null',

  `create table phone_numbers (
    id text primary key, organization_id text not null references organizations (id) on delete cascade,
    mode text not null check (mode in ('live', 'test')), number text not null, name text not null,
    endpoint_id text references endpoints (id) on delete set null,
    fallback_endpoint_id text references endpoints (id) on delete set null,
    routes text not null, status text not null check (status in ('active', 'inactive')),
    created_at integer not null, updated_at integer not null
  ) strict`,
  'create unique index phone_numbers_by_number on phone_numbers (number, mode)',
  'create index phone_numbers_newest on phone_numbers (organization_id, mode, created_at, id)',
  'create index phone_numbers_by_endpoint on phone_numbers (endpoint_id) where endpoint_id is not null',
  'create index phone_numbers_by_fallback on phone_numbers (fallback_endpoint_id) where fallback_endpoint_id is not null',

  `create table trunks (
    id text primary key, organization_id text references organizations (id) on delete cascade,
    mode text not null check (mode in ('live', 'test')), name text not null,
    direction text not null check (direction in ('inbound', 'outbound', 'both')), addresses text not null,
    username text, password text, gateways text not null, transport text not null, srtp text not null,
    register integer not null, codecs text not null, status text not null check (status in ('active', 'inactive')),
    health text not null, created_at integer not null, updated_at integer not null
  ) strict`,
  'create index trunks_newest on trunks (organization_id, mode, created_at, id)',

  // No reference to numbers, endpoints and trunks: a past call keeps the ids of deleted rows.
  `create table calls (
    id text primary key, organization_id text not null references organizations (id) on delete cascade,
    mode text not null check (mode in ('live', 'test')), instance_id text not null, sip_call_id text,
    direction text not null check (direction in ('inbound', 'outbound')), from_number text not null, to_number text not null,
    status text not null check (status in ('completed', 'failed', 'in_progress', 'no_answer', 'busy')),
    duration_sec integer not null default 0, cost_microcents integer not null default 0, latency_ms integer not null default 0,
    phone_number_id text not null, endpoint_id text, trunk_id text, recording_url text,
    hangup_cause text, hangup_source text, ring_seconds integer,
    timings text, quality text, turns text, metadata text, transcript text,
    created_at integer not null, answered_at integer, completed_at integer
  ) strict`,
  'create index calls_newest on calls (organization_id, mode, created_at, id)',
  'create index calls_by_status on calls (organization_id, mode, status, created_at, id)',
  'create index calls_by_number on calls (organization_id, mode, phone_number_id, created_at, id)',
  "create index calls_running on calls (instance_id) where status = 'in_progress'",

  `create table call_events (
    id text not null unique, call_id text not null references calls (id) on delete cascade, sequence integer not null,
    event_type text not null, event_data text not null, created_at integer not null,
    primary key (call_id, sequence)
  ) strict, without rowid`,

  `create table call_traces (
    call_id text primary key references calls (id) on delete cascade, trace text not null
  ) strict, without rowid`,
];
