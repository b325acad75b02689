/** Why a call ended: the values of `hangup_cause` in the API. Never renamed. */
export const hangupCauses = [
  'normal_clearing',
  'originator_cancel',
  'user_busy',
  'no_answer',
  'call_rejected',
  'not_found',
  'timeout',
  'time_limit',
  'media_timeout',
  'agent_hangup',
  'agent_unreachable',
  'agent_error',
  'webhook_error',
  'no_endpoint',
  'endpoint_inactive',
  'transferred',
  'incompatible_media',
  'carrier_unreachable',
  'destination_not_allowed',
  'insufficient_balance',
  'concurrency_limit',
  'blocked_source',
  'overload',
  'no_ack',
  'signalling_lost',
  'engine_gone',
  'system_shutdown',
  'system_restart',
  'unspecified',
] as const;
export type HangupCause = (typeof hangupCauses)[number];
export type CallStatus = 'completed' | 'failed' | 'in_progress' | 'no_answer' | 'busy';

/** The outcome of a call that was never answered. */
export interface Outcome {
  cause: HangupCause;
  status: Exclude<CallStatus, 'completed' | 'in_progress'>;
}

/** The far side's final answer to our INVITE. A status that is not listed follows its class (`outcomeOfAnswer`). */
const answers: ReadonlyMap<number, Outcome> = new Map<number, Outcome>([
  [486, { cause: 'user_busy', status: 'busy' }],
  [600, { cause: 'user_busy', status: 'busy' }],
  [603, { cause: 'call_rejected', status: 'busy' }],
  [408, { cause: 'no_answer', status: 'no_answer' }],
  [480, { cause: 'no_answer', status: 'no_answer' }],
  [487, { cause: 'originator_cancel', status: 'no_answer' }],
  [404, { cause: 'not_found', status: 'failed' }],
  [410, { cause: 'not_found', status: 'failed' }],
  [416, { cause: 'not_found', status: 'failed' }],
  [484, { cause: 'not_found', status: 'failed' }],
  [485, { cause: 'not_found', status: 'failed' }],
  [604, { cause: 'not_found', status: 'failed' }],
  [415, { cause: 'incompatible_media', status: 'failed' }],
  [488, { cause: 'incompatible_media', status: 'failed' }],
  [606, { cause: 'incompatible_media', status: 'failed' }],
  [500, { cause: 'carrier_unreachable', status: 'failed' }],
  [430, { cause: 'carrier_unreachable', status: 'failed' }],
]);

/** The outcome of a call for the far side's final answer (300–699). */
export function outcomeOfAnswer(sipStatus: number): Outcome {
  const known = answers.get(sipStatus);
  if (known) return known;
  if (sipStatus >= 400 && sipStatus < 500) return { cause: 'call_rejected', status: 'failed' };
  if (sipStatus >= 500 && sipStatus < 600) return { cause: 'carrier_unreachable', status: 'failed' };
  if (sipStatus >= 600 && sipStatus < 700) return { cause: 'call_rejected', status: 'failed' };
  return { cause: 'unspecified', status: 'failed' };
}

/** Outcomes of an unanswered call without a final answer of the far side. */
export const unansweredOutcomes = {
  /** It rang until our limit; a CANCEL was sent. */
  ringTimeout: { cause: 'no_answer', status: 'no_answer' },
  /** The caller sent CANCEL, or our own user cancelled while dialling. */
  callerCancel: { cause: 'originator_cancel', status: 'no_answer' },
  /** The INVITE timed out without even a 100: the carrier is unreachable. */
  noProvisional: { cause: 'carrier_unreachable', status: 'failed' },
} as const satisfies Record<string, Outcome>;

/**
 * The status of a call that was never answered, from its cause and, when the far side gave one, its final SIP status. A call that we refuse
 * is always `failed`; see `refusalOf`.
 */
