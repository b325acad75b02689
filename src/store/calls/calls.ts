import type { HangupCause } from '../../../sip/cause.js';
import type { LeftBehind } from '../../../sip/leg.js';
import { microcentsPerCent } from '../../billing/rate.js';
import type { Clock } from '../database/clock.js';
import type { Database } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import { newId } from '../database/ids.js';
import { Journal, type Write } from '../database/journal.js';
import type { StoreLog } from '../database/log.js';
import type { CallRow, Direction, HangupSource } from '../database/tables.js';
import type { Mode, Scope } from '../tenants/scope.js';
import type { CallTimings, QualityMetrics, QualitySample, TraceEntry, Turn } from './call-records.js';
import { EventFeed } from './event-feed.js';
import { type EventType, type FinalStatus, mayFollowTheEnd, terminalEvents } from './event-types.js';

export interface NewCall {
  /** A UUIDv7; generated if absent. */
  id?: string;
  organizationId: string;
  mode: Mode;
  direction: Direction;
  fromNumber: string;
  toNumber: string;
  phoneNumberId: string;
  endpointId: string | null;
  trunkId?: string | null;
  sipCallId?: string | null;
  metadata?: Record<string, unknown>;
  /** When the INVITE was received or the call was requested. Default: now. */
  createdAt?: Date;
  /** Additional data of `call.initiated`. */
  eventData?: Record<string, unknown>;
}

export interface CallEnd {
  status: FinalStatus;
  hangupCause: HangupCause;
  hangupSource: HangupSource;
  /** Default: now. */
  completedAt?: Date;
  /** Whole seconds from answer to end on the monotonic clock; 0 if never answered. */
  durationSec: number;
  costMicrocents?: number;
  ringSeconds?: number | null;
  quality?: QualityMetrics;
  /** The samples of every 5 seconds, oldest first. */
  qualitySamples?: readonly QualitySample[];
  timings?: CallTimings;
  turns?: Turn[];
  transcript?: string | null;
  trace?: TraceEntry[];
  /** Additional data of the terminal event beside cause, source and duration. */
  eventData?: Record<string, unknown>;
}

/** The in-memory state of a call whose events are numbered but not yet on disk. */
interface Progress {
  lastSequence: number;
  lastEventMs: number;
  ended: boolean;
  /** Whether the cost is settled at the end of the call. */
  rated: boolean;
  scope: Scope;
  /** The number of writes in the journal. */
  waiting: number;
}

/**
 * Writes the life of calls: `begin`, `event`s, `answered`, `finish`. All methods are synchronous and do not throw when the database is busy,
 * except `begin` when the memory queue is also full.
 */
