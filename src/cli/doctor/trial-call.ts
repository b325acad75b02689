/** `doctor --call`: one real call over the trunks of the running server, with an agent of our own that listens for its echo. */
import { setTimeout as wait } from 'node:timers/promises';
import { type EchoHeard, EchoProbe } from '../../simulator/providers/echo-probe.js';
import type { Api } from '../api.js';
import type { Finding } from './finding.js';

export interface TrialCall {
  to: string;
  /** The first number of the organization when absent. */
  from?: string;
  /** How long it is talked once somebody answered. */
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
/** Ringing, talking, and all that closes a call. */
const limitMs = 90_000;
const slowEchoMs = 500;

/** What to do about a call that nobody answered, by its cause. */
const fixes: Readonly<Record<string, string>> = {
  user_busy: 'try again, or another number: the trunk itself works',
  no_answer: 'try again, or another number: the trunk itself works',
  call_rejected: 'what the carrier says: caller id, credentials, credit, and whether it knows our address',
  not_found: 'the number, or how the carrier wants it written: outbound.to_format of the trunk',
  incompatible_media: 'codecs and srtp of the trunk: ask the carrier what it takes',
  carrier_unreachable: 'host, port and transport of the gateway, firewall, and its certificate where it is TLS',
};

/** What to do about a call that was not even placed, by what is said of it. */
const refusals: readonly [RegExp, string][] = [
  [/private|loopback/i, 'TRUNKLINE_ALLOW_PRIVATE_TARGETS=true while you test: the listening agent is on this machine'],
  [/^NO_TRUNK_AVAILABLE/, 'trunkline trunks add --name NAME --gateway sip:HOST, or a gateway for one that is there'],
];

/** One finding for the INVITE, and two for the audio if somebody answered. What was set up for it is removed. */
export async function tryCall(api: Api, { to, from, talkMs }: TrialCall): Promise<Finding[]> {
  const caller = from ?? (await api.get<{ data: { number: string }[] }>('/phone-numbers?limit=1')).data[0]?.number;
  if (caller === undefined)
    return [failure('call', 'there is no number to call from', 'trunkline numbers add, or --from')];
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
    const says = error instanceof Error ? error.message : String(error);
    const fix = refusals.find(([what]) => what.test(says))?.[1] ?? 'as it says';
    return [failure('call', says, fix)];
  } finally {
    await probe.close();
  }
}

/** The call as it is when it is over; it is hung up when it was talked long enough. */
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
    const says = `nobody answered: ${[cause, ...new Set(why)].join('; ')}`;
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
        'no audio came from the far side',
        'let UDP to TRUNKLINE_RTP_PORTS through the firewall; behind NAT set TRUNKLINE_EXTERNAL_IP',
      ),
    ];
  return [invite, { check: 'call audio', level: 'ok', says: `${received?.packets} packets came` }, echo(heard)];
}

function echo({ roundTripMs }: EchoHeard): Finding {
  const check = 'call echo';
  if (roundTripMs === null)
    return {
      ...{ check, level: 'warning', says: 'nothing of what we said came back' },
      fix: 'call a number that echoes; if it does, our audio does not reach the carrier: its firewall, or srtp and codecs of the trunk',
    };
  const says = `what we say is back after ${roundTripMs} ms`;
  if (roundTripMs <= slowEchoMs) return { check, level: 'ok', says };
  return {
    check,
    level: 'warning',
    says,
    fix: 'a gateway that is nearer; above half a second people talk over each other',
  };
}

function failure(check: string, says: string, fix: string): Finding {
  return { check, level: 'failure', says, fix };
}
