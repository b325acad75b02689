/** `doctor --call`: one real call over the trunks of the running server, with an own agent that listens for its echo. */
import { setTimeout as wait } from 'node:timers/promises';
import { type EchoHeard, EchoProbe } from '../../simulator/providers/echo-probe.js';
import type { Api } from '../api.js';
import { CliFailure } from '../failure.js';
import type { Finding } from './finding.js';

export interface TrialCall {
  to: string;
  /** The caller id. Default: the first number of the organization. */
  from?: string;
  /** The duration of the call after the answer. */
  talkMs: number;
}

interface SeenCall {
  id: string;
  status: string;
  hangup_cause: string | null;
  latency_ms: number;
  answered_at: string | null;
  quality_metrics: { codec?: string; mos?: number; received?: { packets?: number } };
  events: { event_type: string; event_data: Record<string, unknown> }[];
}

const ringSec = 30;
const lookEveryMs = 250;
/** The limit of the whole call, including ringing and teardown. */
const limitMs = 90_000;
const slowEchoMs = 500;

/** The fix for an unanswered call, by its cause. */
const fixes: Readonly<Record<string, string>> = {
  user_busy: 'try again, or another number: the trunk itself works',
  no_answer: 'try again, or another number: the trunk itself works',
  call_rejected: 'ask the carrier: caller id, credentials, credit, and whether it accepts the address of this server',
  not_found: 'check the number and its format for the carrier: outbound.to_format of the trunk',
  incompatible_media: 'check codecs and srtp of the trunk; ask the carrier what it supports',
  carrier_unreachable: 'check host, port and transport of the gateway, the firewall, and with TLS its certificate',
};

/** The fix for a call that was not placed, by its error message. */
const refusals: readonly [RegExp, string][] = [
  [
    /private|loopback/i,
    'set TRUNKLINE_ALLOW_PRIVATE_TARGETS=true for the test: the listening agent is on this machine',
  ],
  [/^NO_TRUNK_AVAILABLE/, 'trunkline trunks add --name NAME --gateway sip:HOST, or add a gateway to an existing trunk'],
];

/** Returns one finding for the INVITE and, if answered, two for the audio. Removes the records it created. */
export async function tryCall(api: Api, { to, from, talkMs }: TrialCall): Promise<Finding[]> {
  const caller = from ?? (await api.get<{ data: { number: string }[] }>('/phone-numbers?limit=1')).data[0]?.number;
  if (caller === undefined)
    return [failure('call', 'no number is available as caller id', 'trunkline numbers add, or --from')];
  const probe = await EchoProbe.open();
  try {
    const endpoint = await api.post<{ id: string }>('/endpoints', {
      ...{ name: 'trunkline doctor', type: 'agent', target: probe.url },
      provider_config: { protocol: 'raw', first_audio_timeout_s: 0 },
    });
    try {
      const wish = { to_number: to, from_number: caller, endpoint_id: endpoint.id, ring_timeout: ringSec };
      const { id } = await api.post<{ id: string }>('/outbound-calls', { ...wish, max_duration: 60 });
      return findings(await followed(api, id, talkMs), probe.result());
    } finally {
      await api.remove(`/endpoints/${endpoint.id}`);
    }
  } catch (error) {
    // the first line of a refusal has its code, by which the fix is found
    const told = error instanceof CliFailure ? error.lines[0] : undefined;
    const says = told ?? (error instanceof Error ? error.message : String(error));
    const fix = refusals.find(([what]) => what.test(says))?.[1] ?? 'see the error message';
    return [failure('call', says, fix)];
  } finally {
    await probe.close();
  }
}

/** Returns the call after its end; hangs up after the duration of the call. */
async function followed(api: Api, id: string, talkMs: number): Promise<SeenCall> {
  const startedMs = performance.now();
  let talkedSinceMs: number | null = null;
  let hungUp = false;
  for (;;) {
    const call = await api.get<SeenCall>(`/calls/${id}`);
    const now = performance.now();
    if (call.status !== 'in_progress') return call;
    if (call.answered_at !== null) talkedSinceMs ??= now;
    const isLong = talkedSinceMs !== null && now - talkedSinceMs >= talkMs;
    if (!hungUp && (isLong || now - startedMs > limitMs)) {
      hungUp = true;
      await api.post(`/calls/${id}/hangup`, {});
    }
    if (now - startedMs > limitMs + 15_000) return call;
    await wait(lookEveryMs);
  }
}

function findings(call: SeenCall, heard: EchoHeard): Finding[] {
  const failed = call.events.filter(({ event_type }) => event_type === 'trunk.failed');
  const trunks = failed.map(({ event_data: { trunk, detail, reason } }) => `${trunk}: ${detail ?? reason}`);
  const detail = call.events.at(-1)?.event_data.detail;
  const why = [...trunks, ...(typeof detail === 'string' ? [detail] : [])];
  if (call.answered_at === null) {
    const cause = call.hangup_cause ?? call.status;
    const says = `not answered: ${[cause, ...new Set(why)].join('; ')}`;
    return [failure('call', says, fixes[cause] ?? 'trunkline trace <call id> shows the SIP messages')];
  }
  const { codec = 'no codec', mos, received } = call.quality_metrics;
  const answered = `answered after ${call.latency_ms} ms, ${codec}${mos === undefined ? '' : `, MOS ${mos.toFixed(1)}`}`;
  const invite: Finding =
    trunks.length === 0
      ? { check: 'call', level: 'ok', says: answered }
      : { check: 'call', level: 'warning', says: `${answered}, but first ${trunks.join('; ')}`, fix: 'that gateway' };
  if ((received?.packets ?? 0) === 0)
    return [
      invite,
      failure(
        'call audio',
        'no audio was received from the far end',
        'let UDP to TRUNKLINE_RTP_PORTS through the firewall; behind NAT set TRUNKLINE_EXTERNAL_IP',
      ),
    ];
  return [invite, { check: 'call audio', level: 'ok', says: `${received?.packets} packets received` }, echo(heard)];
}

function echo({ roundTripMs }: EchoHeard): Finding {
  const check = 'call echo';
  if (roundTripMs === null)
    return {
      ...{ check, level: 'warning', says: 'no echo of the sent audio was received' },
      fix: 'call a number that echoes; without an echo there, the audio does not reach the carrier: check its firewall, and srtp and codecs of the trunk',
    };
  const says = `echo received after ${roundTripMs} ms`;
  if (roundTripMs <= slowEchoMs) return { check, level: 'ok', says };
  return {
    check,
    level: 'warning',
    says,
    fix: 'use a nearer gateway; above half a second people talk over each other',
  };
}

function failure(check: string, says: string, fix: string): Finding {
  return { check, level: 'failure', says, fix };
}
