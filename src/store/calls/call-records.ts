/** Call records in the types of the program: parsed, with times as dates. */
import type { CallStatus, HangupCause } from '../../../sip/cause.js';
import type { CallEventRow, CallRow, Direction, HangupSource } from '../database/tables.js';
import { writtenTime } from '../database/written-time.js';
import type { Mode } from '../tenants/scope.js';

/** Durations on the monotonic clock; a figure that was not measured is absent. */
export interface CallTimings {
  /** INVITE to final answer. */
  setupMs?: number;
  /** INVITE to the first ringing. */
  postDialDelayMs?: number;
  answerToFirstAudioMs?: number;
}

export interface Turn {
  startedAt: string;
  speaker: 'caller' | 'agent';
  durationMs: number;
  /** The time from the end of speech of the other party; null for the first turn. */
  responseMs: number | null;
}

/** One SIP message of a call, with credentials masked. */
export interface TraceEntry {
  /** RFC 3339. */
  at: string;
  direction: 'received' | 'sent';
  peer: { transport: string; address: string; port: number } | null;
  message: string;
}

/** The API's `quality_metrics`, snake_case; the seed's three (`mos`, `jitter_ms`, `packet_loss`) and whatever else was measured. */
export type QualityMetrics = Record<string, unknown>;

/** `QualityMetrics` at a moment of the call. */
export type QualitySample = QualityMetrics & { at: string };

export interface CallSummary {
  id: string;
  organizationId: string;
  mode: Mode;
  direction: Direction;
  fromNumber: string;
  toNumber: string;
  status: CallStatus;
  durationSec: number;
  costMicrocents: number;
  latencyMs: number;
  phoneNumberId: string;
  endpointId: string | null;
  trunkId: string | null;
  sipCallId: string | null;
  recordingUrl: string | null;
  hangupCause: HangupCause | null;
  createdAt: Date;
  answeredAt: Date | null;
  completedAt: Date | null;
}

export interface CallEvent {
  id: string;
  callId: string;
  sequence: number;
  type: string;
  data: Record<string, unknown>;
  createdAt: Date;
}

/** All data in the row of a call. */
export interface CallRecord extends CallSummary {
  hangupSource: HangupSource | null;
  ringSeconds: number | null;
  timings: CallTimings;
  quality: QualityMetrics;
  turns: Turn[];
  metadata: Record<string, unknown> | null;
  transcript: string | null;
}

export interface CallDetail extends CallRecord {
  events: CallEvent[];
}

/** The call detail with unparsed JSON columns. */
export interface CallText extends CallSummary {
  hangupSource: HangupSource | null;
  ringSeconds: number | null;
  transcript: string | null;
  /** An object of `CallTimings`. */
  timings: string;
  /** An array of `Turn`. */
  turns: string;
  /** An object of `QualityMetrics`. */
  quality: string;
  /** An object, or `null`. */
  metadata: string;
  /** An array of events, in the words of their table, times in RFC 3339. */
  events: string;
}

export function toCall(row: CallRow): CallSummary {
  return {
    id: row.id,
    organizationId: row.organization_id,
    mode: row.mode,
    direction: row.direction,
    fromNumber: row.from_number,
    toNumber: row.to_number,
    status: row.status,
    durationSec: row.duration_sec,
    costMicrocents: row.cost_microcents,
    latencyMs: row.latency_ms,
    phoneNumberId: row.phone_number_id,
    endpointId: row.endpoint_id,
    trunkId: row.trunk_id,
    sipCallId: row.sip_call_id,
    recordingUrl: row.recording_url,
    hangupCause: row.hangup_cause,
    createdAt: new Date(row.created_at),
    answeredAt: date(row.answered_at),
    completedAt: date(row.completed_at),
  };
}

export function toCallRecord(row: CallRow): CallRecord {
  // Not `...toCall(row)`: V8 makes an object of so many fields fifteen times slower that way.
  return Object.assign(toCall(row), {
    hangupSource: row.hangup_source,
    ringSeconds: row.ring_seconds,
    timings: parse<CallTimings>(row.timings) ?? {},
    quality: parse<QualityMetrics>(row.quality) ?? {},
    turns: parse<Turn[]>(row.turns) ?? [],
    metadata: parse<Record<string, unknown>>(row.metadata),
    transcript: row.transcript,
  });
}

/** As arrays, rows come twice as fast. */
export const callTextColumns = [
  ...['id', 'organization_id', 'mode', 'direction', 'from_number', 'to_number', 'status', 'duration_sec'],
  ...['cost_microcents', 'latency_ms', 'phone_number_id', 'endpoint_id', 'trunk_id', 'sip_call_id', 'recording_url'],
  ...['hangup_cause', 'created_at', 'answered_at', 'completed_at', 'hangup_source', 'ring_seconds', 'transcript'],
  ...['timings', 'turns', 'quality', 'metadata'],
] as const satisfies (keyof CallRow)[];
/** Values of `callTextColumns`, and the events: null, or objects of JSON with `timeSeparator` around each time in milliseconds. */
export type CallTextTuple = [...ValuesOf<typeof callTextColumns>, events: string | null];
type ValuesOf<Columns extends readonly (keyof CallRow)[]> = { -readonly [I in keyof Columns]: CallRow[Columns[I]] };
export const timeSeparator = '\u001e';

export function toCallText(row: CallTextTuple): CallText {
  return {
    id: row[0],
    organizationId: row[1],
    mode: row[2],
    direction: row[3],
    fromNumber: row[4],
    toNumber: row[5],
    status: row[6],
    durationSec: row[7],
    costMicrocents: row[8],
    latencyMs: row[9],
    phoneNumberId: row[10],
    endpointId: row[11],
    trunkId: row[12],
    sipCallId: row[13],
    recordingUrl: row[14],
    hangupCause: row[15],
    createdAt: new Date(row[16]),
    answeredAt: date(row[17]),
    completedAt: date(row[18]),
    hangupSource: row[19],
    ringSeconds: row[20],
    transcript: row[21],
    timings: row[22] ?? '{}',
    turns: row[23] ?? '[]',
    quality: row[24] ?? '{}',
    metadata: row[25] ?? 'null',
    events: `[${timesWritten(row[26] ?? '')}]`,
  };
}

/** Writes each time between separators as a date. */
function timesWritten(text: string): string {
  const parts = text.split(timeSeparator);
  for (let i = 1; i < parts.length; i += 2) parts[i] = writtenTime(Number(parts[i]));
  return parts.join('');
}

export function toCallEvent(row: CallEventRow): CallEvent {
  return {
    id: row.id,
    callId: row.call_id,
    sequence: row.sequence,
    type: row.event_type,
    data: JSON.parse(row.event_data) as Record<string, unknown>,
    createdAt: new Date(row.created_at),
  };
}

function date(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms);
}

function parse<T>(json: string | null): T | null {
  return json === null ? null : (JSON.parse(json) as T);
}
