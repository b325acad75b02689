import type { LatePackets, MediaStats } from '../../../media/engine.js';
import type { MediaDelay, StreamStats } from '../../../media/stats.js';
import type { QualityMetrics, Turn } from '../../store/calls/call-records.js';

/** Each has a scale of its own. */
const mosModel: Readonly<Record<string, string>> = {
  ...{ PCMU: 'g107-g711-plc', PCMA: 'g107-g711-plc', G722: 'g107.1-g722', OPUS: 'g107.2-opus' },
};

/**
 * `quality_metrics` of the API from the statistics of a session; `jitter_ms` at the top is the mean of the call. A figure that was not
 * measured is absent, never zero.
 */
export function qualityMetrics(stats: MediaStats | null): QualityMetrics {
  if (stats === null || stats.codec === null) return {};
  const { received, sent } = stats;
  return defined({
    mos: round2(received.mos),
    jitter_ms: received.jitterMeanMs === null ? null : Math.round(received.jitterMeanMs),
    packet_loss: round2(received.lossPercent),
    rtt_ms: stats.rttMs === null ? null : Math.round(stats.rttMs),
    codec: stats.codec,
    ptime_ms: stats.ptimeMs,
    mos_model: received.mos === null && sent.mos === null ? null : (mosModel[stats.codec] ?? null),
    received: defined({
      ...stream(received),
      duplicates: received.duplicates,
      reordered: received.reordered,
      late: received.late,
      ...(stats.codec === 'OPUS' ? { recovered: received.recovered } : {}),
      foreign: received.foreign,
      malformed: received.malformed,
      ssrc_changes: received.ssrcChanges,
    }),
    sent: stream(sent),
    late_packets: latePackets(stats.late),
    echo: echo(stats.echo),
    agent: defined({
      frames_sent: stats.agent.framesSent,
      frames_dropped: stats.agent.framesDropped,
      bytes_received: stats.agent.bytesReceived,
      underruns: stats.agent.underruns,
      skipped_ms: stats.agent.skippedMs,
      garbage: stats.agent.garbage,
    }),
  });
}

// Where the delay of a conversation comes from, hop by hop, and which hop is to blame.

interface HopSpread {
  p50_ms: number;
  p95_ms: number;
  worst_ms: number;
}

/** `audio_delay` of the API. A hop that was not measured is null. */
export interface AudioDelay {
  caller_network: HopSpread | null;
  gateway_uplink: HopSpread | null;
  agent_thinking: HopSpread | null;
  gateway_playout: HopSpread | null;
  /** One sentence; null when no threshold was passed. */
  blame: string | null;
}

type Hop = Exclude<keyof AudioDelay, 'blame'>;

/**
 * What a conversation bears at p95. Network: ITU-T G.114 asks for 150 ms one way. Uplink and playout: two packets. Thinking: listeners take a
 * longer pause than this for a fault of the line.
 */
export const delayThresholdsMs: Readonly<Record<Hop, number>> = {
  caller_network: 300,
  gateway_uplink: 40,
  agent_thinking: 1500,
  gateway_playout: 40,
};

const sentences: Readonly<Record<Hop, string>> = {
  caller_network: "The caller's network delayed the call",
  gateway_uplink: "The gateway delayed the caller's audio on its way to the agent",
  agent_thinking: 'The agent was slow to answer',
  gateway_playout: "The gateway delayed the agent's audio on its way to the caller",
};

/** null when nothing was measured. */
export function audioDelay(delay: MediaDelay | null, turns: readonly Turn[]): AudioDelay | null {
  const hops: Record<Hop, HopSpread | null> = {
    caller_network: hop(delay?.network ?? null),
    gateway_uplink: hop(delay?.uplink ?? null),
    agent_thinking: thinking(turns),
    gateway_playout: hop(delay?.playout ?? null),
  };
  if (Object.values(hops).every((each) => each === null)) return null;
  return { ...hops, blame: blame(hops) };
}

/** `recent_audio_delay` of a sample; null when nothing was measured. The agent's part is in the turns, each at its time. */
export function recentDelay({ network, uplink, playout }: MediaDelay) {
  if (network === null && uplink === null && playout === null) return null;
  return { caller_network: hop(network), gateway_uplink: hop(uplink), gateway_playout: hop(playout) };
}

function hop(spread: MediaDelay['network']): HopSpread | null {
  if (spread === null) return null;
  return { p50_ms: spread.p50Ms, p95_ms: spread.p95Ms, worst_ms: spread.worstMs };
}

/** Percentiles of the agent's response times by nearest rank. */
function thinking(turns: readonly Turn[]): HopSpread | null {
  const responses = turns.flatMap(({ speaker, responseMs }) =>
    speaker === 'agent' && responseMs !== null ? [responseMs] : [],
  );
  if (responses.length === 0) return null;
  responses.sort((a, b) => a - b);
  const at = (share: number) => responses[Math.ceil(share * responses.length) - 1] ?? 0;
  return { p50_ms: at(0.5), p95_ms: at(0.95), worst_ms: at(1) };
}

/** The hop that passed its threshold by the largest factor. */
function blame(hops: Record<Hop, HopSpread | null>): string | null {
  let worst: { name: Hop; p95: number; factor: number } | null = null;
  for (const [name, spread] of Object.entries(hops) as [Hop, HopSpread | null][]) {
    if (spread === null) continue;
    const factor = spread.p95_ms / delayThresholdsMs[name];
    if (factor > (worst?.factor ?? 1)) worst = { name, p95: spread.p95_ms, factor };
  }
  if (worst === null) return null;
  return `${sentences[worst.name]}: ${Math.round(worst.p95)} ms at p95, where ${delayThresholdsMs[worst.name]} ms are the limit.`;
}

/** null when no packet was late. */
function latePackets({ garbageCollection, waitingForCore, ownWork, stopped, agent, unknown }: LatePackets) {
  if (garbageCollection + waitingForCore + ownWork + stopped + agent + unknown === 0) return null;
  return {
    ...{ garbage_collection: garbageCollection, waiting_for_core: waitingForCore, own_work: ownWork, stopped },
    ...{ agent, unknown },
  };
}

/** null when none was found. */
function echo(figures: MediaStats['echo']) {
  if (figures === null) return null;
  const { delayMs, returnLossDb, suppressed, removedDb } = figures;
  return defined({
    delay_ms: Math.round(delayMs),
    return_loss_db: Math.round(returnLossDb),
    suppressed,
    removed_db: removedDb === null ? undefined : Math.round(removedDb),
  });
}

function stream(stats: StreamStats): Record<string, unknown> {
  return defined({
    packets: stats.packets,
    bytes: stats.bytes,
    lost: stats.lost,
    packet_loss: round2(stats.lossPercent),
    jitter_ms: round1(stats.jitterMs),
    jitter_mean_ms: round1(stats.jitterMeanMs),
    jitter_max_ms: round1(stats.jitterMaxMs),
    mos: round2(stats.mos),
  });
}

function defined(record: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null));
}

function round1(value: number | null): number | null {
  return value === null ? null : Math.round(value * 10) / 10;
}

/** MOS and percentages have two decimals: the measurement is not more precise. */
function round2(value: number | null): number | null {
  return value === null ? null : Math.round(value * 100) / 100;
}
