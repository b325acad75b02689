import type { HangupCause } from '../../../sip/cause.js';
import type { UnfinishedDialog } from '../../../sip/leg.js';
import type { Clock } from '../database/clock.js';
import type { Transaction } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import { newId } from '../database/ids.js';
import type { StoreLog } from '../database/log.js';
import type { StoredEvents } from '../database/store-database.js';
import type { Direction, HangupSource } from '../database/tables.js';
import { applyEntries } from '../journal/apply-entries.js';
import type { Admission, AdmissionQuestion, BeginEntry, Entry, EventTuple, FactsEntry } from '../journal/entries.js';
import { Journal } from '../journal/journal.js';
import type { BatchAnswer } from '../journal/writer-protocol.js';
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
  /** The call went on without a hold because none could be asked for: it is charged in full. */
  wentOnUnfunded?: boolean;
  /** Additional data of the terminal event beside cause, source and duration. */
  eventData?: Record<string, unknown>;
}

/** The in-memory state of a call with numbered events that are not yet on disk. */
interface Progress {
  lastSequence: number;
  lastEventMs: number;
  ended: boolean;
  /** Whether the cost is settled at the end of the call. */
  rated: boolean;
  scope: Scope;
  phoneNumberId: string;
  endpointId: string | null;
  /** The number of entries in the journal. */
  waiting: number;
}

/** A call that has begun, and the answer to what was asked of it. */
export interface BegunRecord {
  id: string;
  /** Resolves once the call is on disk. Rejects if the database rejects it for good, or its answer was lost. */
  admission: Promise<Admission>;
}

export interface CallsOptions {
  /** Writes under a lease of this node. */
  write(instanceId: string, number: number, entries: readonly Entry[]): Promise<BatchAnswer>;
  clock: Clock;
  /** The lease of this node. */
  instanceId: string;
  /** The events of all nodes; if absent, those of this process are published. */
  events?: StoredEvents | null;
  /** The lease is gone: what calls write waits until `continueUnder`. */
  onFenced?: () => void;
  log: StoreLog;
}

/**
 * Writes the life of calls: `begin`, `event`s, `answered`, `finish`. These number, order and decide at once, in memory, and wait for nothing;
 * everything goes through one journal to the thread that writes.
 */
export class Calls {
  private readonly journal: Journal;
  private readonly progress = new Map<string, Progress>();
  private readonly asked = new Map<string, { resolve(admission: Admission): void; reject(error: Error): void }>();
  /** Publishes events after they are on disk. */
  readonly feed: EventFeed;

  /** Calls that another node closed, and that still end here. */
  private readonly lost = new Set<string>();
  private instanceId: string;

  constructor(private readonly options: CallsOptions) {
    this.feed = new EventFeed(options.events ?? null);
    this.instanceId = options.instanceId;
    this.journal = new Journal({
      write: (number, entries) => options.write(this.instanceId, number, entries),
      clock: options.clock,
      onWritten: (entries, answer) => this.onBatch(entries, answer),
      onFenced: () => options.onFenced?.(),
    });
  }

  /** Called when deliveries to webhooks are on disk. */
  onWritten: () => void = () => {};

  /** The number of queued entries; 0 when everything is on disk. */
  get unwritten(): number {
    return this.journal.size;
  }

  /**
   * Numbers the call and queues its row, `in_progress`, and `call.initiated`. Returns the id. Throws `StoreError` `unavailable` when the database
   * has been locked or full for so long that the queue is full; the call must then be rejected.
   */
  begin(call: NewCall): string {
    return this.beginEntry(call, null).callId;
  }

  /** `begin`, and in the same transaction the organization's cap on calls and its balance. */
  beginAdmitted(call: NewCall, question: AdmissionQuestion): BegunRecord {
    const { callId: id } = this.beginEntry(call, question);
    const admission = new Promise<Admission>((resolve, reject) => this.asked.set(id, { resolve, reject }));
    admission.catch(() => {}); // a call that ended meanwhile does not wait for it
    return { id, admission };
  }

  /** `begin` as a part of a transaction. The call is known once `committed` was called, after the commit. */
  async beginWithin(
    transaction: Transaction,
    call: NewCall,
    question: AdmissionQuestion,
  ): Promise<{ id: string; admission: Admission; committed(): void }> {
    const { entry, progress } = this.prepare(call, question);
    if ((await transaction.row('select 1 from instances where id = ?', this.instanceId)) === undefined)
      throw new StoreError('unavailable', 'This node lost its lease; it begins a new one');
    const { admissions, hasDeliveries } = await applyEntries(transaction, [entry], this.instanceId);
    const admission = admissions[0]?.[1];
    if (admission === undefined) throw new Error('the admission of a call was not answered');
    progress.rated = question.rate !== null && admission.kind === 'admitted';
    const committed = () => {
      this.progress.set(entry.callId, progress);
      this.feed.tell(progress.scope, () => told(entry.event));
      if (hasDeliveries) this.onWritten();
    };
    return { id: entry.callId, admission, committed };
  }

