/**
 * The outbox of events for webhook endpoints. A trigger inserts the delivery in the same transaction as the event, so that no event is lost
 * between the two.
 */
export const statements = [
  'alter table endpoints add column events_disabled_at integer',
  'alter table endpoints add column previous_secret text',
  'alter table endpoints add column previous_secret_until integer',

  `create table webhook_deliveries (
    id text primary key references call_events (id) on delete cascade,
    organization_id text not null, mode text not null, endpoint_id text not null references endpoints (id) on delete cascade,
    call_id text not null, sequence integer not null, event_type text not null,
    status text not null check (status in ('pending', 'delivered', 'failed')),
    attempts integer not null default 0, next_attempt_at integer not null, created_at integer not null, delivered_at integer
  ) strict`,
  "create index webhook_deliveries_waiting on webhook_deliveries (endpoint_id, call_id, sequence) where status = 'pending'",
  "create index webhook_deliveries_due on webhook_deliveries (next_attempt_at, endpoint_id) where status = 'pending'",
  'create index webhook_deliveries_newest on webhook_deliveries (organization_id, mode, created_at, id)',
  'create index webhook_deliveries_by_call on webhook_deliveries (call_id)',

  `create table webhook_attempts (
    delivery_id text not null references webhook_deliveries (id) on delete cascade, number integer not null,
    at integer not null, duration_ms integer not null, http_status integer, error text,
    primary key (delivery_id, number)
  ) strict, without rowid`,

  `create trigger call_events_to_webhooks after insert on call_events when new.event_type not like 'webhook.%'
  begin
    insert into webhook_deliveries
      (id, organization_id, mode, endpoint_id, call_id, sequence, event_type, status, next_attempt_at, created_at)
    select new.id, calls.organization_id, calls.mode, endpoints.id, new.call_id, new.sequence, new.event_type, 'pending',
      new.created_at, new.created_at
    from calls join endpoints on endpoints.id = calls.endpoint_id
    where calls.id = new.call_id and endpoints.type = 'webhook' and endpoints.events_disabled_at is null
      and json_extract(endpoints.provider_config, '$.events_url') is not null;
  end`,
];
