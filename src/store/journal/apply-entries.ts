import type { Transaction } from '../database/database.js';
import { numberOrWait } from '../nodes/waiting-events.js';
import { addDeliveries } from '../routing/outbox.js';
import { hold } from '../tenants/holds.js';
import { CountChanges } from './count-changes.js';
import type { Admission, AdmissionQuestion, BatchOutcome, BeginEntry, Entry, EventTuple } from './entries.js';
import { GatheredCalls } from './gathered-calls.js';
import { insertEvents } from './insert-events.js';
import { countRunning } from './running-calls.js';

/** Writes what calls of this lease have to write, in the order of the entries, with its counters and its deliveries to webhooks. */
export async function applyEntries(
  transaction: Transaction,
  entries: readonly Entry[],
  instanceId: string,
): Promise<BatchOutcome> {
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
      const late = await numberOrWait(transaction, entry, instanceId);
      if (late === null) continue;
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
