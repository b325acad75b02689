import type { Mode } from '../../store/tenants/scope.js';
import type { Action, FollowUp, StatusCallback } from '../../webhook/actions.js';
import type { BegunCall } from './call.js';
import type { TraceContext } from './trace-context.js';

/** What is done when something else than a person answers. */
export const answerActions = ['talk', 'leave_message', 'hang_up', 'press'] as const;
export type AnswerAction = (typeof answerActions)[number];
export const machineDetections = ['off', 'detect', 'detect_message_end'] as const;
export type MachineDetection = (typeof machineDetections)[number];

/** A call that was requested and allowed: its record is written, `in_progress`, and its money is held. */
export interface OutboundCall {
  begun: BegunCall;
  organizationId: string;
  mode: Mode;
  /** E.164, `client:` and the name of a registered phone, or a SIP URI; addresses may have `?X-Name=value`, header fields of the INVITE. */
  toNumber: string;
  /** E.164, a number of the organization; towards an address also a name. */
  fromNumber: string;
  /** Answers the challenge (RFC 3261 section 22) of a SIP URI. */
  sipAuth?: { username: string; password: string } | null;
  /** Active when the call was requested. */
  endpointId: string;
  /** How long the callee may ring. */
  ringTimeoutMs: number;
  /** From the answer. */
  maxDurationMs: number;
  /** This and what follows a result: absent, as the endpoint says (`AnsweringPlan`). */
  machineDetection?: MachineDetection;
  /** Counted from the answer; then the result is `unknown`. Default: 30 s. */
  machineDetectionLimitMs?: number;
  /** The agent begins, and the webhook is requested, only after the detection, with its result. */
  waitsForMachine?: boolean;
  /** Gets the result of the detection, in Twilio's form. */
  machineStatus?: FollowUp | null;
  /** Parts of the request that have no effect, as sentences for the record. */
  warnings?: readonly string[];
  onMachine?: AnswerAction;
  onScreening?: AnswerAction;
  onOperator?: AnswerAction;
  onFax?: AnswerAction;
  pressKeys?: string;
  metadata: Record<string, unknown>;
  /** The span that asked for the call. */
  requestedBy?: TraceContext;
  /** null: as the endpoint says. */
  record: boolean | null;
  /** The first actions after the answer, or the address that answers with them; default: the endpoint's own address. */
  instructions?: { actions: Action[] } | { next: FollowUp };
  /** Status callback of the call; signed as the endpoint signs. */
  status?: StatusCallback | null;
}

/** Places the calls that the API requests. */
export interface OutboundCalls {
  /** Why the organization cannot call `to` now; null when it can. Checked before the record is written. */
  refusal(organizationId: string, mode: Mode, to: string): 'no_trunk' | 'shutting_down' | 'full' | null;
  /** Takes over the call and its record: every failure ends the record. Returns at once and never throws. */
  start(call: OutboundCall): void;
}
