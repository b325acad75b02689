/** The rows of many calls, gathered in the order of their entries and written together: one statement for each table and kind of change. */
import { microcentsPerCent } from '../../billing/rate.js';
import type { RowChange, Transaction } from '../database/database.js';
import { settle } from '../tenants/holds.js';
import type { CountChanges, InsightCall } from './count-changes.js';
import type { BatchOutcome, BeginEntry, DialogEntry, EndEntry, EventTuple, FactsEntry } from './entries.js';

interface WrittenWith {
  counts: CountChanges;
  events: EventTuple[];
  outcome: BatchOutcome;
}

export class GatheredCalls {
  private begun: BeginEntry[] = [];
  private facts = new Map<string, FactsEntry['set']>();
  private recordings = new Map<string, string>();
  private dialogs = new Map<string, DialogEntry>();
  private ends = new Map<string, EndEntry>();

  constructor(
    private readonly transaction: Transaction,
    private readonly others: WrittenWith,
  ) {}

  begin(entry: BeginEntry): void {
    this.begun.push(entry);
  }

  /** A call that has ended keeps its facts. */
  assign({ callId, set }: FactsEntry): void {
    if (!this.ends.has(callId)) this.facts.set(callId, { ...this.facts.get(callId), ...set });
  }

  record(callId: string, url: string): void {
    this.recordings.set(callId, url);
  }

  dialog(entry: DialogEntry): void {
    if (!this.ends.has(entry.callId)) this.dialogs.set(`${entry.callId} ${entry.sipCallId}`, entry);
  }

  /** The first end counts. */
  end(entry: EndEntry): void {
    if (this.ends.has(entry.callId)) this.others.outcome.closedElsewhere.push(entry.callId);
    else this.ends.set(entry.callId, entry);
  }

  /** Writes what was gathered; events that follow from it are added to the others. */
  async write(): Promise<void> {
    const { transaction } = this;
    const begun = this.begun.splice(0).map(({ row }) => [...begunColumns.map((name) => row[name]), ...atTheBeginning]);
    await transaction.insertAll('calls', columnsOfBegun, begun);
    await this.writeFacts();
    await transaction.updateAll({ table: 'calls', key: 'id', set: ['recording_url'] }, taken(this.recordings));
    const dialogs = taken(this.dialogs).map(([, { callId, sipCallId, dialog }]) => [callId, sipCallId, dialog]);
    await transaction.insertAll('call_dialogs', ['call_id', 'sip_call_id', 'dialog'], dialogs, replacingDialog);
    const ends = taken(this.ends).map(([, entry]) => entry);
    if (ends.length > 0) await this.writeEnds(ends);
  }

  private async writeFacts(): Promise<void> {
    const byColumns = new Map<string, unknown[][]>();
    for (const [callId, set] of taken(this.facts)) {
      const given = Object.entries(set).filter(([, value]) => value !== undefined);
      const columns = given.map(([name]) => name).join();
      const rows = byColumns.get(columns) ?? [];
      rows.push([callId, ...given.map(([, value]) => value)]);
      if (given.length > 0) byColumns.set(columns, rows);
    }
    for (const [columns, rows] of byColumns)
      await this.transaction.updateAll({ table: 'calls', key: 'id', set: columns.split(','), where: isRunning }, rows);
  }

  private async writeEnds(entries: readonly EndEntry[]): Promise<void> {
    const { transaction, others } = this;
    const ended = await endRecords(transaction, entries);
    const written = entries.filter(({ callId }) => ended.has(callId));
    for (const { callId, row } of entries) {
      const counted = ended.get(callId);
      if (counted === undefined) others.outcome.closedElsewhere.push(callId);
      else others.counts.ended(counted, row.status);
    }
    const parts = (of: 'trace' | 'samples') =>
      written.flatMap((end) => (end[of] === null ? [] : [[end.callId, end[of]]]));
    await transaction.insertAll('call_traces', ['call_id', 'trace'], parts('trace'));
    await transaction.insertAll('call_quality', ['call_id', 'samples'], parts('samples'));
    const costs: [callId: string, microcents: number][] = [];
    for (const entry of written) {
      others.events.push(entry.event);
      if (entry.settled !== null) costs.push([entry.callId, await this.settled(entry, entry.settled)]);
    }
    await transaction.updateAll({ table: 'calls', key: 'id', set: ['cost_microcents'] }, costs);
  }

  private async settled({ callId, row, wentOnUnfunded }: EndEntry, told: EventTuple): Promise<number> {
    const cost = (await settle(this.transaction, callId, row.duration_sec, told[5], wentOnUnfunded)) ?? 0;
    const event: EventTuple = [...told];
    event[4] = JSON.stringify({ cost: cost / microcentsPerCent, duration: row.duration_sec });
    this.others.events.push(event);
    this.others.outcome.settled.push(event);
    return cost;
  }
}

/** Ends the records that are in progress; returns what is counted of each by its id. */
export async function endRecords(
  transaction: Transaction,
  ends: readonly Pick<EndEntry, 'callId' | 'row'>[],
): Promise<Map<string, InsightCall>> {
  const rows = ends.map(({ callId, row }) => [
    callId,
    ...[row.status, row.hangup_cause, row.hangup_source, row.completed_at, row.duration_sec, row.cost_microcents],
    ...[row.ring_seconds, row.quality, row.timings, row.turns, row.transcript],
  ]);
  const ended = await transaction.updateAll<InsightCall & { id: string }>(endCall, rows);
  const byId = new Map(ended.map((call) => [call.id, call]));
  await transaction.deleteAll('call_dialogs', 'call_id', [...byId.keys()]);
  return byId;
}

function taken<K, V>(map: Map<K, V>): [K, V][] {
  const entries = [...map];
  map.clear();
  return entries;
}

const isRunning = "status = 'in_progress'";
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
const replacingDialog = 'on conflict (call_id, sip_call_id) do update set dialog = excluded.dialog';
const endCall: RowChange = {
  table: 'calls',
  key: 'id',
  set: ['status', 'hangup_cause', 'hangup_source', 'completed_at', 'duration_sec', 'cost_microcents', 'ring_seconds'],
  setUnlessNull: ['quality', 'timings', 'turns', 'transcript'],
  where: isRunning,
  returning: [
    ...['id', 'organization_id', 'mode', 'phone_number_id', 'direction', 'created_at', 'endpoint_id', 'trunk_id'],
    ...['answered_at', 'quality', 'turns'],
  ],
};
