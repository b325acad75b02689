/** What happened in a call, in one sentence, and the hop that caused its end; from the record and its events. */
import type { CallStatus, HangupCause } from '../../../sip/cause.js';

export type CallHop =
  | 'caller'
  | 'callee'
  | 'carrier'
  | 'network'
  | 'trunkline'
  | 'routing'
  | 'account'
  | 'agent'
  | 'webhook';

export interface CallExplanation {
  summary: string;
  /** null while the call is in progress, and when nothing went wrong. */
  hop: CallHop | null;
  /** What to do about it; null if there is nothing to do. */
  advice: string | null;
}

export interface ExplainedCall {
  status: CallStatus;
  direction: 'inbound' | 'outbound';
  hangupCause: HangupCause | null;
  hangupSource: string | null;
  durationSec: number;
  answeredAt: Date | null;
  events: readonly { type: string; data: Record<string, unknown> }[];
}

type Words = [hop: CallHop | null, sentence: string, advice: string | null];

/** Of each cause; `normal_clearing` and its kin say who hung up instead. */
const ofCause: Partial<Record<HangupCause, Words>> = {
  user_busy: ['callee', 'the called party was busy', null],
  no_answer: ['callee', 'nobody answered in time', null],
  originator_cancel: ['caller', 'the caller gave up before the answer', null],
  call_rejected: [
    'callee',
    'the called party or the carrier rejected the call',
    'Compare the SIP status in the trace with what the carrier documents.',
  ],
  not_found: [
    'carrier',
    'the carrier does not know the number',
    'Check the number, and `outbound.to_format` of the trunk.',
  ],
  timeout: ['network', 'the far side stopped answering SIP', 'Check the network path to the peer in the trace.'],
  time_limit: [
    'trunkline',
    'the maximum duration was reached',
    'Raise `max_duration` of the call or the setting `max_call_sec`.',
  ],
  media_timeout: [
    'network',
    'no audio arrived from the phone any more',
    'Check NAT and firewall between the phone and the RTP ports (`rtp_ports`, `external_ip`).',
  ],
  agent_unreachable: [
    'agent',
    'the agent could not be reached',
    'Test the endpoint; check its target, its key and that the server runs.',
  ],
  agent_error: [
    'agent',
    'the agent failed during the call',
    'Look at the log of the agent at the time of the last event.',
  ],
  webhook_error: [
    'webhook',
    'the webhook gave no usable answer',
    'Test the endpoint; its answer must be actions or TwiML within 10 seconds.',
  ],
  no_endpoint: ['routing', 'the dialled number leads to no endpoint', 'Attach an endpoint to the number.'],
  endpoint_inactive: [
    'routing',
    'the endpoint of the number is inactive',
    'Set the endpoint active, or attach another one.',
  ],
  incompatible_media: [
    'network',
    'the two sides have no codec or encryption in common',
    'Compare the codecs of the offer in the trace with those of the trunk.',
  ],
  carrier_unreachable: [
    'carrier',
    'no gateway of the carrier took the call',
    'Test the trunk; check the address, transport and credentials of its gateways.',
  ],
  destination_not_allowed: [
    'account',
    'the destination is not allowed for the organization',
    'Add its prefix to `allowed_prefixes` of the organization.',
  ],
  insufficient_balance: ['account', 'the balance was exhausted', 'Add credits to the organization.'],
  concurrency_limit: [
    'account',
    'the organization had as many calls as its limit allows',
    'Raise `concurrent_calls` of the organization.',
  ],
  blocked_source: ['routing', 'no trunk trusts the address of the caller', 'Add the address to a trunk.'],
  overload: ['trunkline', 'the server was overloaded', 'Look at the metrics; add cores or another node.'],
  no_ack: [
    'network',
    'the caller never confirmed the answer (no ACK)',
    'Check that SIP answers reach the caller: NAT, `external_ip`, Contact in the trace.',
  ],
  signalling_lost: [
    'trunkline',
    'the connection to the SIP server was lost',
    'Look at the log of the SIP server at that time.',
  ],
  engine_gone: ['trunkline', 'the media engine stopped', 'Look at the log of the server at that time.'],
  system_shutdown: ['trunkline', 'the server was shut down', null],
  system_restart: [
    'trunkline',
    'the server was restarted without its old calls',
    'Look at the log for why it stopped.',
  ],
  unspecified: ['trunkline', 'an error of the server ended it', 'Look at the log of the server at that time.'],
};

/** The event that tells more than the cause: the last of these types. */
const telling: Partial<Record<CallHop, readonly string[]>> = {
  agent: ['agent.failed', 'agent.warning'],
  webhook: ['webhook.failed'],
  carrier: ['trunk.failed'],
};

const people: Record<string, string> = {
  caller: 'the caller',
  callee: 'the called party',
  agent: 'the agent',
  api: 'an API request',
  system: 'Trunkline',
};

export function explainCall(call: ExplainedCall): CallExplanation {
  const { status, answeredAt, hangupCause, hangupSource } = call;
  const begin = call.direction === 'inbound' ? 'The call came in' : 'The call went out';
  if (status === 'in_progress') {
    const state = answeredAt
      ? 'is answered and running'
      : call.events.some(({ type }) => type === 'call.ringing')
        ? 'is ringing'
        : 'is being set up';
    return { summary: `${begin} and ${state}.`, hop: null, advice: null };
  }
  const talked = answeredAt ? `was answered and ran for ${seconds(call.durationSec)}` : 'was never answered';
  const by = people[hangupSource ?? ''] ?? 'Trunkline';
  if (hangupCause === 'transferred')
    return { summary: `${begin}, ${talked}, and was transferred.`, hop: null, advice: null };
  const words = hangupCause === null ? undefined : ofCause[hangupCause];
  if (!words) return { summary: `${begin} and ${talked}; ${by} hung up.`, hop: null, advice: null };
  const [hop, sentence, advice] = words;
  const more = detailOf(call, hop);
  return {
    summary: `${begin} and ${talked}: ${sentence}${more === null ? '' : ` (${more})`}.`,
    hop: status === 'completed' && hop === 'callee' ? null : hop,
    advice,
  };
}

/** What the events say about it, in their own words. */
function detailOf({ events }: ExplainedCall, hop: CallHop | null): string | null {
  const types = (hop && telling[hop]) ?? [];
  if (hop === 'routing' || hop === 'account') return null; // the sentence says it all
  const found = events.findLast(({ type }) => types.includes(type));
  const end = events.findLast(({ type }) => /^call\.(failed|busy|no_answer|completed)$/.test(type));
  const text = [found?.data.message, found?.data.detail, end?.data.detail, found?.data.reason].find(
    (each) => typeof each === 'string' && each !== '',
  ) as string | undefined;
  const sipStatus = found?.data.sip_status ?? end?.data.sip_status;
  const parts = [
    ...(typeof sipStatus === 'number' ? [`SIP ${sipStatus}`] : []),
    ...(text ? [text.replace(/\.$/, '')] : []),
  ];
  return parts.length === 0 ? null : parts.join(': ');
}

function seconds(count: number): string {
  if (count < 60) return `${count} s`;
  return `${Math.floor(count / 60)} min ${count % 60} s`;
}
