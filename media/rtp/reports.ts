/** When our RTCP reports go out, and what the far side's reports say of us: loss, jitter, round trip (RFC 3550 section 6.4.1). */
import type { ReceiverStats } from './receiver-stats.js';
import { type RtcpReading, writeRtcp } from './rtcp.js';

const intervalMs = 5000;
const secondsFrom1900To1970 = 2_208_988_800;

/** What we sent, as the sender counts it. */
export interface SentFigures {
  ssrc: number;
  /** Of its RTP timestamps. */
  clockKhz: number;
  packets: number;
  bytes: number;
  /** Extended sequence number of the first packet. */
  firstSequence: number;
  /** RTP timestamp that belongs to `nowMs`. */
  timestampAt(nowMs: number): number;
}

export class Reports {
  rttMs: number | null = null;
  /** What the far side's last report block says of our stream. */
  heard: { lost: number; lossPercent: number | null; jitterMs: number } | null = null;
  /** Packets the far side says it sent; tells a one-way fault from a silent peer. */
  farPackets: number | null = null;
  private nextAtMs = Number.POSITIVE_INFINITY;
  private lastSenderReport = 0;
  private lastSenderReportAtMs = 0;
  private packetsAtReport = 0;

  constructor(
    private readonly cname: string,
    /** Wall clock of the monotonic zero, in ms since 1970. */
    private readonly wallOffsetMs: number,
    private readonly random: () => number = Math.random,
  ) {}

  start(nowMs: number): void {
    if (this.nextAtMs === Number.POSITIVE_INFINITY) this.nextAtMs = nowMs + this.interval() / 2;
  }

  /** The compound packet that is due now, or null. */
  due(nowMs: number, sent: SentFigures, received: ReceiverStats): Uint8Array | null {
    if (nowMs < this.nextAtMs) return null;
    this.nextAtMs = nowMs + this.interval();
    return this.write(nowMs, sent, received, false);
  }

  /** Our last words. */
  bye(nowMs: number, sent: SentFigures, received: ReceiverStats): Uint8Array {
    this.nextAtMs = Number.POSITIVE_INFINITY;
    return this.write(nowMs, sent, received, true);
  }

  read(reading: RtcpReading, nowMs: number, sent: SentFigures): void {
    if (reading.senderReport) {
      this.lastSenderReport = reading.senderReport.middleNtp;
      this.lastSenderReportAtMs = nowMs;
      this.farPackets = reading.senderReport.packets;
    }
    for (const block of reading.blocks) {
      if (block.ssrc !== sent.ssrc) continue;
      const expected = (block.highestSequence - sent.firstSequence + 1) | 0;
      this.heard = {
        lost: block.cumulativeLost,
        lossPercent: expected > 0 ? Math.min(100, Math.max(0, (block.cumulativeLost / expected) * 100)) : null,
        jitterMs: block.jitter / sent.clockKhz,
      };
      if (block.lastSenderReport === 0) continue;
      const round = (this.middleNtp(nowMs) - block.lastSenderReport - block.delaySinceLast) | 0;
      // A negative or minute-long round trip is a far side that miscounts its delay.
      if (round >= 0 && round < 60 * 65536) this.rttMs = (round / 65536) * 1000;
    }
  }

  private write(nowMs: number, sent: SentFigures, received: ReceiverStats, bye: boolean): Uint8Array {
    const ntpMs = this.wallOffsetMs + nowMs;
    const active = sent.packets > this.packetsAtReport;
    this.packetsAtReport = sent.packets;
    const sinceLast =
      this.lastSenderReport === 0 ? 0 : Math.round(((nowMs - this.lastSenderReportAtMs) / 1000) * 65536);
    return writeRtcp({
      ssrc: sent.ssrc,
      cname: this.cname,
      sender: active
        ? {
            ntpSeconds: Math.floor(ntpMs / 1000) + secondsFrom1900To1970,
            ntpFraction: Math.floor(((ntpMs % 1000) / 1000) * 2 ** 32),
            rtpTimestamp: sent.timestampAt(nowMs),
            packets: sent.packets,
            bytes: sent.bytes,
          }
        : null,
      block:
        received.ssrc === null
          ? null
          : {
              ssrc: received.ssrc,
              ...received.report(),
              lastSenderReport: this.lastSenderReport,
              delaySinceLast: sinceLast,
            },
      bye,
    });
  }

  private middleNtp(nowMs: number): number {
    const ntpMs = this.wallOffsetMs + nowMs;
    const seconds = Math.floor(ntpMs / 1000) + secondsFrom1900To1970;
    return (((seconds & 0xffff) << 16) | Math.floor(((ntpMs % 1000) / 1000) * 65536)) >>> 0;
  }

  /** Between half and one and a half of the interval (section 6.2), so that calls do not report in step. */
  private interval(): number {
    return intervalMs * (0.5 + this.random());
  }
}
