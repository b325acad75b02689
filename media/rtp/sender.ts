/** Our RTP stream: sequence, timestamps that never break, and the packet buffers. One slot after the other, sent or not. */
import { rtpHeaderBytes, sequenceDistance, writeRtpHeader } from './packet.js';
import type { SentFigures } from './reports.js';

const samplesPerMs = 8;
/** 60 ms of G.711. */
const largestPayload = 480;
/** A packet that the kernel does not take at once must not be overwritten by the next. */
const buffers = 8;

export class RtpSender implements SentFigures {
  readonly largestPayload = largestPayload;
  packets = 0;
  bytes = 0;
  readonly firstSequence: number;
  private sequence: number;
  /** Of the slot that comes next. */
  private timestamp: number;
  private slotAtMs = Number.NaN;
  private buffer = 0;
  /** Another stream that goes on in ours: how far its numbers are from ours. */
  private relayed: { sequenceAhead: number; timestampAhead: number; endTimestamp: number } | null = null;
  /** Everything that is sent, with where its packet ends; the payload starts at `rtpHeaderBytes`. */
  onSent: (payloadType: number, timestamp: number, packet: Uint8Array, length: number) => void = () => {};
  private readonly ring = Array.from({ length: buffers }, () => new Uint8Array(rtpHeaderBytes + largestPayload));

  constructor(
    readonly ssrc: number,
    firstSequence: number,
    firstTimestamp: number,
    private readonly send: (packet: Uint8Array, length: number) => void,
  ) {
    this.firstSequence = firstSequence;
    this.sequence = firstSequence;
    this.timestamp = firstTimestamp;
  }

  /** The next packet; its payload starts at `rtpHeaderBytes`. */
  get packet(): Uint8Array {
    return this.ring[this.buffer]!;
  }

  /** Sends `packet` with so much payload. `samplesBack`: an event's packets all carry the timestamp of its beginning. */
  sendPacket(payloadType: number, payloadBytes: number, marker: boolean, samplesBack = 0): void {
    // Packets of our own in between: what is relayed after them starts anew.
    if (this.relayed) this.endRelay();
    const { sequence } = this;
    this.sequence = (sequence + 1) & 0xffff;
    this.put(payloadType, payloadBytes, marker, sequence, (this.timestamp - samplesBack) >>> 0);
  }

  /**
   * Sends `packet` as a part of another stream: gaps, order and timestamps of that stream are kept. `restarted`: its numbers say nothing
   * about those before.
   */
  relayPacket(
    payloadType: number,
    payloadBytes: number,
    marker: boolean,
    sequence: number,
    timestamp: number,
    restarted: boolean,
  ): void {
    if (this.relayed === null || restarted) {
      this.relayed = {
        sequenceAhead: this.sequence - sequence,
        timestampAhead: this.timestamp - timestamp,
        endTimestamp: this.timestamp,
      };
    }
    const { relayed } = this;
    const ours = (sequence + relayed.sequenceAhead) & 0xffff;
    const oursTimestamp = (timestamp + relayed.timestampAhead) >>> 0;
    if (sequenceDistance(ours, this.sequence) >= 0) {
      this.sequence = (ours + 1) & 0xffff;
      relayed.endTimestamp = (oursTimestamp + payloadBytes) >>> 0;
    }
    this.put(payloadType, payloadBytes, marker, ours, oursTimestamp);
  }

  /** Our own stream goes on behind what was relayed. */
  endRelay(): void {
    if (this.relayed && ((this.relayed.endTimestamp - this.timestamp) | 0) > 0) {
      this.timestamp = this.relayed.endTimestamp;
    }
    this.relayed = null;
  }

  /** The slot is over, whether something was sent in it or not. */
  endSlot(ptimeMs: number, nowMs: number): void {
    this.slotAtMs = nowMs;
    this.timestamp = (this.timestamp + ptimeMs * samplesPerMs) >>> 0;
  }

  private put(payloadType: number, payloadBytes: number, marker: boolean, sequence: number, timestamp: number): void {
    const packet = this.packet;
    writeRtpHeader(packet, payloadType, marker, sequence, timestamp, this.ssrc);
    this.packets += 1;
    this.bytes += payloadBytes;
    this.buffer = (this.buffer + 1) % buffers;
    this.send(packet, rtpHeaderBytes + payloadBytes);
    this.onSent(payloadType, timestamp, packet, rtpHeaderBytes + payloadBytes);
  }

  timestampAt(nowMs: number): number {
    if (Number.isNaN(this.slotAtMs)) return this.timestamp;
    return (this.timestamp + Math.round((nowMs - this.slotAtMs) * samplesPerMs)) >>> 0;
  }
}
