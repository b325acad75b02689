/**
 * Schedules our RTCP reports and reads the far side's reports on our stream: loss, jitter, round trip time (RFC 3550 section 6.4.1). A
 * report block that contradicts what we sent is rejected.
 */
import { DelayCounts } from '../delay-spread.js';
import type { ReceiverStats } from './receiver-stats.js';
import { type ReportBlock, type RtcpReading, writeRtcp } from './rtcp.js';

const intervalMs = 5000;
const secondsFrom1900To1970 = 2_208_988_800;
/** A larger value is no jitter; the field must hold something else. */
const mostJitterMs = 10_000;

/** What we sent, as counted by the sender. */
export interface SentFigures {
  ssrc: number;
  /** Clock of its RTP timestamps. */
  clockKhz: number;
  packets: number;
  bytes: number;
  /** Sequence number of the first packet of this SSRC, and how many numbers were used since, including gaps of a relayed stream. */
  firstSequence: number;
  sequencesUsed: number;
  /** The RTP timestamp for `nowMs`. */
  timestampAt(nowMs: number): number;
}

/** The far side's report blocks on our stream: the last one, and jitter over all of them. */
export interface HeardFigures {
  lost: number;
  /** 0–100. */
  lossPercent: number;
  jitterMs: number;
  jitterMeanMs: number;
  jitterMaxMs: number;
}

export class Reports {
  rttMs: number | null = null;
  readonly roundTrips = new DelayCounts();
  heard: HeardFigures | null = null;
  private blocksRead = 0;
  private nextAtMs = Number.POSITIVE_INFINITY;
  private lastSenderReport = 0;
  private lastSenderReportOf: number | null = null;
  private lastSenderReportAtMs = 0;
  private packetsAtReport = 0;

  constructor(
    private readonly cname: string,
    /** Wall clock at the zero of the monotonic clock, in ms since 1970. */
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

  /** The last report, with BYE. */
  bye(nowMs: number, sent: SentFigures, received: ReceiverStats): Uint8Array {
    this.nextAtMs = Number.POSITIVE_INFINITY;
    return this.write(nowMs, sent, received, true);
  }

  /** False when a block about our stream is implausible; that block is ignored. */
  read(reading: RtcpReading, nowMs: number, sent: SentFigures): boolean {
    if (reading.senderReport) {
      this.lastSenderReport = reading.senderReport.middleNtp;
      this.lastSenderReportOf = reading.senderReport.ssrc;
      this.lastSenderReportAtMs = nowMs;
    }
    let plausible = true;
    for (const block of reading.blocks)
      if (block.ssrc === sent.ssrc && !this.readBlock(block, nowMs, sent)) plausible = false;
    return plausible;
  }

  private readBlock(block: ReportBlock, nowMs: number, sent: SentFigures): boolean {
    const highestSent = sent.firstSequence + sent.sequencesUsed - 1;
    const behind = (highestSent - block.highestSequence) & 0xffff;
    // Up to the highest number that the block acknowledges, which is lower than ours when the report is old.
    const expected = sent.sequencesUsed - behind;
    const jitterMs = block.jitter / sent.clockKhz;
    if (block.highestSequence > highestSent || expected < 1) return false;
    if (block.cumulativeLost >= expected || jitterMs > mostJitterMs) return false;
    // Duplicates can make the count of RFC 3550 negative: then nothing is lost.
    const lost = Math.max(0, block.cumulativeLost);
    const before = this.heard ?? { jitterMeanMs: 0, jitterMaxMs: 0 };
    this.blocksRead += 1;
    this.heard = {
      lost,
      lossPercent: (lost / expected) * 100,
      jitterMs,
      jitterMeanMs: before.jitterMeanMs + (jitterMs - before.jitterMeanMs) / this.blocksRead,
      jitterMaxMs: Math.max(before.jitterMaxMs, jitterMs),
    };
    if (block.lastSenderReport === 0) return true;
    const round = (this.middleNtp(nowMs) - block.lastSenderReport - block.delaySinceLast) | 0;
    // A negative or minute-long round trip means that the far side miscounts its delay.
    if (round >= 0 && round < 60 * 65536) {
      this.rttMs = (round / 65536) * 1000;
      this.roundTrips.add(this.rttMs);
    }
    return true;
  }

  private write(nowMs: number, sent: SentFigures, received: ReceiverStats, bye: boolean): Uint8Array {
    const ntpMs = this.wallOffsetMs + nowMs;
    const active = sent.packets > this.packetsAtReport;
    this.packetsAtReport = sent.packets;
    const lastSenderReport = this.lastSenderReportOf === received.ssrc ? this.lastSenderReport : 0;
    const sinceLast = lastSenderReport === 0 ? 0 : Math.round(((nowMs - this.lastSenderReportAtMs) / 1000) * 65536);
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
              lastSenderReport,
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

  /** Between 0.5 and 1.5 intervals (section 6.2), so that calls do not report in step. */
  private interval(): number {
    return intervalMs * (0.5 + this.random());
  }
}
