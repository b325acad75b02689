/**
 * Whether an endpoint has an `events_url` gets a column of its own: `provider_config` may be encrypted, and then the trigger could not read it. The
 * column stays null for an encrypted row until the first start with the key fills it in.
 */
export const statements = [
  'alter table endpoints add column has_events_url integer',
  `update endpoints set has_events_url = json_extract(provider_config, '$.events_url') is not null
    where json_valid(provider_config)`,
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
      and endpoints.has_events_url = 1;
  end`,
];
