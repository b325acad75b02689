import type { MediaStats, StreamStats } from '../../../media/engine.js';
import type { QualityMetrics } from '../../store/calls/call-records.js';

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
    agent: defined({
      frames_sent: stats.agent.framesSent,
      bytes_received: stats.agent.bytesReceived,
      underruns: stats.agent.underruns,
      skipped_ms: stats.agent.skippedMs,
      garbage: stats.agent.garbage,
    }),
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
