/** Ids and names are compared by their bytes, as in SQLite, whatever the locale of the database. */
const text = 'text collate "C"';

/** The schema of SQLite as of `0018-code`. Times are milliseconds since 1970, as `bigint`; JSON is text. */
export const statements: readonly string[] = [
  `create table instances (
    id ${text} primary key, host ${text} not null, pid bigint not null, started_at bigint not null, heartbeat_at bigint not null
  )`,
  `create table organizations (
    id ${text} primary key, name ${text} not null,
    tier ${text} not null check (tier in ('free', 'pro', 'business', 'enterprise')),
    limits ${text} not null, created_at bigint not null, updated_at bigint not null, balance_microcents bigint)`,
  `create table users (
    id ${text} primary key, name ${text} not null, subject ${text} unique, platform_owner bigint not null, created_at bigint not null
  )`,
  `create table members (
    organization_id ${text} not null references organizations (id) on delete cascade,
    user_id ${text} not null references users (id) on delete cascade,
    role ${text} not null check (role in ('owner', 'admin', 'member')), joined_at bigint not null,
    primary key (user_id, organization_id)
  )`,
  `create table api_keys (
    id ${text} primary key, user_id ${text} not null references users (id) on delete cascade,
    organization_id ${text} references organizations (id) on delete cascade,
    mode ${text} not null check (mode in ('live', 'test')), name ${text} not null, prefix ${text} not null, hash ${text} not null unique,
    created_at bigint not null, last_used_at bigint, revoked_at bigint
  )`,
  `create table endpoints (
    id ${text} primary key, organization_id ${text} not null references organizations (id) on delete cascade,
    mode ${text} not null check (mode in ('live', 'test')), name ${text} not null,
    type ${text} not null check (type in ('agent', 'webhook')), target ${text} not null, provider ${text}, provider_config ${text} not null,
    record bigint not null, status ${text} not null check (status in ('active', 'inactive')), health ${text} not null,
    fallback_endpoint_id ${text} references endpoints (id) on delete set null, webhook_secret ${text},
    created_at bigint not null, updated_at bigint not null, events_disabled_at bigint, previous_secret ${text}, previous_secret_until bigint, has_events_url bigint)`,
  `create table phone_numbers (
    id ${text} primary key, organization_id ${text} not null references organizations (id) on delete cascade,
    mode ${text} not null check (mode in ('live', 'test')), number ${text} not null, name ${text} not null,
    endpoint_id ${text} references endpoints (id) on delete set null,
    fallback_endpoint_id ${text} references endpoints (id) on delete set null,
    routes ${text} not null, status ${text} not null check (status in ('active', 'inactive')),
    created_at bigint not null, updated_at bigint not null
  )`,
  `create table trunks (
    id ${text} primary key, organization_id ${text} references organizations (id) on delete cascade,
    mode ${text} not null check (mode in ('live', 'test')), name ${text} not null,
    direction ${text} not null check (direction in ('inbound', 'outbound', 'both')), addresses ${text} not null,
    username ${text}, password ${text}, gateways ${text} not null, transport ${text} not null, srtp ${text} not null,
    register bigint not null, codecs ${text} not null, status ${text} not null check (status in ('active', 'inactive')),
    health ${text} not null, created_at bigint not null, updated_at bigint not null, max_calls bigint, calls_per_second bigint, outbound ${text} not null default '{}', tls_ca ${text}, tls_certificate ${text}, tls_key ${text})`,
  `create table calls (
    id ${text} primary key, organization_id ${text} not null references organizations (id) on delete cascade,
    mode ${text} not null check (mode in ('live', 'test')), instance_id ${text} not null, sip_call_id ${text},
    direction ${text} not null check (direction in ('inbound', 'outbound')), from_number ${text} not null, to_number ${text} not null,
    status ${text} not null check (status in ('completed', 'failed', 'in_progress', 'no_answer', 'busy')),
    duration_sec bigint not null default 0, cost_microcents bigint not null default 0, latency_ms bigint not null default 0,
    phone_number_id ${text} not null, endpoint_id ${text}, trunk_id ${text}, recording_url ${text},
    hangup_cause ${text}, hangup_source ${text}, ring_seconds bigint,
    timings ${text}, quality ${text}, turns ${text}, metadata ${text}, transcript ${text},
    created_at bigint not null, answered_at bigint, completed_at bigint
  )`,
  `create table call_events (
    id ${text} not null unique, call_id ${text} not null references calls (id) on delete cascade, sequence bigint not null,
    event_type ${text} not null, event_data ${text} not null, created_at bigint not null,
    primary key (call_id, sequence)
  )`,
  `create table call_traces (
    call_id ${text} primary key references calls (id) on delete cascade, trace ${text} not null
  )`,
  `create table webhook_deliveries (
    id ${text} primary key references call_events (id) on delete cascade,
    organization_id ${text} not null, mode ${text} not null, endpoint_id ${text} not null references endpoints (id) on delete cascade,
    call_id ${text} not null, sequence bigint not null, event_type ${text} not null,
    status ${text} not null check (status in ('pending', 'delivered', 'failed')),
    attempts bigint not null default 0, next_attempt_at bigint not null, created_at bigint not null, delivered_at bigint, waits bigint not null default 0)`,
  `create table webhook_attempts (
    delivery_id ${text} not null references webhook_deliveries (id) on delete cascade, number bigint not null,
    at bigint not null, duration_ms bigint not null, http_status bigint, error ${text},
    primary key (delivery_id, number)
  )`,
  `create table call_days (
    organization_id ${text} not null, mode ${text} not null, phone_number_id ${text} not null, day bigint not null, direction ${text} not null,
    completed bigint not null, failed bigint not null, in_progress bigint not null, no_answer bigint not null, busy bigint not null, primary key (organization_id, mode, phone_number_id, day, direction)
  )`,
  `create table call_hours (
    organization_id ${text} not null, mode ${text} not null, phone_number_id ${text} not null, hour bigint not null, direction ${text} not null,
    completed bigint not null, failed bigint not null, in_progress bigint not null, no_answer bigint not null, busy bigint not null, primary key (organization_id, mode, phone_number_id, hour, direction)
  )`,
  `create table rates (
    organization_id ${text} not null references organizations (id) on delete cascade,
    direction ${text} not null check (direction in ('inbound', 'outbound')), prefix ${text} not null,
    microcents_per_minute bigint not null, initial_increment_s bigint not null, increment_s bigint not null,
    primary key (organization_id, direction, prefix)
  )`,
  `create table call_funds (
    call_id ${text} primary key references calls (id) on delete cascade, organization_id ${text} not null,
    microcents_per_minute bigint not null, initial_increment_s bigint not null, increment_s bigint not null,
    funded_s bigint, held_microcents bigint not null
  )`,
  `create table ledger (
    id ${text} primary key, organization_id ${text} not null references organizations (id) on delete cascade,
    kind ${text} not null check (kind in ('credit', 'call')), amount_microcents bigint not null, balance_microcents bigint not null,
    call_id ${text}, note ${text} not null, created_at bigint not null
  )`,
  `create table spend_days (
    organization_id ${text} not null references organizations (id) on delete cascade, day bigint not null, microcents bigint not null,
    primary key (organization_id, day)
  )`,
  `create table request_days (
    organization_id ${text} not null, day bigint not null, requests bigint not null, primary key (organization_id, day)
  )`,
  `create table rejected_invites (
    id ${text} primary key, sip_call_id ${text} not null, from_number ${text} not null, to_number ${text} not null,
    transport ${text} not null, address ${text} not null, port bigint not null, sip_status bigint not null, cause ${text} not null,
    created_at bigint not null
  )`,
  `create table call_quality (
    call_id ${text} primary key references calls (id) on delete cascade, samples ${text} not null
  )`,
  `create table call_dialogs (
    call_id ${text} not null references calls (id) on delete cascade, sip_call_id ${text} not null, dialog ${text} not null,
    primary key (call_id, sip_call_id)
  )`,
  `create table call_insights (
    organization_id ${text} not null, mode ${text} not null, day bigint not null,
    grouped_by ${text} not null check (grouped_by in ('all', 'endpoint', 'trunk')), group_id ${text} not null,
    figure ${text} not null, bucket bigint not null, n bigint not null, primary key (organization_id, mode, day, grouped_by, group_id, figure, bucket)
  )`,
  `create table installation_secrets (name ${text} primary key, secret ${text} not null)`,
  `create table recordings (
    id ${text} primary key, call_id ${text} not null references calls (id) on delete cascade, token ${text} not null, file ${text} not null,
    duration_ms bigint not null, bytes bigint not null, created_at bigint not null
  )`,
  `create table idempotency_keys (
    caller ${text} not null, organization_id ${text} not null references organizations (id) on delete cascade, operation ${text} not null,
    key ${text} not null, body_hash ${text} not null, status bigint not null, answer ${text} not null, created_at bigint not null,
    primary key (caller, organization_id, operation, key)
  )`,
  `create table invitations (
    id ${text} primary key, organization_id ${text} not null references organizations (id) on delete cascade, subject ${text}, email ${text},
    role ${text} not null, name ${text}, created_at bigint not null, expires_at bigint not null,
    check ((subject is null) <> (email is null))
  )`,
  `create table settings_version (id bigint primary key check (id = 1), version bigint not null)`,
  `create table journal_positions (instance_id ${text} primary key, number bigint not null)`,
  `create index members_by_organization on members (organization_id)`,
  `create index api_keys_by_organization on api_keys (organization_id)`,
  `create index api_keys_by_user on api_keys (user_id)`,
  `create index endpoints_newest on endpoints (organization_id, mode, created_at, id)`,
  `create index endpoints_by_fallback on endpoints (fallback_endpoint_id) where fallback_endpoint_id is not null`,
  `create unique index phone_numbers_by_number on phone_numbers (number, mode)`,
  `create index phone_numbers_newest on phone_numbers (organization_id, mode, created_at, id)`,
  `create index phone_numbers_by_endpoint on phone_numbers (endpoint_id) where endpoint_id is not null`,
  `create index phone_numbers_by_fallback on phone_numbers (fallback_endpoint_id) where fallback_endpoint_id is not null`,
  `create index trunks_newest on trunks (organization_id, mode, created_at, id)`,
  `create index calls_newest on calls (organization_id, mode, created_at, id)`,
  `create index calls_running on calls (instance_id) where status = 'in_progress'`,
  `create index webhook_deliveries_waiting on webhook_deliveries (endpoint_id, call_id, sequence) where status = 'pending'`,
  `create index webhook_deliveries_newest on webhook_deliveries (organization_id, mode, created_at, id)`,
  `create index calls_by_status on calls (organization_id, mode, status, created_at, id, direction)`,
  `create index calls_by_direction on calls (organization_id, mode, direction, created_at, id)`,
  `create index calls_by_number on calls (organization_id, mode, phone_number_id, created_at, id, status, direction)`,
  `create index call_funds_held on call_funds (organization_id) where held_microcents > 0`,
  `create index ledger_newest on ledger (organization_id, created_at, id)`,
  `create index recordings_by_call on recordings (call_id)`,
  `create index webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, organization_id, mode, created_at, id)`,
  `create index webhook_deliveries_by_call on webhook_deliveries (call_id, organization_id, mode, created_at, id)`,
  `create index webhook_deliveries_due on webhook_deliveries (endpoint_id, next_attempt_at, id) where status = 'pending' and waits = 0`,
  `create index idempotency_keys_oldest on idempotency_keys (created_at)`,
  `create unique index invitations_of_subject on invitations (organization_id, subject) where subject is not null`,
  `create unique index invitations_of_email on invitations (organization_id, email) where email is not null`,
  `create index invitations_by_subject on invitations (subject) where subject is not null`,
  `create index invitations_by_email on invitations (email) where email is not null`,
  `create index endpoints_told on endpoints (id) where type = 'webhook' and has_events_url = 1 and events_disabled_at is null`,
  'insert into settings_version (id, version) values (1, 0)',
];
