/**
 * Predicts the header of a stream's next packet, as receivers of TCP do: nearly every packet continues the one before. Such a packet is
 * recognized by its twelve bytes and its source, and counted here; what else keeps numbers of the stream learns of a whole run together.
 */
import { type RtpView, readUint32, rtpHeaderBytes } from './packet.js';

/** After a longer pause nothing is predicted: the phone may use DTX, or our thread stood still. */
const longestPauseMs = 100;

/** Whole numbers of 32 bits, which need no memory of their own. */
export class SteadyStream {
  /** Packets of the run. */
  packets = 0;
  /** Of the last packet. */
  sequence = 0;
  timestamp = 0;
  arrivedMs = 0;
  /** Payload of each packet, and the clock ticks between two. */
  payloadBytes = 0;
  ticks = 0;
  /** Sum of the run's transit time differences in clock ticks; the estimate of RFC 3550 A.8 times 16, and its largest value in the run. */
  differences = 0;
  jitterTimes16 = 0;
  worstTimes16 = 0;
  private predicts = false;
  private second = 0;
  private ssrc = 0;
  private clockKhz = 0;
  private address = '';
  private port = 0;

  /** `view` is a packet without CSRC, extension and padding; the next ones are predicted to have as much audio. */
  begin(view: RtpView, clockKhz: number, ticks: number, jitterTimes16: number, from: Source, nowMs: number): void {
    this.predicts = true;
    this.packets = 0;
    this.sequence = view.sequence;
    this.timestamp = view.timestamp | 0;
    this.arrivedMs = nowMs;
    this.payloadBytes = view.payloadEnd - view.payloadStart;
    this.ticks = ticks;
    this.differences = 0;
    this.jitterTimes16 = jitterTimes16;
    this.worstTimes16 = jitterTimes16;
    this.second = view.payloadType;
    this.ssrc = view.ssrc | 0;
    this.clockKhz = clockKhz;
    this.address = from.address;
    this.port = from.port;
  }

  /** Predicts nothing more. The run stays to be counted. */
  end(): void {
    this.predicts = false;
  }

  /** The run was counted elsewhere. */
  counted(): void {
    this.packets = 0;
    this.differences = 0;
    this.worstTimes16 = this.jitterTimes16;
  }

  /** True when the packet continues the stream; it then belongs to the run. */
  takes(packet: Uint8Array, from: Source, nowMs: number): boolean {
    const sequence = (this.sequence + 1) & 0xffff;
    const timestamp = (this.timestamp + this.ticks) | 0;
    if (
      !this.predicts ||
      packet.length !== rtpHeaderBytes + this.payloadBytes ||
      packet[0] !== 0x80 ||
      packet[1] !== this.second ||
      ((packet[2]! << 8) | packet[3]!) !== sequence ||
      (readUint32(packet, 4) | 0) !== timestamp ||
      (readUint32(packet, 8) | 0) !== this.ssrc ||
      from.port !== this.port ||
      nowMs - this.arrivedMs >= longestPauseMs ||
      from.address !== this.address
    )
      return false;
    const difference = Math.abs(Math.round((nowMs - this.arrivedMs) * this.clockKhz) - this.ticks);
    this.differences += difference;
    this.jitterTimes16 += difference - ((this.jitterTimes16 + 8) >> 4);
    if (this.jitterTimes16 > this.worstTimes16) this.worstTimes16 = this.jitterTimes16;
    this.sequence = sequence;
    this.timestamp = timestamp;
    this.arrivedMs = nowMs;
    this.packets += 1;
    return true;
  }
}

interface Source {
  address: string;
  port: number;
}
