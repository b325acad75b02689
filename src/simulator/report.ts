/** The report of a simulated call: measurements of its own sockets, and a verdict. */
import { meanOpinionScore } from '../../media/quality.js';
import type { HangupCause } from '../../sip/cause.js';
import type { CallFaults } from './faults.js';
import { type Loudness, listen } from './phone/listen.js';
import { findMarker, markers, sampleRateHz } from './phone/marker.js';
import type { PhoneRtp } from './phone/phone-rtp.js';
import { markerIntervalMs } from './phone/voice.js';

/** The SIP side of the call. Times are those of `performance.now()`. */
export interface SignallingOutcome {
  to: string;
  from: string;
  target: string;
  startedAt: Date;
  sipCallId: string | null;
  invitedMs: number | null;
  ringingMs: number | null;
  answeredMs: number | null;
  endedMs: number;
  /** When our audio stopped, if it stopped on purpose before the end. */
  quietMs: number | null;
  /** Status of our re-INVITE; null: there was none, or the call ended before its answer. */
  reoffered: number | null;
  endedBy: 'us' | 'far side' | 'nobody';
  cause: HangupCause;
  /** Final status of a call that was not answered. */
  sipStatus: number | null;
  /** The reason, as one sentence, for a call that was not answered. */
  failure: string | null;
  digitsSent: string;
}

interface RoundTrip {
  sent: number;
  found: number;
  leastMs: number;
  medianMs: number;
  worstMs: number;
  /** Round trip of each marker that came back, in the order they were sent. */
  eachMs: number[];
}

/** A figure that was not measured is null. */
export interface CallReport {
  to: string;
  from: string;
  target: string;
  startedAt: string;
  sipCallId: string | null;
  answered: boolean;
  sipStatus: number | null;
  failure: string | null;
  endedBy: SignallingOutcome['endedBy'];
  cause: HangupCause;
  /** Time from the INVITE to the first 180 or 183. */
  ringMs: number | null;
  /** Time from the INVITE to the 200. */
  setupMs: number | null;
  /** Time from the 200 to the first packet, and to the first that is not silence. Negative: early media. */
  answerToFirstPacketMs: number | null;
  answerToFirstSoundMs: number | null;
  durationMs: number;
  /** Time from the end of our audio to the end of the call, if the BYE was to be late or lost. */
  noticedMs: number | null;
  /** Final status of our re-INVITE. */
  reoffered: number | null;
  /** The codec that we sent at the end of the call. */
  codec: string | null;
  ptimeMs: number;
  sent: {
    packets: number;
    dropped: number;
    reordered: number;
    duplicated: number;
    digits: string;
    /** The far side's RTCP report about our stream. */
    farLossPercent: number | null;
    farJitterMs: number | null;
    /** Packets that were not sent because this machine stalled. */
    leftOut: number;
    /** The largest lateness of our own sending: figures of the far side cannot be more accurate. */
    worstLateMs: number;
  };
  received: {
    packets: number;
    lost: number;
    lossPercent: number | null;
    jitterMs: number | null;
    mos: number | null;
    duplicates: number;
    reordered: number;
    ssrcChanges: number;
    malformed: number;
    foreign: number;
    /** Codecs of the received packets, in the order of their first packets. */
    codecs: string[];
    /** Clock skew of the far side's timestamps, in parts per million; null: less than such a call can tell. */
    clockSkewPpm: number | null;
    digits: string;
  };
  /** Round trip of the network, from RTCP. */
  rttMs: number | null;
  /** Round trip of the audio, from markers; null: none came back. */
  roundTrip: RoundTrip | null;
  heard: Loudness;
  ok: boolean;
  /** The reasons for a bad verdict. */
  problems: string[];
}

const leastPacketsForMos = 100;
const worstLossPercent = 5;
const worstMos = 3.5;
/** The causes with which a call without faults may end. */
const goodEnds: readonly HangupCause[] = ['normal_clearing', 'agent_hangup', 'time_limit', 'transferred'];

