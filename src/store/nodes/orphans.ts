import { uuidv7 } from 'uuidv7';
import type { UnfinishedDialog } from '../../../sip/leg.js';
import { talkedSec } from '../../billing/duration.js';
import { microcentsPerCent } from '../../billing/rate.js';
import { terminalEvents } from '../calls/event-types.js';
import type { Reads, Transaction } from '../database/database.js';
import type { StoreDatabase } from '../database/store-database.js';
import type { CallRow, InstanceRow } from '../database/tables.js';
import { CountChanges } from '../journal/count-changes.js';
import type { EventTuple } from '../journal/entries.js';
import { endRecords } from '../journal/gathered-calls.js';
import { insertEvents } from '../journal/insert-events.js';
import { addDeliveries } from '../routing/outbox.js';
import { settle } from '../tenants/holds.js';
import type { NodeLease, SeenInstance } from './lease.js';

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

export interface Judgement {
  database: StoreDatabase;
  lease: NodeLease;
  nowMs: number;
  /** A node that is dead beyond doubt. */
  deadId?: string | null;
}

/**
 * Closes the records of dead nodes: `failed`, `system_restart`, ended when the node was last heard of. Calls of living nodes are not changed:
 * the lease is ended first, so that a node that wakes meanwhile either renews it before, and is spared, or finds it gone and writes nothing.
 */
export async function closeOrphans(judgement: Judgement): Promise<OrphanedCall[]> {
  const { database, lease, nowMs } = judgement;
  // Usually there is nothing to do; check without a write lock first.
  if (!(await anythingToClose(judgement))) return [];
  return database.transaction(async (transaction) => {
    const { sql } = transaction;
    const counts = new CountChanges();
    const closed: OrphanedCall[] = [];
    const living = new Set([lease.id]);
    const dead = new Map<string, SeenInstance>();
    for (const row of await seenInstances(transaction, database)) {
      if (isDead(row, judgement) && (await endLease(transaction, row))) dead.set(row.id, row);
      else living.add(row.id);
    }
    for (const { instance_id: ownerId } of await ownersOfRunning(transaction)) {
      if (living.has(ownerId)) continue;
      const owner = dead.get(ownerId);
      const calls = await transaction.all(
        sql.selectFrom('calls').selectAll().where('instance_id', '=', ownerId).where('status', '=', 'in_progress'),
      );
      for (const call of calls) closed.push(await closeOrphan(transaction, call, owner, counts, nowMs));
    }
    await counts.write(transaction);
    return closed;
  });
}

async function anythingToClose(judgement: Judgement): Promise<boolean> {
  const { database, lease } = judgement;
  const rows = await seenInstances(database, database);
  if (rows.some((row) => isDead(row, judgement))) return true;
  const known = new Set([lease.id, ...rows.map((row) => row.id)]);
  return (await ownersOfRunning(database)).some((owner) => !known.has(owner.instance_id));
}

function isDead(row: SeenInstance, { lease, deadId }: Judgement): boolean {
  return row.id === deadId || lease.isDead(row);
}

function seenInstances(reads: Reads, database: StoreDatabase): Promise<SeenInstance[]> {
  return reads.all(reads.sql.selectFrom('instances').selectAll().select(database.nowSql().as('now')));
}

/** False if the node has renewed its lease meanwhile. */
async function endLease(transaction: Transaction, { id, heartbeat_at: seenMs }: SeenInstance): Promise<boolean> {
  const { sql } = transaction;
  const ended = sql.deleteFrom('instances').where('id', '=', id).where('heartbeat_at', '=', seenMs);
  if ((await transaction.run(ended)) === 0) return false;
  await transaction.run(sql.deleteFrom('journal_positions').where('instance_id', '=', id));
  return true;
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
  const row = {
    ...unknown,
    ...end,
    status: 'failed',
    completed_at: completedMs,
    duration_sec: durationSec,
    cost_microcents: cost ?? 0,
  } as const;
  const ended = (await endRecords(transaction, [{ callId: call.id, row }])).get(call.id);
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