export function unansweredStatus(cause: HangupCause, farSipStatus?: number): Outcome['status'] {
  if (farSipStatus !== undefined && farSipStatus >= 300) return outcomeOfAnswer(farSipStatus).status;
  if (cause === 'user_busy') return 'busy';
  if (cause === 'no_answer' || cause === 'originator_cancel') return 'no_answer';
  return 'failed';
}

interface OwnWords {
  /** The status with which we refuse an INVITE for this cause, and the text of its `Reason` header. */
  sipStatus: number;
  text: string;
  /** The Q.850 number in the `Reason` of our BYE. */
  q850: number;
}

const ownWords: Readonly<Record<HangupCause, OwnWords>> = {
  normal_clearing: { sipStatus: 480, text: 'Normal clearing', q850: 16 },
  originator_cancel: { sipStatus: 487, text: 'Caller cancelled', q850: 16 },
  user_busy: { sipStatus: 486, text: 'User busy', q850: 17 },
  no_answer: { sipStatus: 480, text: 'No answer', q850: 19 },
  call_rejected: { sipStatus: 603, text: 'Call rejected', q850: 21 },
  not_found: { sipStatus: 404, text: 'Unknown number', q850: 1 },
  timeout: { sipStatus: 480, text: 'Timed out', q850: 102 },
  time_limit: { sipStatus: 480, text: 'Time limit reached', q850: 16 },
  media_timeout: { sipStatus: 480, text: 'No media', q850: 41 },
  agent_hangup: { sipStatus: 480, text: 'Agent hung up', q850: 16 },
  agent_unreachable: { sipStatus: 480, text: 'Agent unreachable', q850: 27 },
  agent_error: { sipStatus: 500, text: 'Agent error', q850: 41 },
  webhook_error: { sipStatus: 503, text: 'Call control unreachable', q850: 41 },
  no_endpoint: { sipStatus: 480, text: 'Number without endpoint', q850: 20 },
  endpoint_inactive: { sipStatus: 480, text: 'Endpoint inactive', q850: 20 },
  transferred: { sipStatus: 480, text: 'Transferred', q850: 16 },
  incompatible_media: { sipStatus: 488, text: 'No common codec', q850: 88 },
  carrier_unreachable: { sipStatus: 503, text: 'Carrier unreachable', q850: 38 },
  destination_not_allowed: { sipStatus: 403, text: 'Destination not allowed', q850: 21 },
  insufficient_balance: { sipStatus: 403, text: 'Insufficient balance', q850: 21 },
  concurrency_limit: { sipStatus: 486, text: 'Concurrent call limit reached', q850: 42 },
  blocked_source: { sipStatus: 403, text: 'Unknown source', q850: 21 },
  overload: { sipStatus: 503, text: 'Overload', q850: 42 },
  no_ack: { sipStatus: 408, text: 'No ACK', q850: 102 },
  signalling_lost: { sipStatus: 503, text: 'Signalling lost', q850: 41 },
  engine_gone: { sipStatus: 503, text: 'Media engine gone', q850: 41 },
  system_shutdown: { sipStatus: 503, text: 'Shutting down', q850: 41 },
  system_restart: { sipStatus: 503, text: 'Restarted', q850: 41 },
  unspecified: { sipStatus: 500, text: 'Internal error', q850: 31 },
};

/** Retry-After, for causes that pass by themselves. */
const retryAfterSec: Partial<Record<HangupCause, number>> = { overload: 5, engine_gone: 5, system_shutdown: 60 };

/** How an INVITE is refused for a cause: the status, the text of the `Reason` header, and `Retry-After` where a retry may succeed. */
export function refusalOf(cause: HangupCause): { status: number; reason: string; headers?: Record<string, string> } {
  const { sipStatus: status, text: reason } = ownWords[cause];
  const seconds = retryAfterSec[cause];
  return seconds === undefined ? { status, reason } : { status, reason, headers: { 'Retry-After': String(seconds) } };
}

/** The `Reason` header (RFC 3326) of our BYE: the Q.850 number, with the name of the cause as text. */
export function byeReason(cause: HangupCause): string {
  return `Q.850;cause=${ownWords[cause].q850};text="${cause}"`;
}
