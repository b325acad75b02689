/** The statistics of one session. A figure that was not measured is null. */
import type { DelayCounts } from '../../delay-spread.js';
import type { LatePackets, MediaStats } from '../../engine.js';
import { meanOpinionScore } from '../../quality.js';
import type { Reports } from '../../rtp/reports.js';
import type { RtpSender } from '../../rtp/sender.js';
import type { AgreedMedia } from '../../sdp.js';
import { noLatePackets } from '../lateness.js';
import type { FromPhone } from './from-phone.js';

/** With fewer audio packets a score is not meaningful. */
const leastPackets = 100;

export type AgentFigures = MediaStats['agent'];

export function mediaStats(
  media: AgreedMedia | null,
  inward: FromPhone,
  sender: RtpSender,
  reports: Reports,
  agent: AgentFigures,
  measured: { uplink: DelayCounts; playout: DelayCounts; late: LatePackets; echo: MediaStats['echo'] },
): MediaStats {
  const { stats } = inward;
  const { expected } = stats;
  const ptimeMs = media?.ptimeMs ?? null;
  const delayMs = (reports.rttMs ?? 0) / 2 + (ptimeMs ?? 20);
  // Losses as the agent heard them: late packets count, recovered packets do not.
  const missed = Math.max(0, stats.lost + inward.late - inward.recovered);
  const missedPercent = expected > 0 ? Math.min(100, (missed / expected) * 100) : 0;
  const codec = media?.codec ?? 'PCMU';
  const { heard } = reports;
  return {
    codec: media?.codec ?? null,
    ptimeMs,
    received: {
      packets: stats.packets,
      bytes: stats.bytes,
      lost: expected > 0 ? stats.lost : null,
      lossPercent: expected > 0 ? (stats.lost / expected) * 100 : null,
      jitterMs: stats.jitterMs,
      jitterMeanMs: stats.jitterMeanMs,
      jitterMaxMs: stats.jitterMaxMs,
      mos:
        stats.audioPackets >= leastPackets
          ? meanOpinionScore({ lossPercent: missedPercent, burstRatio: stats.burstRatio, delayMs, codec })
          : null,
      duplicates: stats.duplicates,
      reordered: stats.reordered,
      late: inward.late,
      recovered: inward.recovered,
      foreign: inward.foreign,
      malformed: inward.malformed,
      ssrcChanges: stats.ssrcChanges,
    },
    sent: {
      packets: sender.packets,
      bytes: sender.bytes,
      lost: heard?.lost ?? null,
      lossPercent: heard?.lossPercent ?? null,
      jitterMs: heard?.jitterMs ?? null,
      jitterMeanMs: heard?.jitterMeanMs ?? null,
      jitterMaxMs: heard?.jitterMaxMs ?? null,
      mos:
        heard !== null && sender.packets >= leastPackets
          ? meanOpinionScore({ lossPercent: heard.lossPercent, burstRatio: 1, delayMs, codec })
          : null,
    },
    rttMs: reports.rttMs,
    delay: {
      network: reports.roundTrips.spread,
      uplink: measured.uplink.spread,
      playout: measured.playout.spread,
    },
    recentDelay: {
      network: reports.roundTrips.spreadSinceMark,
      uplink: measured.uplink.spreadSinceMark,
      playout: measured.playout.spreadSinceMark,
    },
    late: { ...measured.late },
    echo: measured.echo,
    agent,
  };
}

/** Statistics of a session that has not reported any. */
export function unknownStats(): MediaStats {
  const jitter = { jitterMs: null, jitterMeanMs: null, jitterMaxMs: null };
  const stream = { packets: 0, bytes: 0, lossPercent: null, lost: null, ...jitter, mos: null };
  return {
    codec: null,
    ptimeMs: null,
    received: {
      ...stream,
      duplicates: 0,
      reordered: 0,
      late: 0,
      recovered: 0,
      foreign: 0,
      malformed: 0,
      ssrcChanges: 0,
    },
    sent: stream,
    rttMs: null,
    delay: { network: null, uplink: null, playout: null },
    recentDelay: { network: null, uplink: null, playout: null },
    late: noLatePackets(),
    echo: null,
    agent: { framesSent: 0, framesDropped: 0, bytesReceived: 0, underruns: 0, skippedMs: 0, garbage: 0 },
  };
}
