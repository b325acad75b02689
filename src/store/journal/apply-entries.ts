import type { Transaction } from '../database/database.js';
import { addDeliveries } from '../routing/outbox.js';
import { hold } from '../tenants/holds.js';
import type { Mode } from '../tenants/scope.js';
import { CountChanges } from './count-changes.js';
import type {
  Admission,
  AdmissionQuestion,
  BatchOutcome,
  BeginEntry,
  Entry,
  EventTuple,
  LateEventEntry,
} from './entries.js';
import { GatheredCalls } from './gathered-calls.js';
import { countRunning } from './running-calls.js';

/** Writes what calls have to write, in the order of the entries, with its counters and its deliveries to webhooks. */
export async function applyEntries(transaction: Transaction, entries: readonly Entry[]): Promise<BatchOutcome> {
  const counts = new CountChanges();
  const written: EventTuple[] = [];
  const events: EventTuple[] = [];
  const outcome = nothingWritten();
  const calls = new GatheredCalls(transaction, { counts, events, outcome });
  for (const entry of entries) {
    if (entry.kind === 'event') events.push(entry.event);
    else if (entry.kind === 'facts') calls.assign(entry);
    else if (entry.kind === 'recording') calls.record(entry.callId, entry.url);
    else if (entry.kind === 'dialog') calls.dialog(entry);
    else if (entry.kind === 'end') calls.end(entry);
    else if (entry.kind === 'begin') {
      calls.begin(entry);
      counts.begun(entry.row);
      events.push(entry.event);
      if (entry.admission === null) continue;
      // what ended before it gives back its place and its money; the call itself is among those that run, and a hold refers to its record
      if (isAsked(entry.admission)) await calls.write();
      outcome.admissions.push([entry.callId, await admission(transaction, entry)]);
    } else {
      await calls.write();
      await insertEvents(transaction, events);
      written.push(...events.splice(0));
      const late = await lateEvent(transaction, entry);
      if (late === undefined) continue;
      events.push(late.event);
      outcome.late.push(late);
    }
  }
  await calls.write();
  await insertEvents(transaction, events);
  written.push(...events);
  outcome.hasDeliveries = await addDeliveries(transaction, written.sort(bySequence));
  await counts.write(transaction);
  return outcome;
}

function bySequence(a: EventTuple, b: EventTuple): number {
  return a[2] - b[2];
}

export function nothingWritten(): BatchOutcome {
  return { admissions: [], closedElsewhere: [], settled: [], late: [], hasDeliveries: false };
}

export async function insertEvents(transaction: Transaction, events: readonly EventTuple[]): Promise<void> {
  await transaction.insertAll('call_events', eventColumns, events);
}

function isAsked({ concurrentCalls, rate }: AdmissionQuestion): boolean {
  return concurrentCalls !== null || rate !== null;
}

async function admission(transaction: Transaction, { callId, row, admission: asked }: BeginEntry): Promise<Admission> {
  if (asked?.concurrentCalls != null) {
    const { concurrentCalls } = asked;
    const running = await countRunning(transaction, { organizationId: row.organization_id, mode: row.mode });
    if (running > concurrentCalls) return { kind: 'full', concurrentCalls };
  }
  if (!asked?.rate) return { kind: 'admitted', fundedSec: null, heldMicrocents: 0 };
  return hold(transaction, callId, row.organization_id, asked.rate);
}

/** Numbered after what is written of the call. undefined: the call is gone, or runs in another process. */
async function lateEvent(
  transaction: Transaction,
  { callId, id, type, data, createdAtMs }: LateEventEntry,
): Promise<BatchOutcome['late'][number] | undefined> {
  const call = await transaction.row<{ organization_id: string; mode: Mode; last: number; at: number }>(
    `select organization_id, mode, (select max(sequence) from call_events where call_id = calls.id) as last,
       (select max(created_at) from call_events where call_id = calls.id) as at
     from calls where id = ? and status <> 'in_progress'`,
    callId,
  );
  if (call === undefined) return undefined;
  const event: EventTuple = [id, callId, call.last + 1, type, data, Math.max(call.at, createdAtMs)];
  return { event, organizationId: call.organization_id, mode: call.mode };
}

const eventColumns = ['id', 'call_id', 'sequence', 'event_type', 'event_data', 'created_at'];
