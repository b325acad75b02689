/**
 * The trigger queried the endpoint for every event of every call. It now runs only if some endpoint receives events, which is one lookup in a
 * partial index.
 */
export const statements = [
  "create index endpoints_told on endpoints (id) where type = 'webhook' and events_disabled_at is null",
  'drop trigger call_events_to_webhooks',
  `create trigger call_events_to_webhooks after insert on call_events when new.event_type not like 'webhook.%'
    and exists (select 1 from endpoints where type = 'webhook' and events_disabled_at is null)
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
