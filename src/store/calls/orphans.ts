import { uuidv7 } from 'uuidv7';
import type { LeftBehind } from '../../../sip/leg.js';
import { talkedSec } from '../../billing/duration.js';
import { microcentsPerCent } from '../../billing/rate.js';
import type { Database } from '../database/database.js';
import type { CallRow, InstanceRow } from '../database/tables.js';
import { terminalEvents } from './event-types.js';
import type { Instances } from './instances.js';

/** Returns the cost of a call of this length in micro-cents; null if it has no rate. */
type Settle = (callId: string, durationSec: number) => number | null;

/** A call whose process died, now closed. */
export interface OrphanedCall {
  id: string;
  sipCallId: string | null;
  organizationId: string;
  /** Whether its recording has ended, complete or not. */
  recordingEnded: boolean;
  /** The dialogs with remote parties for which the call is still active. */
  dialogs: LeftBehind[];
}

/**
 * Closes the records of dead processes: `failed`, `system_restart`, ended at the last heartbeat of the process. Calls of living processes are
 * not changed. Check and change are one transaction, so that two processes never close a call twice.
 */
export function closeOrphans(database: Database, instances: Instances, settle: Settle): OrphanedCall[] {
  const { sql } = database;
  // Usually there is nothing to do; check without a write lock first.
  if (!anythingToClose(database, instances)) return [];
  return database.transaction(() => {
    const known = new Map(database.all(sql.selectFrom('instances').selectAll()).map((row) => [row.id, row]));
    const owners = database.all(
      sql.selectFrom('calls').select('instance_id').distinct().where('status', '=', 'in_progress'),
    );
    const closed: OrphanedCall[] = [];
    for (const { instance_id: ownerId } of owners) {
      const owner = known.get(ownerId);
      const dead = owner ? instances.isDead(owner) : ownerId !== instances.id;
      if (!dead) continue;
      const calls = database.all(
        sql.selectFrom('calls').selectAll().where('instance_id', '=', ownerId).where('status', '=', 'in_progress'),
      );
      for (const call of calls) closed.push(closeOrphan(database, call, owner, settle));
    }
    for (const row of known.values()) {
      if (instances.isDead(row)) database.run(sql.deleteFrom('instances').where('id', '=', row.id));
    }
    return closed;
  });
}

function anythingToClose(database: Database, instances: Instances): boolean {
  const { sql } = database;
  const rows = database.all(sql.selectFrom('instances').selectAll());
  if (rows.some((row) => instances.isDead(row))) return true;
  const known = new Set([instances.id, ...rows.map((row) => row.id)]);
  const owners = database.all(
    sql.selectFrom('calls').select('instance_id').distinct().where('status', '=', 'in_progress'),
  );
  return owners.some((owner) => !known.has(owner.instance_id));
}

function closeOrphan(database: Database, call: CallRow, owner: InstanceRow | undefined, settle: Settle): OrphanedCall {
  const { sql } = database;
  const last = database.get(
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
  const cost = settle(call.id, durationSec);
  database.run(
    sql
      .updateTable('calls')
      .set({
        status: 'failed',
        ...end,
        completed_at: completedMs,
        duration_sec: durationSec,
        cost_microcents: cost ?? 0,
      })
      .where('id', '=', call.id),
  );
  let sequence = last?.sequence ?? 0;
  const addEvent = (type: string, data: object): void => {
    sequence += 1;
    database.run(
      sql.insertInto('call_events').values({
        id: uuidv7(),
        call_id: call.id,
        sequence,
        event_type: type,
        event_data: JSON.stringify(data),
        created_at: Math.max(completedMs, lastEventMs),
      }),
    );
  };
  addEvent(terminalEvents.failed, { ...end, duration: durationSec });
  if (cost !== null) addEvent('call.cost_settled', { cost: cost / microcentsPerCent, duration: durationSec });
  return {
    id: call.id,
    sipCallId: call.sip_call_id,
    organizationId: call.organization_id,
    recordingEnded: recordingEnded(database, call.id),
    dialogs: takeDialogs(database, call.id),
  };
}

/** Ignores recordings of webhook actions, which have an id. */
function recordingEnded(database: Database, callId: string): boolean {
  const ends = database.sql
    .selectFrom('call_events')
    .select('event_data')
    .where('call_id', '=', callId)
    .where('event_type', 'in', ['recording.completed', 'recording.failed']);
  return database.all(ends).some((end) => !('recording_id' in JSON.parse(end.event_data)));
}

/** Removes and returns the dialogs; the caller must end them with the remote parties. */
function takeDialogs(database: Database, callId: string): LeftBehind[] {
  const { sql } = database;
  const rows = database.all(sql.selectFrom('call_dialogs').select('dialog').where('call_id', '=', callId));
  if (rows.length > 0) database.run(sql.deleteFrom('call_dialogs').where('call_id', '=', callId));
  return rows.map((row) => JSON.parse(row.dialog) as LeftBehind);
}
