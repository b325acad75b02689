/** Events on their way to webhook endpoints, written in the transaction that writes the event: no event is lost between the two. */

import type { Transaction } from '../database/database.js';
import type { EventTuple } from '../journal/entries.js';
import type { Mode } from '../tenants/scope.js';

interface Receiver {
  id: string;
  organization_id: string;
  mode: Mode;
  endpoint_id: string;
}

const anyReceiver =
  "select 1 from endpoints where type = 'webhook' and has_events_url = 1 and events_disabled_at is null limit 1";
const receiverOf = `select calls.id, calls.organization_id, calls.mode, endpoints.id as endpoint_id
  from calls join endpoints on endpoints.id = calls.endpoint_id
  where calls.id = ? and endpoints.type = 'webhook' and endpoints.has_events_url = 1 and endpoints.events_disabled_at is null`;
const hasPending =
  "select 1 from webhook_deliveries where status = 'pending' and endpoint_id = ? and call_id = ? limit 1";
const deliveryColumns = [
  ...['id', 'organization_id', 'mode', 'endpoint_id', 'call_id', 'sequence', 'event_type', 'status', 'waits'],
  ...['next_attempt_at', 'created_at'],
];

/**
 * Adds a delivery for each of these events whose call goes to a webhook that wants events. The events are written already, those of a call in
 * order. Returns whether there were any.
 */
export async function addDeliveries(transaction: Transaction, events: readonly EventTuple[]): Promise<boolean> {
  if (events.length === 0 || (await transaction.row(anyReceiver)) === undefined) return false;
  const receivers = new Map<string, (Receiver & { isPending: boolean }) | null>();
  const added: unknown[][] = [];
  for (const [id, callId, sequence, type, , createdAtMs] of events) {
    if (type.startsWith('webhook.')) continue;
    let receiver = receivers.get(callId);
    if (receiver === undefined) {
      const found = await transaction.row<Receiver>(receiverOf, callId);
      receiver = found
        ? { ...found, isPending: (await transaction.row(hasPending, found.endpoint_id, callId)) !== undefined }
        : null;
      receivers.set(callId, receiver);
    }
    if (receiver === null) continue;
    const of = [receiver.organization_id, receiver.mode, receiver.endpoint_id];
    const waits = receiver.isPending ? 1 : 0;
    added.push([id, ...of, callId, sequence, type, 'pending', waits, createdAtMs, createdAtMs]);
    receiver.isPending = true;
  }
  await transaction.insertAll('webhook_deliveries', deliveryColumns, added);
  return added.length > 0;
}

const pendingOfCall = "status = 'pending' and endpoint_id = ? and call_id = ?";
const firstMayGo = `update webhook_deliveries set waits = 0
  where id = (select id from webhook_deliveries where ${pendingOfCall} order by sequence limit 1) and waits = 1`;
const othersWait = `update webhook_deliveries set waits = 1 where ${pendingOfCall} and waits = 0
  and sequence > (select min(sequence) from webhook_deliveries where ${pendingOfCall})`;

/**
 * Of a call's deliveries to an endpoint only the first that is pending may go out; the others are marked as waiting, and stand outside the
 * index of what is due. To be called when one of them is pending no longer, or again.
 */
export async function keepOrder(transaction: Transaction, endpointId: string, callId: string): Promise<void> {
  await transaction.write(othersWait, endpointId, callId, endpointId, callId);
  await transaction.write(firstMayGo, endpointId, callId);
}
