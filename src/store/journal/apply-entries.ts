import { microcentsPerCent } from '../../billing/rate.js';
import type { Transaction } from '../database/database.js';
import { addDeliveries } from '../routing/outbox.js';
import { hold, settle } from '../tenants/holds.js';
import type { Mode } from '../tenants/scope.js';
import { CountChanges, type InsightCall } from './count-changes.js';
import type {
  Admission,
  AdmissionQuestion,
  BatchOutcome,
  BeginEntry,
  EndEntry,
  Entry,
  EventTuple,
  FactsEntry,
  LateEventEntry,
} from './entries.js';

/** Writes what calls have to write, in the order of the entries, with its counters and its deliveries to webhooks. */
export async function applyEntries(transaction: Transaction, entries: readonly Entry[]): Promise<BatchOutcome> {
  const counts = new CountChanges();
  const written: EventTuple[] = [];
  const events: EventTuple[] = [];
  const outcome = nothingWritten();
  const begun = new BegunCalls(transaction);
  for (const entry of entries) {
    if (entry.kind === 'event') {
      events.push(entry.event);
      continue;
    }
    if (entry.kind === 'begin') {
      begun.add(entry);
      counts.begun(entry.row);
      events.push(entry.event);
      if (entry.admission === null) continue;
      if (isAsked(entry.admission)) await begun.write();
      outcome.admissions.push([entry.callId, await admission(transaction, entry)]);
      continue;
    }
    await begun.write();
    if (entry.kind === 'late') {
      await insertEvents(transaction, events);
      written.push(...events.splice(0));
      const late = await lateEvent(transaction, entry);
      if (late === undefined) continue;
      events.push(late.event);
      outcome.late.push(late);
    } else if (entry.kind === 'facts') await assign(transaction, entry);
    else if (entry.kind === 'recording')
      await transaction.write('update calls set recording_url = ? where id = ?', entry.url, entry.callId);
    else if (entry.kind === 'dialog')
      await transaction.write(upsertDialog, entry.callId, entry.sipCallId, entry.dialog);
    else await end(transaction, entry, { counts, events, outcome });
  }
  await begun.write();
  await insertEvents(transaction, events);
  written.push(...events);
  outcome.hasDeliveries = await addDeliveries(transaction, written);
  await counts.write(transaction);
  return outcome;
}

export function nothingWritten(): BatchOutcome {
  return { admissions: [], closedElsewhere: [], settled: [], late: [], hasDeliveries: false };
}

export async function insertEvents(transaction: Transaction, events: readonly EventTuple[]): Promise<void> {
  await transaction.insertAll('call_events', eventColumns, events);
}

/** Ends the record if it is in progress; returns what is counted of it, undefined if it had ended before. */
export async function endRecord(
  transaction: Transaction,
  callId: string,
  row: EndEntry['row'],
): Promise<InsightCall | undefined> {
  const ended = await transaction.row<InsightCall>(
    endCall,
    ...[row.status, row.hangup_cause, row.hangup_source, row.completed_at, row.duration_sec, row.cost_microcents],
    ...[row.ring_seconds, row.quality, row.timings, row.turns, row.transcript, callId],
  );
  if (ended) await transaction.write('delete from call_dialogs where call_id = ?', callId);
  return ended;
}

/** Calls that have begun, and are added together unless an entry between needs one of them. */
class BegunCalls {
  private entries: BeginEntry[] = [];

  constructor(private readonly transaction: Transaction) {}

  add(entry: BeginEntry): void {
    this.entries.push(entry);
  }

  async write(): Promise<void> {
    const rows = this.entries
      .splice(0)
      .map(({ row }) => [...begunColumns.map((column) => row[column]), ...atTheBeginning]);
    if (rows.length > 0) await this.transaction.insertAll('calls', columnsOfBegun, rows);
  }
}

function isAsked({ concurrentCalls, rate }: AdmissionQuestion): boolean {
  return concurrentCalls !== null || rate !== null;
}

/** After the insertion: the call itself is among those that run, and a hold refers to its record. */
async function admission(transaction: Transaction, { callId, row, admission: asked }: BeginEntry): Promise<Admission> {
  if (asked?.concurrentCalls != null) {
    const { concurrentCalls } = asked;
    const counted = await transaction.row<{ running: number }>(countRunning, row.organization_id, row.mode);
    if ((counted?.running ?? 0) > concurrentCalls) return { kind: 'full', concurrentCalls };
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

async function assign(transaction: Transaction, { callId, set }: FactsEntry): Promise<void> {
  const columns = Object.keys(set).filter((column) => set[column as keyof typeof set] !== undefined);
  if (columns.length === 0) return;
  const values = columns.map((column) => set[column as keyof typeof set]);
  const assignments = columns.map((column) => `${column} = ?`).join(', ');
  await transaction.write(
    `update calls set ${assignments} where id = ? and status = 'in_progress'`,
    ...[...values, callId],
  );
}

async function end(
  transaction: Transaction,
  entry: EndEntry,
  { counts, events, outcome }: { counts: CountChanges; events: EventTuple[]; outcome: BatchOutcome },
): Promise<void> {
  const { callId, row, trace, samples, settled } = entry;
  const ended = await endRecord(transaction, callId, row);
  if (ended === undefined) {
    outcome.closedElsewhere.push(callId);
    return;
  }
  counts.ended(ended, row.status);
  events.push(entry.event);
  if (trace !== null) await transaction.write('insert into call_traces (call_id, trace) values (?, ?)', callId, trace);
  if (samples !== null)
    await transaction.write('insert into call_quality (call_id, samples) values (?, ?)', callId, samples);
  if (settled === null) return;
  const cost = (await settle(transaction, callId, row.duration_sec, settled[5], entry.wentOnUnfunded)) ?? 0;
  await transaction.write('update calls set cost_microcents = ? where id = ?', cost, callId);
  const data = JSON.stringify({ cost: cost / microcentsPerCent, duration: row.duration_sec });
  const event: EventTuple = [...settled];
  event[4] = data;
  events.push(event);
  outcome.settled.push(event);
}

const begunColumns = [
  ...([
    'id',
    'organization_id',
    'mode',
    'instance_id',
    'sip_call_id',
    'direction',
    'from_number',
    'to_number',
  ] as const),
  ...(['phone_number_id', 'endpoint_id', 'trunk_id', 'metadata', 'created_at'] as const),
];
const columnsOfBegun = [...begunColumns, 'status', 'duration_sec', 'cost_microcents', 'latency_ms'];
const atTheBeginning = ['in_progress', 0, 0, 0];
const eventColumns = ['id', 'call_id', 'sequence', 'event_type', 'event_data', 'created_at'];
const endCall =
  'update calls set status = ?, hangup_cause = ?, hangup_source = ?, completed_at = ?, duration_sec = ?, cost_microcents = ?, ring_seconds = ?, ' +
  "quality = coalesce(?, quality), timings = coalesce(?, timings), turns = coalesce(?, turns), transcript = coalesce(?, transcript) where id = ? and status = 'in_progress' " +
  'returning organization_id, mode, phone_number_id, direction, created_at, endpoint_id, trunk_id, answered_at, quality, turns';
const countRunning =
  "select count(*) as running from calls where organization_id = ? and mode = ? and status = 'in_progress'";
const upsertDialog =
  'insert into call_dialogs (call_id, sip_call_id, dialog) values (?, ?, ?) ' +
  'on conflict (call_id, sip_call_id) do update set dialog = excluded.dialog';