  /** Whose a running call of this process is, and what it was routed to. */
  ownerOf(callId: string): (Scope & { phoneNumberId: string; endpointId: string | null }) | undefined {
    const progress = this.progress.get(callId);
    return progress && { ...progress.scope, phoneNumberId: progress.phoneNumberId, endpointId: progress.endpointId };
  }

  /** The number of a running call of this process. */
  phoneNumberOf(callId: string): string | undefined {
    return this.progress.get(callId)?.phoneNumberId;
  }

  /** Sets facts that are known only after the start. */
  assign(callId: string, facts: { endpointId?: string | null; trunkId?: string | null; sipCallId?: string }): void {
    const progress = this.progress.get(callId);
    if (progress && facts.endpointId !== undefined) progress.endpointId = facts.endpointId;
    this.facts(callId, { endpoint_id: facts.endpointId, trunk_id: facts.trunkId, sip_call_id: facts.sipCallId });
  }

  /**
   * Numbers the event at once and queues it. Returns its sequence; 'later' for a call that ended and left memory, whose events the database
   * numbers; null if it is not accepted: the call has ended (only settlement, recording, transcript and webhook events may follow), is
   * unknown, or the queue is full.
   */
  event(callId: string, type: EventType, data: Record<string, unknown> = {}): number | 'later' | null {
    if (this.journal.full) {
      this.options.log.error(
        { call_id: callId, event_type: type },
        'an event was dropped: the database has been unavailable for too long',
      );
      return null;
    }
    const progress = this.progress.get(callId);
    if (progress === undefined) {
      if (!mayFollowTheEnd(type)) return null;
      const text = JSON.stringify(data);
      this.journal.push({ kind: 'late', callId, id: newId(), type, data: text, createdAtMs: this.options.clock.now() });
      return 'later';
    }
    if (progress.ended && !mayFollowTheEnd(type)) return null;
    this.push(progress, { kind: 'event', callId, event: this.numbered(callId, progress, type, JSON.stringify(data)) });
    return progress.lastSequence;
  }

  /** Stores a dialog of the call, or a pending INVITE, so that another process can end it after this one died. The latest snapshot of each SIP Call-ID applies. */
  dialog(callId: string, snapshot: UnfinishedDialog): void {
    const progress = this.progress.get(callId);
    if (!progress || progress.ended) return;
    const { callId: sipCallId } = snapshot;
    this.push(progress, { kind: 'dialog', callId, sipCallId, dialog: JSON.stringify(snapshot) });
  }

  /** Writes that the 2xx was sent or received, before the media path is open, so that the call is billed if the process dies meanwhile. */
  pickedUp(callId: string, answeredAt: Date): void {
    this.facts(callId, { answered_at: answeredAt.getTime() });
  }

  /** Writes that the call is answered and its media path open, `latencyMs` after the INVITE, and `call.answered`. */
  answered(
    callId: string,
    answer: { answeredAt?: Date; latencyMs: number; eventData?: Record<string, unknown> },
  ): void {
    const answeredMs = answer.answeredAt?.getTime() ?? this.options.clock.now();
    const latencyMs = Math.max(0, Math.round(answer.latencyMs));
    if (this.facts(callId, { answered_at: answeredMs, latency_ms: latencyMs }))
      this.event(callId, 'call.answered', { latency_ms: latencyMs, ...answer.eventData });
  }

  /** Sets the location of the recording, also after the end of the call. */
  recorded(callId: string, recordingUrl: string): void {
    const entry = { kind: 'recording', callId, url: recordingUrl } as const;
    const progress = this.progress.get(callId);
    if (progress) this.push(progress, entry);
    else this.journal.push(entry);
  }

