import { uuidv7 } from 'uuidv7';
import type { UnfinishedDialog } from '../../../sip/leg.js';
import { talkedSec } from '../../billing/duration.js';
import { microcentsPerCent } from '../../billing/rate.js';
import type { Database, Reads, Transaction } from '../database/database.js';
import type { CallRow, InstanceRow } from '../database/tables.js';
import { endRecord, insertEvents } from '../journal/apply-entries.js';
import { CountChanges } from '../journal/count-changes.js';
import type { EventTuple } from '../journal/entries.js';
import { addDeliveries } from '../routing/outbox.js';
import { settle } from '../tenants/holds.js';
import { terminalEvents } from './event-types.js';
import type { Instances } from './instances.js';

/** A call whose process died, now closed. */
export interface OrphanedCall {
  id: string;
  sipCallId: string | null;
  organizationId: string;
  /** Whether its recording has ended, complete or not. */
  recordingEnded: boolean;
  /** The dialogs with remote parties for which the call is still active. */
  dialogs: UnfinishedDialog[];
}

/**
 * Closes the records of dead processes: `failed`, `system_restart`, ended at the last heartbeat of the process. Calls of living processes are
 * not changed. Check and change are one transaction, so that two processes never close a call twice.
 */
export async function closeOrphans(database: Database, instances: Instances, nowMs: number): Promise<OrphanedCall[]> {
  // Usually there is nothing to do; check without a write lock first.
  if (!(await anythingToClose(database, instances))) return [];
  return database.transaction(async (transaction) => {
    const { sql } = transaction;
    const known = new Map((await transaction.all(sql.selectFrom('instances').selectAll())).map((row) => [row.id, row]));
    const counts = new CountChanges();
    const closed: OrphanedCall[] = [];
    for (const { instance_id: ownerId } of await ownersOfRunning(transaction)) {
      const owner = known.get(ownerId);
      const dead = owner ? instances.isDead(owner) : ownerId !== instances.id;
      if (!dead) continue;
      const calls = await transaction.all(
        sql.selectFrom('calls').selectAll().where('instance_id', '=', ownerId).where('status', '=', 'in_progress'),
      );
      for (const call of calls) closed.push(await closeOrphan(transaction, call, owner, counts, nowMs));
    }
    await counts.write(transaction);
    for (const row of known.values()) {
      if (!instances.isDead(row)) continue;
      await transaction.run(sql.deleteFrom('instances').where('id', '=', row.id));
      await transaction.run(sql.deleteFrom('journal_positions').where('instance_id', '=', row.id));
    }
    return closed;
  });
}

async function anythingToClose(database: Database, instances: Instances): Promise<boolean> {
  const rows = await database.all(database.sql.selectFrom('instances').selectAll());
  if (rows.some((row) => instances.isDead(row))) return true;
  const known = new Set([instances.id, ...rows.map((row) => row.id)]);
  return (await ownersOfRunning(database)).some((owner) => !known.has(owner.instance_id));
}

function ownersOfRunning(reads: Reads): Promise<{ instance_id: string }[]> {
  return reads.all(reads.sql.selectFrom('calls').select('instance_id').distinct().where('status', '=', 'in_progress'));
}

async function closeOrphan(
  transaction: Transaction,
  call: CallRow,
  owner: InstanceRow | undefined,
  counts: CountChanges,
  nowMs: number,
): Promise<OrphanedCall> {
  const { sql } = transaction;
  const last = await transaction.get(
    sql
      .selectFrom('call_events')
      .select((is) => [is.fn.max('sequence').as('sequence'), is.fn.max('created_at').as('at')])
      .where('call_id', '=', call.id),
  );
  const lastEventMs = last?.at ?? call.created_at;
  // Without a row of the owner, use the time of its last event.
  const completedMs = Math.max(owner?.heartbeat_at ?? lastEventMs, call.answered_at ?? call.created_at);
  const durationSec = call.answered_at === null ? 0 : talkedSec(completedMs - call.answered_at);
  const end = { hangup_cause: 'system_restart', hangup_source: 'system' } as const;
  const cost = await settle(transaction, call.id, durationSec, nowMs, false);
  const dialogs = await dialogsOf(transaction, call.id);
  const unknown = { ring_seconds: null, quality: null, timings: null, turns: null, transcript: null };
  const ended = await endRecord(transaction, call.id, {
    ...unknown,
    ...end,
    status: 'failed',
    completed_at: completedMs,
    duration_sec: durationSec,
    cost_microcents: cost ?? 0,
  });
  if (ended) counts.ended(ended, 'failed');
  let sequence = last?.sequence ?? 0;
  const event = (type: string, data: object): EventTuple => {
    sequence += 1;
    return [uuidv7(), call.id, sequence, type, JSON.stringify(data), Math.max(completedMs, lastEventMs)];
  };
  const events = [event(terminalEvents.failed, { ...end, duration: durationSec })];
  if (cost !== null) events.push(event('call.cost_settled', { cost: cost / microcentsPerCent, duration: durationSec }));
  await insertEvents(transaction, events);
  await addDeliveries(transaction, events);
  return {
    id: call.id,
    sipCallId: call.sip_call_id,
    organizationId: call.organization_id,
    recordingEnded: await recordingEnded(transaction, call.id),
    dialogs,
  };
}

/** Ignores recordings of webhook actions, which have an id. */
async function recordingEnded(reads: Reads, callId: string): Promise<boolean> {
  const ends = reads.sql
    .selectFrom('call_events')
    .select('event_data')
    .where('call_id', '=', callId)
    .where('event_type', 'in', ['recording.completed', 'recording.failed']);
  return (await reads.all(ends)).some((end) => !('recording_id' in JSON.parse(end.event_data)));
}

/** The caller must end them with the remote parties; they go with the record's end. */
async function dialogsOf(reads: Reads, callId: string): Promise<UnfinishedDialog[]> {
  const rows = await reads.all(reads.sql.selectFrom('call_dialogs').select('dialog').where('call_id', '=', callId));
  return rows.map((row) => JSON.parse(row.dialog) as UnfinishedDialog);
}
