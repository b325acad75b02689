/** Receiver statistics by RFC 3550 appendices A.1, A.3 and A.8. The caller passes all times. */
import { burstRatio } from '../quality.js';
import { type RtpView, sequenceDistance } from './packet.js';
import type { SteadyStream } from './steady-stream.js';

/** Larger jumps mean a restarted sender, not loss (A.1). */
const maxDropout = 3000;
const maxMisorder = 100;
const windowSize = 128;

export type Arrival = 'next' | 'gap' | 'reordered' | 'duplicate' | 'restart' | 'suspect';

/** Figures of a report block (RFC 3550 section 6.4.1). */
export interface ReportFigures {
  fractionLost: number;
  cumulativeLost: number;
  highestSequence: number;
  jitter: number;
}

export class ReceiverStats {
  packets = 0;
  /** Audio packets among them, without events, comfort noise and duplicates. */
  audioPackets = 0;
  bytes = 0;
  duplicates = 0;
  reordered = 0;
  ssrcChanges = 0;
  private clockKhz = 8;
  ssrc: number | null = null;
  private highest = 0;
  private base = 0;
  private expectedSequence = -1;
  private receivedOfSource = 0;
  /** Total of earlier sources. */
  private expectedBefore = 0;
  private lossRuns = 0;
  private jitterTimes16 = 0;
  private jitterSamples = 0;
  private differencesMs = 0;
  /** The largest value of `jitterMs`. */
  private worstJitterMs = 0;
  private lastArrivalMs = Number.NaN;
  private lastTimestamp = 0;
  private expectedAtReport = 0;
  private receivedAtReport = 0;
  private readonly seen = new Float64Array(windowSize).fill(-1);

  /** The stream continues with a codec of another clock rate. */
  changeClock(clockKhz: number): void {
    if (clockKhz === this.clockKhz) return;
    this.jitterTimes16 = Math.round((this.jitterTimes16 * clockKhz) / this.clockKhz);
    this.clockKhz = clockKhz;
    this.lastArrivalMs = Number.NaN;
  }

  /** `paced`: the timestamp advances with the clock; false for telephone-event, whose timestamp stands still. */
  arrived(packet: RtpView, nowMs: number, paced: boolean): Arrival {
    const arrival = packet.ssrc === this.ssrc ? this.place(packet.sequence) : this.startSource(packet);
    if (arrival === 'suspect') return arrival;
    this.packets += 1;
    this.receivedOfSource += 1;
    this.bytes += packet.payloadEnd - packet.payloadStart;
    if (arrival === 'duplicate') {
      this.duplicates += 1;
      return arrival;
    }
    if (arrival === 'reordered') this.reordered += 1;
    if (paced) {
      this.audioPackets += 1;
      this.measureJitter(packet.timestamp, nowMs);
    }
    return arrival;
  }

  /** Counts a run of audio packets that continued the stream. */
  continued(run: SteadyStream): void {
    const { packets } = run;
    this.packets += packets;
    this.audioPackets += packets;
    this.receivedOfSource += packets;
    this.bytes += packets * run.payloadBytes;
    this.highest += packets;
    this.expectedSequence = -1;
    for (let i = 0; i < packets && i < windowSize; i++) {
      const extended = this.highest - i;
      this.seen[extended % windowSize] = extended;
    }
    this.jitterSamples += packets;
    this.jitterTimes16 = run.jitterTimes16;
    this.differencesMs += run.differences / this.clockKhz;
    this.worstJitterMs = Math.max(this.worstJitterMs, run.worstTimes16 / 16 / this.clockKhz);
    this.lastArrivalMs = run.arrivedMs;
    this.lastTimestamp = run.timestamp >>> 0;
  }

  /** `jitterMs` in RTP ticks, times 16. */
  get jitter16(): number {
    return this.jitterTimes16;
  }

  get expected(): number {
    return this.expectedBefore + (this.ssrc === null ? 0 : this.highest - this.base + 1);
  }

  /** Packets that never arrived; duplicates do not make up for them. */
  get lost(): number {
    return Math.max(0, this.expected - (this.packets - this.duplicates));
  }

  get burstRatio(): number {
    return burstRatio(this.lost, this.lossRuns, this.expected);
  }

  /** The current estimate of RFC 3550 A.8. null before two packets with an advancing timestamp. */
  get jitterMs(): number | null {
    return this.jitterSamples === 0 ? null : this.jitterTimes16 / 16 / this.clockKhz;
  }

