import type { HangupCause } from '../../../sip/cause.js';
import type { CallTimings, QualityMetrics, Turn } from '../../store/calls/call-records.js';
import type { FinalStatus } from '../../store/calls/event-types.js';
import type { Direction, HangupSource } from '../../store/database/tables.js';
import type { Mode } from '../../store/tenants/scope.js';
import type { TraceContext } from './trace-context.js';

/** Which agent got ready, and how long that took. */
export interface AgentConnect {
  kind: 'websocket' | 'sip';
  provider: string;
  endpointId: string;
  readyAt: Date;
  ms: number;
}

/** What a call leaves, for the log and the metrics. */
export interface EndedCall {
  id: string;
  /** Of the first dialog. */
  sipCallId: string;
  /** Whose call it was; absent once another node has closed it. */
  owner?: { organizationId: string; mode: Mode; phoneNumberId: string; endpointId: string | null };
  trunkId: string | null;
  startedAt: Date;
  /** When the call was allowed, or refused; null: it ended before. */
  admittedAt: Date | null;
  completedAt: Date;
  direction: Direction;
  status: FinalStatus;
  cause: HangupCause;
  source: HangupSource;
  /** One sentence. */
  detail?: string;
  sipStatus?: number;
  durationSec: number;
  ringSec: number | null;
  timings: CallTimings;
  agentConnects: readonly AgentConnect[];
  /** The span of another program that asked for it. */
  requestedBy?: TraceContext;
  quality: QualityMetrics;
  turns: readonly Turn[];
}

/** The fields of its one line in the log: ids, causes and figures, without numbers of phones and without words. */
export function logFields(ended: EndedCall): Record<string, unknown> {
  const { owner, timings, quality } = ended;
  return {
    call_id: ended.id,
    sip_call_id: ended.sipCallId,
    ...(owner && {
      organization_id: owner.organizationId,
      mode: owner.mode,
      phone_number_id: owner.phoneNumberId,
      endpoint_id: owner.endpointId,
    }),
    trunk_id: ended.trunkId,
    direction: ended.direction,
    status: ended.status,
    cause: ended.cause,
    source: ended.source,
    detail: ended.detail,
    sip_status: ended.sipStatus,
    duration_sec: ended.durationSec,
    ring_sec: ended.ringSec,
    post_dial_delay_ms: timings.postDialDelayMs,
    setup_ms: timings.setupMs,
    agent_connect_ms: ended.agentConnects.at(-1)?.ms,
    answer_to_first_audio_ms: timings.answerToFirstAudioMs,
    turns: ended.turns.length,
    codec: quality.codec,
    mos: quality.mos,
    packet_loss: quality.packet_loss,
    jitter_ms: quality.jitter_ms,
  };
}
