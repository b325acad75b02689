/** Our RTP stream: sequence numbers, timestamps without breaks, and the packet's memory. It advances by slots, sent or not. */
import { rtpHeaderBytes, sequenceDistance, writeRtpHeader } from './packet.js';
import type { SentFigures } from './reports.js';

const ticksPerMs = 8;
/** The largest packet of Opus; 60 ms of G.711 have 480 bytes. */
const largestPayload = 1275;

/**
 * The packet of the slot that is being sent, of any call of the thread: it is made and sent within one call of a function. `sent` is the part
 * of it that was sent last: most packets have the same length, and need no new view.
 */
let room = new Uint8Array(rtpHeaderBytes + largestPayload);
let sent = room;

export interface RtpSenderHooks {
  /** Sends a packet, which has no other bytes. Its memory is used again for the next packet, unless `leaveMemory` is called. */
  transmit(packet: Uint8Array): void;
  /** All audio that is sent, in `[from, to)` of `bytes`, in the codec's sample format. `timestamp` in eighths of a millisecond. */
  transmitted?(payloadType: number, timestamp: number, bytes: Uint8Array, from: number, to: number): void;
}

export class RtpSender implements SentFigures {
  readonly largestPayload = largestPayload;
  packets = 0;
  bytes = 0;
  firstSequence: number;
  sequencesUsed = 0;
  private sequence: number;
  /** Of the next slot, in eighths of a millisecond. */
  private timestamp: number;
  /** RTP clock ticks per eighth of a millisecond: the RTP timestamp is `timestamp` times this. */
  private scale = 1;
  private coded = false;
  private slotAtMs = Number.NaN;
  /** A relayed stream that continues in ours: the offsets from its numbers to ours. */
  private relayed: { sequenceAhead: number; timestampAhead: number; endTimestamp: number } | null = null;

  constructor(
    public ssrc: number,
    firstSequence: number,
    firstTimestamp: number,
    private readonly hooks: RtpSenderHooks,
  ) {
    this.firstSequence = firstSequence;
    this.sequence = firstSequence;
    this.timestamp = firstTimestamp;
  }

  /** Buffer of the next packet; its payload starts at `rtpHeaderBytes`. */
  get packet(): Uint8Array {
    return room;
  }

  /** The kernel has not taken the last packet yet: later ones get other memory. */
  leaveMemory(): void {
    room = new Uint8Array(rtpHeaderBytes + largestPayload);
  }

  /** Ticks of the RTP clock per millisecond. */
  get clockKhz(): number {
    return this.scale * ticksPerMs;
  }

  /** Another clock rate needs a new SSRC (RFC 7160 section 4.1); sequence numbers continue. `coded`: the payload is not in the sample format. */
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

  /** Sends `packet` with `payloadBytes` of payload. `ticksBack`: all packets of an event carry the timestamp of its start. */
  sendPacket(payloadType: number, payloadBytes: number, marker: boolean, ticksBack = 0): void {
    this.put(payloadType, payloadBytes, marker, this.nextSequence(), this.rtpTimestamp(ticksBack));
  }

  /** Sends a wideband packet, whose audio before encoding is `heard`. */
  sendCoded(payloadType: number, payloadBytes: number, marker: boolean, heard: Uint8Array): void {
    this.hooks.transmit(this.nextPacket(payloadType, payloadBytes, marker, this.nextSequence(), this.rtpTimestamp(0)));
    this.hooks.transmitted?.(payloadType, this.timestamp, heard, 0, heard.length);
  }

  /** Sends nothing for the slot (DTX), but passes its audio on. */
  leaveOut(payloadType: number, heard: Uint8Array): void {
    this.hooks.transmitted?.(payloadType, this.timestamp, heard, 0, heard.length);
  }

  /**
   * Sends `packet` as part of another stream, keeping that stream's gaps, order and timestamps. `restarted`: its numbers do not continue the
   * earlier ones. `ticks`: its duration by the RTP clock.
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

  /** Our own stream continues after the relayed packets. */
  endRelay(): void {
    const ahead = this.relayed ? (this.relayed.endTimestamp - this.rtpTimestamp(0)) | 0 : 0;
    if (ahead > 0) this.timestamp = (this.timestamp + Math.ceil(ahead / this.scale)) >>> 0;
    this.relayed = null;
  }

  private nextSequence(): number {
    // Own packets in between: packets relayed later get new offsets.
    if (this.relayed) this.endRelay();
    const { sequence } = this;
    this.goOn(sequence);
    return sequence;
  }

  /** Marks `sequence` and all numbers before it as used. */
  private goOn(sequence: number): void {
    const next = (sequence + 1) & 0xffff;
    this.sequencesUsed += (next - this.sequence) & 0xffff;
    this.sequence = next;
  }

  private rtpTimestamp(ticksBack: number): number {
    return Math.imul(this.timestamp - ticksBack, this.scale) >>> 0;
  }

  /** Ends the slot, whether or not a packet was sent in it. */
  endSlot(ptimeMs: number, nowMs: number): void {
    this.slotAtMs = nowMs;
    this.timestamp = (this.timestamp + ptimeMs * ticksPerMs) >>> 0;
  }

  private put(payloadType: number, payloadBytes: number, marker: boolean, sequence: number, timestamp: number): void {
    const packet = this.nextPacket(payloadType, payloadBytes, marker, sequence, timestamp);
    this.hooks.transmit(packet);
    // The audio of a wideband packet is reported by `sendCoded` and `relayed`.
    if (!this.coded) this.hooks.transmitted?.(payloadType, timestamp, packet, rtpHeaderBytes, packet.length);
  }

  private nextPacket(
    payloadType: number,
    payloadBytes: number,
    marker: boolean,
    sequence: number,
    timestamp: number,
  ): Uint8Array {
    const length = rtpHeaderBytes + payloadBytes;
    if (sent.length !== length || sent.buffer !== room.buffer) sent = room.subarray(0, length);
    writeRtpHeader(sent, payloadType, marker, sequence, timestamp, this.ssrc);
    this.packets += 1;
    this.bytes += payloadBytes;
    return sent;
  }

  timestampAt(nowMs: number): number {
    const sinceSlotMs = Number.isNaN(this.slotAtMs) ? 0 : nowMs - this.slotAtMs;
    return (this.rtpTimestamp(0) + Math.round(sinceSlotMs * this.clockKhz)) >>> 0;
  }
}