  /** Mean over the call of the transit time differences D(i-1,i) that `jitterMs` smooths (RFC 3550 section 6.4.1). */
  get jitterMeanMs(): number | null {
    return this.jitterSamples === 0 ? null : this.differencesMs / this.jitterSamples;
  }

  /** The largest value of `jitterMs` in the call. */
  get jitterMaxMs(): number | null {
    return this.jitterSamples === 0 ? null : this.worstJitterMs;
  }

  /** The figures since the last report, for our report block. */
  report(): ReportFigures {
    const expected = this.highest - this.base + 1;
    const expectedInterval = expected - this.expectedAtReport;
    const lostInterval = expectedInterval - (this.receivedOfSource - this.receivedAtReport);
    this.expectedAtReport = expected;
    this.receivedAtReport = this.receivedOfSource;
    const cumulative = expected - this.receivedOfSource;
    return {
      fractionLost:
        expectedInterval <= 0 || lostInterval <= 0
          ? 0
          : Math.min(255, Math.floor((lostInterval * 256) / expectedInterval)),
      cumulativeLost: Math.max(-0x800000, Math.min(0x7fffff, cumulative)),
      // Our numbers start one cycle ahead; the far side counts from its own first cycle (A.3).
      highestSequence: (this.highest - 0x10000) >>> 0,
      jitter: this.jitterTimes16 >> 4,
    };
  }

  private startSource(packet: RtpView): Arrival {
    if (this.ssrc !== null) this.ssrcChanges += 1;
    this.restart(packet.sequence);
    this.ssrc = packet.ssrc;
    this.lastArrivalMs = Number.NaN;
    return 'restart';
  }

  private restart(sequence: number): void {
    if (this.ssrc !== null) this.expectedBefore += this.highest - this.base + 1;
    // The low 16 bits are the sequence number; one cycle ahead, so that reordered first packets stay positive.
    this.highest = 0x10000 + sequence;
    this.base = this.highest;
    this.expectedSequence = -1;
    this.receivedOfSource = 0;
    this.expectedAtReport = 0;
    this.receivedAtReport = 0;
    this.seen.fill(-1);
    this.seen[this.highest % windowSize] = this.highest;
  }

  private place(sequence: number): Arrival {
    const distance = sequenceDistance(sequence, this.highest & 0xffff);
    const extended = this.highest + distance;
    if (distance > 0 && distance < maxDropout) {
      if (distance > 1) this.lossRuns += 1;
      this.highest = extended;
      this.seen[extended % windowSize] = extended;
      this.expectedSequence = -1;
      return distance === 1 ? 'next' : 'gap';
    }
    if (distance <= 0 && distance > -maxMisorder) {
      if (this.has(extended)) return 'duplicate';
      this.seen[extended % windowSize] = extended;
      if (extended < this.base) this.base = extended;
      // Filling a gap ends a loss run, shortens one, or splits it in two.
      else this.lossRuns += 1 - Number(this.has(extended - 1)) - Number(this.has(extended + 1));
      return 'reordered';
    }
    // A far jump counts only when the next packet confirms it (A.1).
    if (sequence !== this.expectedSequence) {
      this.expectedSequence = (sequence + 1) & 0xffff;
      return 'suspect';
    }
    this.restart(sequence);
    this.lastArrivalMs = Number.NaN;
    return 'restart';
  }

  private has(extended: number): boolean {
    return this.seen[extended % windowSize] === extended;
  }

  private measureJitter(timestamp: number, nowMs: number): void {
    const arrivedBefore = this.lastArrivalMs;
    const stamped = (timestamp - this.lastTimestamp) | 0;
    this.lastArrivalMs = nowMs;
    this.lastTimestamp = timestamp;
    if (Number.isNaN(arrivedBefore)) return;
    const difference = Math.abs(Math.round((nowMs - arrivedBefore) * this.clockKhz) - stamped);
    // A larger difference is a jump of the sender's clock.
    if (difference > 1000 * this.clockKhz) return;
    this.jitterSamples += 1;
    this.jitterTimes16 += difference - ((this.jitterTimes16 + 8) >> 4);
    this.differencesMs += difference / this.clockKhz;
    this.worstJitterMs = Math.max(this.worstJitterMs, this.jitterTimes16 / 16 / this.clockKhz);
  }
}