export function reportCall(
  course: SignallingOutcome,
  line: PhoneRtp | null,
  { ptimeMs, faults }: { ptimeMs: number; faults?: CallFaults },
): CallReport {
  const since = (from: number | null, to: number | null) => (from === null || to === null ? null : to - from);
  const received = line?.received;
  const expected = received?.expected ?? 0;
  const lossPercent = received && expected > 0 ? (received.lost / expected) * 100 : null;
  const rttMs = line?.reports.rttMs ?? null;
  const report: CallReport = {
    to: course.to,
    from: course.from,
    target: course.target,
    startedAt: course.startedAt.toISOString(),
    sipCallId: course.sipCallId,
    answered: course.answeredMs !== null,
    sipStatus: course.sipStatus,
    failure: course.failure,
    endedBy: course.endedBy,
    cause: course.cause,
    ringMs: since(course.invitedMs, course.ringingMs),
    setupMs: since(course.invitedMs, course.answeredMs),
    answerToFirstPacketMs: since(course.answeredMs, line?.firstPacketMs ?? null),
    answerToFirstSoundMs: since(course.answeredMs, line?.firstSoundMs ?? null),
    durationMs: since(course.answeredMs, course.endedMs) ?? 0,
    noticedMs: since(course.quietMs, course.endedMs),
    reoffered: course.reoffered,
    codec: line?.codec ?? null,
    ptimeMs,
    sent: {
      packets: line?.sentPackets ?? 0,
      ...(line?.path.counts ?? { dropped: 0, reordered: 0, duplicated: 0 }),
      digits: course.digitsSent,
      farLossPercent: line?.reports.heard?.lossPercent ?? null,
      farJitterMs: line?.reports.heard?.jitterMs ?? null,
      leftOut: line?.leftOut ?? 0,
      worstLateMs: line?.frameTimer.worstLateMs ?? 0,
    },
    received: {
      packets: received?.packets ?? 0,
      lost: received?.lost ?? 0,
      lossPercent,
      jitterMs: received?.jitterMs ?? null,
      mos:
        received && lossPercent !== null && received.packets >= leastPacketsForMos
          ? meanOpinionScore({
              ...{ lossPercent, burstRatio: received.burstRatio, delayMs: ptimeMs + (rttMs ?? 0) / 2 },
              ...(line?.codec ? { codec: line.codec } : {}),
            })
          : null,
      duplicates: received?.duplicates ?? 0,
      reordered: received?.reordered ?? 0,
      ssrcChanges: received?.ssrcChanges ?? 0,
      malformed: line?.malformed ?? 0,
      foreign: line?.foreign ?? 0,
      codecs: [...(line?.codecsHeard ?? [])],
      clockSkewPpm: line?.heard.clockSkewPpm ?? null,
      digits: line?.digitsHeard ?? '',
    },
    rttMs,
    roundTrip: line ? roundTrip(line) : null,
    heard: listen(line?.heard.samples ?? new Int16Array(0)),
    ok: false,
    problems: [],
  };
  report.problems = problemsOf(report, faults);
  report.ok = report.problems.length === 0;
  return report;
}

/** Searches for each marker from its sending until the next of its kind was sent. */
function roundTrip({ markersSentMs, heard }: PhoneRtp): RoundTrip | null {
  const { samples } = heard;
  const delays: number[] = [];
  for (const [index, sentMs] of markersSentMs) {
    const from = heard.placeAt(sentMs);
    const to = from + ((markerIntervalMs * 2 - 100) / 1000) * sampleRateHz;
    const found = findMarker(markers[index % 2 === 0 ? 0 : 1], samples, from, to);
    if (found) delays.push(heard.arrivalMsOf(found.at) - sentMs);
  }
  if (delays.length === 0) return null;
  const sorted = delays.toSorted((a, b) => a - b);
  return {
    sent: markersSentMs.size,
    found: sorted.length,
    leastMs: sorted[0] ?? 0,
    medianMs: sorted[Math.floor(sorted.length / 2)] ?? 0,
    worstMs: sorted.at(-1) ?? 0,
    eachMs: delays,
  };
}

/** Problems of the call, without its deliberate faults. */
function problemsOf(report: CallReport, faults: CallFaults = {}): string[] {
  if (!report.answered) return [`not answered: ${report.failure ?? report.cause}`];
  const problems: string[] = [];
  const { packets, lossPercent, mos } = report.received;
  if (packets === 0 && faults.oneWay !== 'out') problems.push('no audio came back');
  if (lossPercent !== null && lossPercent > worstLossPercent)
    problems.push(`${lossPercent.toFixed(1)} % of the audio was lost`);
  if (mos !== null && mos < worstMos) problems.push(`MOS ${mos.toFixed(2)} is below ${worstMos}`);
  if (faults.reoffer && report.reoffered !== 200)
    problems.push(`the re-INVITE was ${report.reoffered === null ? 'not answered' : `refused: ${report.reoffered}`}`);
  if (faults.bye === 'lost' && report.endedBy === 'us')
    problems.push('the far side did not notice the end of the audio');
  const noticed = faults.bye === 'lost' || faults.oneWay === 'in' || faults.losesAck;
  if (report.endedBy !== 'us' && !noticed && !goodEnds.includes(report.cause))
    problems.push(`ended by the ${report.endedBy}: ${report.cause}`);
  return problems;
}