export class Calls {
  private readonly journal: Journal;
  private readonly progress = new Map<string, Progress>();
  /** Events of the current transaction, to be published after its commit. */
  private readonly applied = new Map<string, () => void>();
  /** Publishes every event of this process after it is on disk. */
  readonly feed = new EventFeed();

  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly instanceId: string,
    private readonly log: StoreLog,
    /** Returns the cost of a call in micro-cents, null if it has no rate. Runs in the transaction of the call's end. */
    private readonly settle: (callId: string, durationSec: number) => number | null = () => null,
  ) {
    this.journal = new Journal({
      database,
      clock,
      onSettled: (writes) => {
        this.forgetEnded(writes);
        this.tellApplied();
      },
      onDropped: (write, error) =>
        log.error({ call_id: write.callId, err: error }, 'a record of a call could not be written'),
    });
  }

  /** Called when events are on disk, so that their deliveries can be sent. */
  onWritten: () => void = () => {};

  /** The number of queued writes; 0 when everything is on disk. */
  get unwritten(): number {
    return this.journal.size;
  }

  /**
   * Writes the row, `in_progress`, and `call.initiated` in one transaction: now, or within 20 ms together with other calls under load. Returns
   * the id of the call. Throws `StoreError` `unavailable` when the database has been locked or full for so long that the memory queue is full;
   * the call must then be rejected.
   */
  begin(call: NewCall): string {
    const id = call.id ?? newId();
    const createdMs = call.createdAt?.getTime() ?? this.clock.now();
    const progress: Progress = {
      lastSequence: 0,
      lastEventMs: createdMs,
      ended: false,
      rated: false,
      scope: { organizationId: call.organizationId, mode: call.mode },
      waiting: 0,
    };
    const insertRow = this.rowWrite(id, call, createdMs);
    const insertEvent = this.eventWrite(id, progress, 'call.initiated', {
      from_number: call.fromNumber,
      to_number: call.toNumber,
      direction: call.direction,
      ...call.eventData,
    });
    if (this.journal.full)
      throw new StoreError('unavailable', 'The database has been unavailable for too long; new calls are rejected');
    const write: Write = {
      callId: id,
      apply: () => {
        insertRow();
        insertEvent();
      },
    };
    if (this.database.inTransaction || this.journal.mayCommit()) this.beginNow(write, progress);
    else this.push(progress, write);
    this.progress.set(id, progress);
    return id;
  }

  /** Bypasses the journal, so that the caller gets an error for a row that the database rejects. */
  private beginNow(write: Write, progress: Progress): void {
    this.journal.flush({ wait: false }); // keep the order of events
    try {
      this.database.transaction(write.apply, { wait: this.journal.size === 0 });
      this.tellApplied();
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'unavailable') throw error;
      this.push(progress, write);
    }
  }

  /** Sets facts that are known only after the start. */
  assign(callId: string, facts: { endpointId?: string | null; trunkId?: string | null; sipCallId?: string }): void {
    const progress = this.progress.get(callId);
    if (!progress || progress.ended) return;
    this.update(callId, progress, {
      endpoint_id: facts.endpointId,
      trunk_id: facts.trunkId,
      sip_call_id: facts.sipCallId,
    });
  }

  /**
   * Numbers the event at once and writes it soon. Returns its sequence, or null if it is not accepted: the call has ended (only settlement,
   * recording, transcript and webhook events may follow), is unknown, or the queue is full.
   */
  event(callId: string, type: EventType, data: Record<string, unknown> = {}): number | null {
    if (this.journal.full) {
      this.log.error(
        { call_id: callId, event_type: type },
        'an event was dropped: the database has been unavailable for too long',
      );
      return null;
    }
    const progress = this.progress.get(callId) ?? this.recall(callId);
    if (!progress || (progress.ended && !mayFollowTheEnd(type))) return null;
    this.push(progress, { callId, apply: this.eventWrite(callId, progress, type, data) });
    return progress.lastSequence;
  }

  /** Stores a dialog of the call, or a pending INVITE, so that another process can end it after this one died. The latest snapshot of each SIP Call-ID applies. */
  dialog(callId: string, snapshot: LeftBehind): void {
    const progress = this.progress.get(callId);
    if (!progress || progress.ended) return;
    const dialog = JSON.stringify(snapshot);
    const sql =
      'insert into call_dialogs (call_id, sip_call_id, dialog) values (?, ?, ?) ' +
      'on conflict (call_id, sip_call_id) do update set dialog = excluded.dialog';
    const row = [callId, snapshot.callId, dialog];
    this.push(progress, { callId, apply: () => this.database.prepare(sql).run(...row) });
  }

  /** Writes that the 2xx was sent or received, before the media path is open, so that the call is billed if the process dies meanwhile. */
  pickedUp(callId: string, answeredAt: Date): void {
    const progress = this.progress.get(callId);
    if (progress && !progress.ended) this.update(callId, progress, { answered_at: answeredAt.getTime() });
  }

  /** Writes that the call is answered and its media path open, `latencyMs` after the INVITE, and `call.answered`. */
  answered(
    callId: string,
    answer: { answeredAt?: Date; latencyMs: number; eventData?: Record<string, unknown> },
  ): void {
    const progress = this.progress.get(callId);
    if (!progress || progress.ended) return;
    const answeredMs = answer.answeredAt?.getTime() ?? this.clock.now();
    const latencyMs = Math.max(0, Math.round(answer.latencyMs));
    const sql = "update calls set answered_at = ?, latency_ms = ? where id = ? and status = 'in_progress'";
    this.push(progress, { callId, apply: () => this.database.prepare(sql).run(answeredMs, latencyMs, callId) });
    this.event(callId, 'call.answered', { latency_ms: latencyMs, ...answer.eventData });
  }

  /** Sets the location of the recording, also after the end of the call. */
  recorded(callId: string, recordingUrl: string): void {
    const progress = this.progress.get(callId) ?? this.recall(callId);
    if (!progress) return;
    const query = this.database.sql.updateTable('calls').set({ recording_url: recordingUrl }).where('id', '=', callId);
    this.push(progress, { callId, apply: () => this.database.run(query) });
  }

  /** Marks the call to be settled at its end; `call.cost_settled` follows. */
  rated(callId: string): void {
    const progress = this.progress.get(callId);
    if (progress) progress.rated = true;
  }

  /**
   * Writes the end of the call: row, terminal event and trace, on disk now or within 20 ms. Only the first end applies; later ones return false
   * and change nothing. (A call closed by another instance is detected only by the write, which logs it.)
   */
  finish(callId: string, end: CallEnd): boolean {
    const progress = this.progress.get(callId);
    if (!progress || progress.ended) {
      this.log.warn({ call_id: callId, status: end.status, hangup_cause: end.hangupCause }, 'a call was ended twice');
      return false;
    }
    progress.ended = true;
    const completedMs = end.completedAt?.getTime() ?? this.clock.now();
    const updateRow = this.endWrite(callId, end, completedMs);
    const insertEvent = this.eventWrite(callId, progress, terminalEvents[end.status], {
      hangup_cause: end.hangupCause,
      hangup_source: end.hangupSource,
      duration: end.durationSec,
      ...end.eventData,
    });
    let cost = 0;
    const insertSettled = progress.rated
      ? this.eventWrite(callId, progress, 'call.cost_settled', () => ({
          cost: cost / microcentsPerCent,
          duration: end.durationSec,
        }))
      : null;
    let closedByUs = true;
    this.push(progress, {
      callId,
      apply: () => {
        closedByUs = updateRow();
        if (!closedByUs) {
          this.log.warn({ call_id: callId }, 'a call had been closed by another instance');
          return;
        }
        insertEvent();
        if (!insertSettled) return;
        cost = this.settle(callId, end.durationSec) ?? 0;
        this.database.prepare('update calls set cost_microcents = ? where id = ?').run(cost, callId);
        insertSettled();
      },
    });
    if (this.journal.mayCommit()) this.journal.flush();
    return closedByUs;
  }

  /** Writes everything queued to disk, for a following read; false if the database is not writable now. */
  flush(): boolean {
    return this.journal.flush();
  }

  close(): void {
    const lost = this.journal.close();
    if (lost > 0) this.log.error({ writes: lost }, 'records of calls are lost: the database stayed unavailable');
  }

  private tellApplied(): void {
    const told = [...this.applied.values()];
    this.applied.clear();
    for (const tell of told) tell();
    this.onWritten();
  }

  private push(progress: Progress, write: Write): void {
    progress.waiting += 1;
    this.journal.push(write);
  }

  private update(callId: string, progress: Progress, set: Partial<CallRow>): void {
    const query = this.database.sql
      .updateTable('calls')
      .set(set)
      .where('id', '=', callId)
      .where('status', '=', 'in_progress');
    this.push(progress, { callId, apply: () => this.database.run(query) });
  }

  private rowWrite(id: string, call: NewCall, createdMs: number): () => void {
    const row = [
      ...[id, call.organizationId, call.mode, this.instanceId, call.sipCallId ?? null, call.direction],
      ...[call.fromNumber, call.toNumber, call.phoneNumberId, call.endpointId, call.trunkId ?? null],
      ...[call.metadata ? JSON.stringify(call.metadata) : null, createdMs],
    ];
    return () => this.database.prepare(insertCall).run(...row);
  }

  private endWrite(callId: string, end: CallEnd, completedMs: number): () => boolean {
    const row = [
      ...[end.status, end.hangupCause, end.hangupSource, completedMs, Math.max(0, Math.floor(end.durationSec))],
      ...[end.costMicrocents ?? 0, end.ringSeconds ?? null, json(end.quality), json(end.timings), json(end.turns)],
      ...[end.transcript ?? null, callId],
    ];
    const trace = end.trace?.length ? JSON.stringify(end.trace) : null;
    const samples = end.qualitySamples?.length ? JSON.stringify(end.qualitySamples) : null;
    const run = (sql: string, ...values: unknown[]) => this.database.prepare(sql).run(...values).changes;
    return () => {
      if (run(endCall, ...row) !== 1) return false;
      run('delete from call_dialogs where call_id = ?', callId);
      if (trace) run('insert into call_traces (call_id, trace) values (?, ?)', callId, trace);
      if (samples) run('insert into call_quality (call_id, samples) values (?, ?)', callId, samples);
      return true;
    };
  }

  /** Takes the next number now and returns the write. Event times never decrease within a call, whatever the wall clock does. */
  private eventWrite(
    callId: string,
    progress: Progress,
    type: string,
    data: Record<string, unknown> | (() => Record<string, unknown>),
  ): () => void {
    progress.lastSequence += 1;
    progress.lastEventMs = Math.max(progress.lastEventMs, this.clock.now());
    const { lastSequence, lastEventMs } = progress;
    const id = newId();
    const known = typeof data === 'function' ? null : JSON.stringify(data);
    return () => {
      const text = known ?? JSON.stringify((data as () => Record<string, unknown>)());
      const row = [id, callId, lastSequence, type, text, lastEventMs];
      this.applied.set(id, () =>
        this.feed.tell(progress.scope, () => ({
          id,
          callId,
          sequence: lastSequence,
          type,
          data: JSON.parse(text) as Record<string, unknown>,
          createdAt: new Date(lastEventMs),
        })),
      );
      this.database
        .prepare(
          'insert into call_events (id, call_id, sequence, event_type, event_data, created_at) values (?, ?, ?, ?, ?, ?)',
        )
        .run(...row);
    };
  }

  /** Restores the numbering of an ended call that has left memory. A running call that is not in memory belongs to another process. */
  private recall(callId: string): Progress | undefined {
    const query = this.database.sql
      .selectFrom('calls')
      .innerJoin('call_events', 'call_events.call_id', 'calls.id')
      .select((is) => [
        'calls.organization_id',
        'calls.mode',
        is.fn.max('call_events.sequence').as('last'),
        is.fn.max('call_events.created_at').as('at'),
      ])
      .where('calls.id', '=', callId)
      .where('calls.status', '!=', 'in_progress')
      .groupBy('calls.id');
    try {
      const found = this.database.get(query);
      if (!found) return undefined;
      const progress: Progress = {
        lastSequence: found.last,
        lastEventMs: found.at,
        ended: true,
        rated: false,
        scope: { organizationId: found.organization_id, mode: found.mode },
        waiting: 0,
      };
      this.progress.set(callId, progress);
      return progress;
    } catch (error) {
      if (error instanceof StoreError) return undefined;
      throw error;
    }
  }

  /** Removes ended calls without queued writes from memory; late events restore their numbering. */
  private forgetEnded(writes: readonly Write[]): void {
    for (const { callId } of writes) {
      const progress = this.progress.get(callId);
      if (!progress) continue;
      progress.waiting -= 1;
      if (progress.ended && progress.waiting <= 0) this.progress.delete(callId);
    }
  }
}

const insertCall =
  'insert into calls (id, organization_id, mode, instance_id, sip_call_id, direction, from_number, to_number, phone_number_id, endpoint_id, ' +
  "trunk_id, metadata, created_at, status, duration_sec, cost_microcents, latency_ms) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'in_progress', 0, 0, 0)";
const endCall =
  'update calls set status = ?, hangup_cause = ?, hangup_source = ?, completed_at = ?, duration_sec = ?, cost_microcents = ?, ring_seconds = ?, ' +
  "quality = ?, timings = ?, turns = ?, transcript = ? where id = ? and status = 'in_progress'";

function json(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value);
}
