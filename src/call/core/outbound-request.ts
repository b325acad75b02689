import type { Mode } from '../../store/tenants/scope.js';
import type { Action, FollowUp, StatusCallback } from '../../webhook/actions.js';
import type { BegunCall } from './call.js';

/** A call that was asked for and allowed: its record is written, `in_progress`, and its money is held. */
export interface OutboundCall {
  begun: BegunCall;
  organizationId: string;
  mode: Mode;
  /** E.164. */
  toNumber: string;
  /** E.164, a number of the organization. */
  fromNumber: string;
  /** Active when the call was asked for. */
  endpointId: string;
  /** How long the far side may ring. */
  ringTimeoutMs: number;
  /** From the answer. */
  maxDurationMs: number;
  machineDetection: 'off' | 'detect' | 'detect_message_end';
  /** From the answer; after it nobody knows who answered. Absent: as long as it takes, 30 s at most. */
  machineDetectionLimitMs?: number;
  /** The webhook is asked only when it is known who answered, and is told. */
  waitsForMachine?: boolean;
  /** Who is told, in Twilio's form, once it is known. */
  machineStatus?: FollowUp | null;
  /** What of the request has no effect: sentences for the record. */
  warnings?: readonly string[];
  /** Once it is known that a machine answered. */
  onMachine: 'talk' | 'hang_up';
  metadata: Record<string, unknown>;
  record: boolean;
  /** What a webhook endpoint would say when somebody answers, or where else it is asked. */
  instructions?: { actions: Action[] } | { next: FollowUp };
  /** Who is told of its steps; signed as the endpoint signs. */
  status?: StatusCallback | null;
}

/** Places the calls that the API was asked for. */
export interface OutboundCalls {
  /** Why no call of this organization can be placed now; null: one can. Asked before there is a record. */
  refusal(organizationId: string, mode: Mode): 'no_trunk' | 'shutting_down' | 'full' | null;
  /** From here on the call and its record are this side's: whatever goes wrong ends the record. Answers at once, never throws. */
  start(call: OutboundCall): void;
}
