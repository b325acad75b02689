import { type CallStatus, type HangupCause, unansweredStatus } from '../../../sip/cause.js';
import type { HangupSource } from '../../store/database/tables.js';

/** The role of the phone at the other end of the line. */
export type PhoneRole = 'caller' | 'callee';

/** Why a call ends: the first reason wins. */
export interface Ending {
  cause: HangupCause;
  source: HangupSource;
  /** One sentence for the terminal event. */
  detail?: string;
  /** The final response to our INVITE. */
  sipStatus?: number;
}

/** Thrown by a step of a call that cannot go on; carries the ending. It has no stack trace, since every call makes one and none is read. */
export class CallEnded extends Error {
  constructor(readonly ending: Ending) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(ending.detail ?? ending.cause);
    Error.stackTraceLimit = stackTraceLimit;
    this.name = 'CallEnded';
  }
}

/** Causes that make an answered call `failed`: Trunkline, the agent or the signalling broke it. All others make it `completed`. */
const brokeAnsweredCall: ReadonlySet<HangupCause> = new Set<HangupCause>([
  'agent_unreachable',
  'agent_error',
  'webhook_error',
  'incompatible_media',
  'no_ack',
  'signalling_lost',
  'engine_gone',
  'overload',
  'system_shutdown',
  'system_restart',
]);

/** Causes of a caller that gave up before the answer. */
const callerGaveUp: ReadonlySet<HangupCause> = new Set<HangupCause>([
  'originator_cancel',
  'no_answer',
  'timeout',
  'normal_clearing',
]);

/** The final status of a call. */
export function callStatus(
  direction: 'inbound' | 'outbound',
  ending: Ending,
  answered: boolean,
): Exclude<CallStatus, 'in_progress'> {
  if (direction === 'inbound' || answered) return inboundStatus(ending, answered);
  return unansweredStatus(ending.cause, ending.sipStatus);
}

/**
 * The final status of an inbound call. Before the answer it is `no_answer` only when the caller gave up; a refused call is always
 * `failed`. An answered call is `completed` unless something broke it.
 */
export function inboundStatus(ending: Ending, answered: boolean): Exclude<CallStatus, 'in_progress'> {
  if (answered) return brokeAnsweredCall.has(ending.cause) ? 'failed' : 'completed';
  return ending.source === 'caller' && callerGaveUp.has(ending.cause) ? 'no_answer' : 'failed';
}
