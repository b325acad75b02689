/** What a call writes. Entries are made on the thread of calls and applied, many at once, by the thread that writes. */
import type { CallStatus } from '../../../sip/cause.js';
import type { Rate } from '../../billing/rate.js';
import type { CallRow, Direction, HangupSource } from '../database/tables.js';
import type { Mode } from '../tenants/scope.js';

/** A row of `call_events`. */
export type EventTuple = [
  id: string,
  callId: string,
  sequence: number,
  type: string,
  /** JSON. */
  data: string,
  createdAtMs: number,
];

/** The columns that a call begins with. */
export type BegunCallRow = Pick<
  CallRow,
  | 'id'
  | 'organization_id'
  | 'mode'
  | 'instance_id'
  | 'sip_call_id'
  | 'direction'
  | 'from_number'
  | 'to_number'
  | 'phone_number_id'
  | 'endpoint_id'
  | 'trunk_id'
  | 'metadata'
  | 'created_at'
>;

/** What has to be asked before a call may be connected. */
export interface AdmissionQuestion {
  /** The organization's cap on calls at once, this one included; null: none. */
  concurrentCalls: number | null;
  /** What the call costs; null: nothing. */
  rate: Rate | null;
}

export type Admission =
  /** `fundedSec` null: the organization is not metered, or the call costs nothing. */
  | { kind: 'admitted'; fundedSec: number | null; heldMicrocents: number }
  | { kind: 'full'; concurrentCalls: number }
  | { kind: 'no_balance'; balanceMicrocents: number; requiredMicrocents: number };

export interface BeginEntry {
  kind: 'begin';
  callId: string;
  row: BegunCallRow;
  event: EventTuple;
  admission: AdmissionQuestion | null;
}

export interface EventEntry {
  kind: 'event';
  callId: string;
  event: EventTuple;
}

/** An event of a call that had ended and is no longer in memory: the database numbers it. */
export interface LateEventEntry {
  kind: 'late';
  callId: string;
  id: string;
  type: string;
  /** JSON. */
  data: string;
  createdAtMs: number;
}

/** Facts of a running call. */
export interface FactsEntry {
  kind: 'facts';
  callId: string;
  set: Partial<Pick<CallRow, 'endpoint_id' | 'trunk_id' | 'sip_call_id' | 'answered_at' | 'latency_ms'>>;
}

export interface RecordingUrlEntry {
  kind: 'recording';
  callId: string;
  url: string;
}

export interface DialogEntry {
  kind: 'dialog';
  callId: string;
  sipCallId: string;
  /** JSON. */
  dialog: string;
}

export type EndedCallRow = Pick<
  CallRow,
  'duration_sec' | 'cost_microcents' | 'ring_seconds' | 'quality' | 'timings' | 'turns' | 'transcript' | 'hangup_cause'
> & { status: Exclude<CallStatus, 'in_progress'>; hangup_source: HangupSource | null; completed_at: number };

export interface EndEntry {
  kind: 'end';
  callId: string;
  row: EndedCallRow;
  event: EventTuple;
  /** `call.cost_settled`, whose data is written once the cost is known; null if the call has no rate. */
  settled: EventTuple | null;
  /** The call went on without a hold because none could be asked for: it is charged in full. */
  wentOnUnfunded: boolean;
  /** JSON. */
  trace: string | null;
  /** JSON. */
  samples: string | null;
}

export type Entry = BeginEntry | EventEntry | LateEventEntry | FactsEntry | RecordingUrlEntry | DialogEntry | EndEntry;

/** What became of entries, once they are on disk. */
export interface BatchOutcome {
  admissions: [callId: string, admission: Admission][];
  /** Calls whose end was not written, because another process had closed them. */
  closedElsewhere: string[];
  /** `call.cost_settled` of calls that were settled. */
  settled: EventTuple[];
  /** Events that the database has numbered, and whose they are. */
  late: { event: EventTuple; organizationId: string; mode: Mode }[];
  /** Whether events wait to be delivered to webhooks. */
  hasDeliveries: boolean;
}

/** What the counters need to know of a call. */
export interface CountedCall {
  organization_id: string;
  mode: Mode;
  phone_number_id: string;
  direction: Direction;
  created_at: number;
}