  /**
   * Queues the end of the call: row, terminal event and trace. Only the first end applies; later ones return false and change nothing. (A call
   * closed by another instance is detected only by the write, which logs it.)
   */
  finish(callId: string, end: CallEnd): boolean {
    const progress = this.progress.get(callId);
    if (!progress && this.lost.delete(callId)) return false;
    if (!progress || progress.ended) {
      this.options.log.warn(
        { call_id: callId, status: end.status, hangup_cause: end.hangupCause },
        'a call was ended twice',
      );
      return false;
    }
    progress.ended = true;
    const completedMs = end.completedAt?.getTime() ?? this.options.clock.now();
    const data = {
      hangup_cause: end.hangupCause,
      hangup_source: end.hangupSource,
      duration: end.durationSec,
      ...end.eventData,
    };
    const event = this.numbered(callId, progress, terminalEvents[end.status], JSON.stringify(data));
    this.push(progress, {
      kind: 'end',
      callId,
      row: {
        status: end.status,
        hangup_cause: end.hangupCause,
        hangup_source: end.hangupSource,
        completed_at: completedMs,
        duration_sec: Math.max(0, Math.floor(end.durationSec)),
        cost_microcents: end.costMicrocents ?? 0,
        ring_seconds: end.ringSeconds ?? null,
        quality: json(end.quality),
        timings: json(end.timings),
        turns: json(end.turns),
        transcript: end.transcript ?? null,
      },
      event,
      settled: progress.rated ? this.numbered(callId, progress, 'call.cost_settled', '{}') : null,
      wentOnUnfunded: end.wentOnUnfunded ?? false,
      trace: end.trace?.length ? JSON.stringify(end.trace) : null,
      samples: end.qualitySamples?.length ? JSON.stringify(end.qualitySamples) : null,
    });
    return true;
  }

  /** Nothing is written until `continueUnder`. Resolves with the calls whose beginning is not known to be written. */
  async fence(): Promise<string[]> {
    const waiting = await this.journal.fence();
    return waiting.flatMap(({ kind, callId }) => (kind === 'begin' ? [callId] : []));
  }

  /**
   * Goes on under another lease: this node's calls were closed by another node, but for the `unwritten` ones, which no other node has ever seen.
   * Of the others nothing is written any more, except what may follow the end. Returns the ids of those that run here still.
   */
  continueUnder(instanceId: string, unwritten: ReadonlySet<string>): string[] {
    this.instanceId = instanceId;
    const lost: string[] = [];
    for (const [callId, { ended }] of this.progress) {
      if (unwritten.has(callId)) continue;
      this.progress.delete(callId);
      this.asked.get(callId)?.reject(new Error('the call was closed by another node'));
      this.asked.delete(callId);
      if (ended) continue;
      this.lost.add(callId);
      lost.push(callId);
    }
    const dropped = this.journal.resume((entry) => {
      if (entry.kind === 'late' || entry.kind === 'recording') return entry;
      if (!unwritten.has(entry.callId)) return entry.kind === 'event' ? asLate(entry.event) : null;
      return entry.kind === 'begin' ? { ...entry, row: { ...entry.row, instance_id: instanceId } } : entry;
    });
    if (dropped > 0)
      this.options.log.warn({ writes: dropped }, 'records of calls that another node had closed were dropped');
    return lost;
  }

  /** Publishes events of calls of other processes, once they have their numbers, and starts their deliveries. */
  publishLate(events: BatchAnswer['late']): void {
    if (events.length === 0) return;
    this.tellLate(events);
    this.onWritten();
  }

  /** Resolves when everything queued before is on disk: true; false if the database takes too long. */
  flush(): Promise<boolean> {
    return this.journal.flush();
  }

  /** `flush`, if this call has anything queued or is not known to this process. */
  flushCall(callId: string): Promise<boolean> {
    return this.progress.get(callId)?.waiting === 0 ? Promise.resolve(true) : this.journal.flush();
  }

  async close(): Promise<void> {
    const lost = await this.journal.close();
    if (lost > 0)
      this.options.log.error({ writes: lost }, 'records of calls are lost: the database stayed unavailable');
  }

  private beginEntry(call: NewCall, question: AdmissionQuestion | null): BeginEntry {
    if (this.journal.full)
      throw new StoreError('unavailable', 'The database has been unavailable for too long; new calls are rejected');
    const { entry, progress } = this.prepare(call, question);
    this.progress.set(entry.callId, progress);
    this.push(progress, entry);
    return entry;
  }

  private prepare(call: NewCall, admission: AdmissionQuestion | null): { entry: BeginEntry; progress: Progress } {
    const id = call.id ?? newId();
    const createdMs = call.createdAt?.getTime() ?? this.options.clock.now();
    const progress: Progress = {
      lastSequence: 0,
      lastEventMs: createdMs,
      ended: false,
      rated: admission !== null && admission.rate !== null,
      scope: { organizationId: call.organizationId, mode: call.mode },
      phoneNumberId: call.phoneNumberId,
      endpointId: call.endpointId,
      waiting: 0,
    };
    const data = {
      from_number: call.fromNumber,
      to_number: call.toNumber,
      direction: call.direction,
      ...call.eventData,
    };
    const row = {
      id,
      organization_id: call.organizationId,
      mode: call.mode,
      instance_id: this.instanceId,
      sip_call_id: call.sipCallId ?? null,
      direction: call.direction,
      from_number: call.fromNumber,
      to_number: call.toNumber,
      phone_number_id: call.phoneNumberId,
      endpoint_id: call.endpointId,
      trunk_id: call.trunkId ?? null,
      metadata: call.metadata ? JSON.stringify(call.metadata) : null,
      created_at: createdMs,
    };
    const event = this.numbered(id, progress, 'call.initiated', JSON.stringify(data));
    return { entry: { kind: 'begin', callId: id, row, event, admission }, progress };
  }

