/**
 * Events of calls that another process numbers: one that runs there, or ended there a moment ago. They wait in the database until that process
 * can number no more of the call, and get their numbers after its last event.
 */
import type { Database, Transaction } from '../database/database.js';
import type { WaitingEventRow } from '../database/tables.js';
import type { EventTuple, LateEventEntry } from '../journal/entries.js';
import { insertEvents } from '../journal/insert-events.js';
import { addDeliveries } from '../routing/outbox.js';
import type { Mode } from '../tenants/scope.js';

/** A numbered event, and whose it is. */
export interface NumberedEvent {
  event: EventTuple;
  organizationId: string;
  mode: Mode;
}

interface CallOfEvent {
  organization_id: string;
  mode: Mode;
  status: string;
  instance_id: string;
  completed_at: number | null;
}

/** For so long after the end of a call its process may have events to write that it has numbered already. */
const numbersAfterEndMs = 15_000;
const atOnce = 100;

const callOf = 'select organization_id, mode, status, instance_id, completed_at from calls where id = ?';
const lastOf = 'select max(sequence) as sequence, max(created_at) as at from call_events where call_id = ?';
const columns = ['id', 'call_id', 'event_type', 'event_data', 'created_at'];
const ready = `select w.id, w.call_id, w.event_type, w.event_data, w.created_at
  from waiting_events w join calls c on c.id = w.call_id left join instances i on i.id = c.instance_id
  where c.status <> 'in_progress' and (c.completed_at < ? or i.id is null) order by w.created_at, w.id limit ${atOnce}`;

/** Numbers an event of a call that this process no longer has in memory; null: it waits, or the call is gone. */
export async function numberOrWait(
  transaction: Transaction,
  entry: LateEventEntry,
  instanceId: string,
): Promise<NumberedEvent | null> {
  const call = await transaction.row<CallOfEvent>(callOf, entry.callId);
  if (call === undefined) return null;
  if (await isNumberedElsewhere(transaction, call, { instanceId, atMs: entry.createdAtMs })) {
    const row = [entry.id, entry.callId, entry.type, entry.data, entry.createdAtMs];
    await transaction.insertAll('waiting_events', columns, [row], 'on conflict (id) do nothing');
    return null;
  }
  return numbered(transaction, entry, call);
}

/** Numbers and writes the events whose call has ended; returns them. */
export async function numberWaitingEvents(database: Database, nowMs: number): Promise<NumberedEvent[]> {
  const before = nowMs - numbersAfterEndMs;
  if ((await database.row(ready, before)) === undefined) return []; // usually: no lock is needed to see it
  return database.transaction(async (transaction) => {
    const written: NumberedEvent[] = [];
    for (const row of await transaction.rows<WaitingEventRow>(ready, before)) {
      const call = await transaction.row<CallOfEvent>(callOf, row.call_id);
      if (call === undefined) continue;
      const { id, call_id: callId, event_type: type, event_data: data, created_at: createdAtMs } = row;
      const event = await numbered(transaction, { id, callId, type, data, createdAtMs }, call);
      await insertEvents(transaction, [event.event]);
      written.push(event);
      await transaction.deleteAll('waiting_events', 'id', [id]);
    }
    await addDeliveries(
      transaction,
      written.map(({ event }) => event),
    );
    return written;
  });
}

async function isNumberedElsewhere(
  transaction: Transaction,
  { status, instance_id: ownerId, completed_at: completedMs }: CallOfEvent,
  { instanceId, atMs }: { instanceId: string; atMs: number },
): Promise<boolean> {
  if (status === 'in_progress') return true;
  if (ownerId === instanceId || completedMs === null || atMs > completedMs + numbersAfterEndMs) return false;
  return (await transaction.row('select 1 from instances where id = ?', ownerId)) !== undefined;
}

async function numbered(
  transaction: Transaction,
  { id, callId, type, data, createdAtMs }: Omit<LateEventEntry, 'kind'>,
  { organization_id: organizationId, mode }: CallOfEvent,
): Promise<NumberedEvent> {
  const last = await transaction.row<{ sequence: number | null; at: number | null }>(lastOf, callId);
  const atMs = Math.max(last?.at ?? 0, createdAtMs);
  return { event: [id, callId, (last?.sequence ?? 0) + 1, type, data, atMs], organizationId, mode };
}
