/** Our RTP stream: sequence, timestamps that never break, and the packet buffers. One slot after the other, sent or not. */
import { rtpHeaderBytes, sequenceDistance, writeRtpHeader } from './packet.js';
import type { SentFigures } from './reports.js';

const ticksPerMs = 8;
/** The largest packet of Opus; 60 ms of G.711 have 480. */
const largestPayload = 1275;
/** A packet that the kernel does not take at once must not be overwritten by the next. */
const buffers = 8;

export class RtpSender implements SentFigures {
  readonly largestPayload = largestPayload;
  packets = 0;
  bytes = 0;
  firstSequence: number;
  sequencesUsed = 0;
  private sequence: number;
  /** Of the slot that comes next, in eighths of a millisecond. */
  private timestamp: number;
  /** Ticks of the codec's clock in one of ours: what goes out is `timestamp` times this. */
  private scale = 1;
  private coded = false;
  private slotAtMs = Number.NaN;
  private buffer = 0;
  /** Another stream that goes on in ours: how far its numbers are from ours. */
  private relayed: { sequenceAhead: number; timestampAhead: number; endTimestamp: number } | null = null;
  /** All audio that is sent, in `[from, to)` of `bytes`, as the line of the codec has it. `timestamp` in eighths of a millisecond. */
  onSent: (payloadType: number, timestamp: number, bytes: Uint8Array, from: number, to: number) => void = () => {};
  private readonly ring = Array.from({ length: buffers }, () => new Uint8Array(rtpHeaderBytes + largestPayload));

  constructor(
    public ssrc: number,
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

  /** Ticks of the RTP clock in a millisecond. */
  get clockKhz(): number {
    return this.scale * ticksPerMs;
  }

  /** Another clock is another stream (RFC 7160 section 4.1): `ssrc` is its name. Sequence numbers go on. `coded`: not the bytes of the line. */
  changeCodec(clockKhz: number, coded: boolean, ssrc: () => number): void {
    this.coded = coded;
    const scale = clockKhz / ticksPerMs;
    if (scale === this.scale) return;
    this.endRelay();
    this.scale = scale;
    this.ssrc = ssrc();
    this.firstSequence = this.sequence;
    this.sequencesUsed = 0;
  }

  /** Sends `packet` with so much payload. `ticksBack`: an event's packets all carry the timestamp of its beginning. */
  sendPacket(payloadType: number, payloadBytes: number, marker: boolean, ticksBack = 0): void {
    this.put(payloadType, payloadBytes, marker, this.nextSequence(), this.rtpTimestamp(ticksBack));
  }

  /** The same for a packet whose audio is `heard` on the line. */
  sendCoded(payloadType: number, payloadBytes: number, marker: boolean, heard: Uint8Array): void {
    const packet = this.nextPacket(payloadType, payloadBytes, marker, this.nextSequence(), this.rtpTimestamp(0));
    this.send(packet, rtpHeaderBytes + payloadBytes);
    this.onSent(payloadType, this.timestamp, heard, 0, heard.length);
  }

  /** Of the audio in the slot nothing is sent (DTX); those who listen hear it. */
  leaveOut(payloadType: number, heard: Uint8Array): void {
    this.onSent(payloadType, this.timestamp, heard, 0, heard.length);
  }

  /**
   * Sends `packet` as a part of another stream: gaps, order and timestamps of that stream are kept. `restarted`: its numbers say nothing
   * about those before. `ticks`: how long it is by the RTP clock.
   */
  relayPacket(
    payloadType: number,
    payloadBytes: number,
    marker: boolean,
    sequence: number,
    timestamp: number,
    restarted: boolean,
    ticks = payloadBytes,
  ): void {
    const now = this.rtpTimestamp(0);
    if (this.relayed === null || restarted)
      this.relayed = { sequenceAhead: this.sequence - sequence, timestampAhead: now - timestamp, endTimestamp: now };
    const { relayed } = this;
    const ours = (sequence + relayed.sequenceAhead) & 0xffff;
    const oursTimestamp = (timestamp + relayed.timestampAhead) >>> 0;
    if (sequenceDistance(ours, this.sequence) >= 0) {
      this.goOn(ours);
      relayed.endTimestamp = (oursTimestamp + ticks) >>> 0;
    }
    this.put(payloadType, payloadBytes, marker, ours, oursTimestamp);
  }

  /** Our own stream goes on behind what was relayed. */
  endRelay(): void {
    const ahead = this.relayed ? (this.relayed.endTimestamp - this.rtpTimestamp(0)) | 0 : 0;
    if (ahead > 0) this.timestamp = (this.timestamp + Math.ceil(ahead / this.scale)) >>> 0;
    this.relayed = null;
  }

  private nextSequence(): number {
    // Packets of our own in between: what is relayed after them starts anew.
    if (this.relayed) this.endRelay();
    const { sequence } = this;
    this.goOn(sequence);
    return sequence;
  }

  /** `sequence` is used, and what lay before it. */
  private goOn(sequence: number): void {
    const next = (sequence + 1) & 0xffff;
    this.sequencesUsed += (next - this.sequence) & 0xffff;
    this.sequence = next;
  }

  private rtpTimestamp(ticksBack: number): number {
    return Math.imul(this.timestamp - ticksBack, this.scale) >>> 0;
  }

  /** The slot is over, whether something was sent in it or not. */
  endSlot(ptimeMs: number, nowMs: number): void {
    this.slotAtMs = nowMs;
    this.timestamp = (this.timestamp + ptimeMs * ticksPerMs) >>> 0;
  }

  private put(payloadType: number, payloadBytes: number, marker: boolean, sequence: number, timestamp: number): void {
    const packet = this.nextPacket(payloadType, payloadBytes, marker, sequence, timestamp);
    const end = rtpHeaderBytes + payloadBytes;
    this.send(packet, end);
    // What a wideband packet says is told by who knows it.
    if (!this.coded) this.onSent(payloadType, timestamp, packet, rtpHeaderBytes, end);
  }

  private nextPacket(
    payloadType: number,
    payloadBytes: number,
    marker: boolean,
    sequence: number,
    timestamp: number,
  ): Uint8Array {
    const packet = this.packet;
    writeRtpHeader(packet, payloadType, marker, sequence, timestamp, this.ssrc);
    this.packets += 1;
    this.bytes += payloadBytes;
    this.buffer = (this.buffer + 1) % buffers;
    return packet;
  }

  timestampAt(nowMs: number): number {
    const sinceSlotMs = Number.isNaN(this.slotAtMs) ? 0 : nowMs - this.slotAtMs;
    return (this.rtpTimestamp(0) + Math.round(sinceSlotMs * this.clockKhz)) >>> 0;
  }
}
