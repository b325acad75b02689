/**
 * Of a call's deliveries to an endpoint only the first pending one may be sent. The others are marked as waiting and are not in the index of
 * due deliveries, so that the search for due ones does not read them.
 */
const pending = (of: 'new' | 'old') =>
  `from webhook_deliveries where status = 'pending' and endpoint_id = ${of}.endpoint_id and call_id = ${of}.call_id`;

/** After the pending deliveries, but before later ones of the call (after a retry). */
const queued = `update webhook_deliveries set waits = exists (select 1 ${pending('new')} and sequence < new.sequence) where id = new.id;
    update webhook_deliveries set waits = 1 where id in (select id ${pending('new')} and sequence > new.sequence and waits = 0);`;

const nextIsFirst = `update webhook_deliveries set waits = 0 where id = (select id ${pending('old')} order by sequence limit 1);`;

export const statements: readonly string[] = [
  'alter table webhook_deliveries add column waits integer not null default 0',
  `update webhook_deliveries as later set waits = 1 where status = 'pending' and exists (
    select 1 from webhook_deliveries where status = 'pending' and endpoint_id = later.endpoint_id and call_id = later.call_id
      and sequence < later.sequence)`,
  'drop index webhook_deliveries_due',
  "create index webhook_deliveries_due on webhook_deliveries (endpoint_id, next_attempt_at, id) where status = 'pending' and waits = 0",
  `create trigger webhook_deliveries_queued after insert on webhook_deliveries when new.status = 'pending'
  begin
    ${queued}
  end`,
  `create trigger webhook_deliveries_again after update of status on webhook_deliveries when old.status <> 'pending' and new.status = 'pending'
  begin
    ${queued}
  end`,
  `create trigger webhook_deliveries_done after update of status on webhook_deliveries when old.status = 'pending' and new.status <> 'pending'
  begin
    ${nextIsFirst}
  end`,
  `create trigger webhook_deliveries_gone after delete on webhook_deliveries when old.status = 'pending'
  begin
    ${nextIsFirst}
  end`,
];