  /** Whether the call runs here. */
  private facts(callId: string, set: FactsEntry['set']): boolean {
    const progress = this.progress.get(callId);
    if (!progress || progress.ended) return false;
    this.push(progress, { kind: 'facts', callId, set });
    return true;
  }

  private push(progress: Progress, entry: Entry): void {
    progress.waiting += 1;
    this.journal.push(entry);
  }

  /** Takes the next number. Event times never decrease within a call, whatever the wall clock does. */
  private numbered(callId: string, progress: Progress, type: string, data: string): EventTuple {
    progress.lastSequence += 1;
    progress.lastEventMs = Math.max(progress.lastEventMs, this.options.clock.now());
    return [newId(), callId, progress.lastSequence, type, data, progress.lastEventMs];
  }

  private onBatch(entries: readonly Entry[], answer: BatchAnswer): void {
    const dropped = new Map(answer.dropped.map(({ index, message }) => [index, message]));
    for (const [index, message] of dropped) {
      const { callId, kind } = entries[index] as Entry;
      this.options.log.error({ call_id: callId, entry: kind, message }, 'a record of a call could not be written');
    }
    for (const callId of answer.closedElsewhere)
      this.options.log.warn({ call_id: callId }, 'a call had been closed by another instance');
    this.answerAdmissions(entries, answer, dropped);
    this.publish(entries, answer, dropped);
    this.forgetEnded(entries);
    if (answer.hasDeliveries) this.onWritten();
  }

  private answerAdmissions(
    entries: readonly Entry[],
    { admissions }: BatchAnswer,
    dropped: ReadonlyMap<number, string>,
  ): void {
    const answered = new Map(admissions);
    for (const [index, { kind, callId }] of entries.entries()) {
      const asker = kind === 'begin' ? this.asked.get(callId) : undefined;
      if (asker === undefined) continue;
      this.asked.delete(callId);
      const admission = answered.get(callId);
      const progress = this.progress.get(callId);
      if (admission !== undefined) {
        if (progress && !progress.ended && admission.kind !== 'admitted') progress.rated = false;
        asker.resolve(admission);
      } else asker.reject(new Error(dropped.get(index) ?? 'the answer of the database was lost'));
    }
  }

  /** To subscribers, in order; only what is on disk. */
  private publish(entries: readonly Entry[], answer: BatchAnswer, dropped: ReadonlyMap<number, string>): void {
    if (this.feed.isEmpty) return;
    const settled = new Map(answer.settled.map((event) => [event[1], event]));
    for (const [index, entry] of entries.entries()) {
      if (dropped.has(index) || !('event' in entry)) continue;
      const isEnd = entry.kind === 'end';
      if (isEnd && answer.closedElsewhere.includes(entry.callId)) continue;
      const scope = this.progress.get(entry.callId)?.scope;
      if (scope === undefined) continue;
      this.feed.tell(scope, () => told(entry.event));
      const ofEnd = isEnd ? settled.get(entry.callId) : undefined;
      if (ofEnd) this.feed.tell(scope, () => told(ofEnd));
    }
    this.tellLate(answer.late);
  }

  private tellLate(events: BatchAnswer['late']): void {
    for (const { event, organizationId, mode } of events) this.feed.tell({ organizationId, mode }, () => told(event));
  }

  /** Removes ended calls without queued entries from memory; the database numbers later events. */
  private forgetEnded(entries: readonly Entry[]): void {
    for (const { callId } of entries) {
      const progress = this.progress.get(callId);
      if (!progress) continue;
      progress.waiting -= 1;
      if (progress.ended && progress.waiting <= 0) this.progress.delete(callId);
    }
  }
}

function told([id, callId, sequence, type, data, createdAtMs]: EventTuple) {
  return {
    id,
    callId,
    sequence,
    type,
    data: JSON.parse(data) as Record<string, unknown>,
    createdAt: new Date(createdAtMs),
  };
}

function asLate([id, callId, , type, data, createdAtMs]: EventTuple): Entry | null {
  return mayFollowTheEnd(type as EventType) ? { kind: 'late', callId, id, type, data, createdAtMs } : null;
}

function json(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value);
}
