/** Our RTP stream: sequence, timestamps that never break, and the packet buffers. One slot after the other, sent or not. */
import { rtpHeaderBytes, writeRtpHeader } from './packet.js';
import type { SentFigures } from './reports.js';

const samplesPerMs = 8;
/** 60 ms of G.711. */
const largestPayload = 480;
/** A packet that the kernel does not take at once must not be overwritten by the next. */
const buffers = 8;

export class RtpSender implements SentFigures {
  packets = 0;
  bytes = 0;
  readonly firstSequence: number;
  private sequence: number;
  /** Of the slot that comes next. */
  private timestamp: number;
  private slotAtMs = Number.NaN;
  private buffer = 0;
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
    const packet = this.packet;
    writeRtpHeader(packet, payloadType, marker, this.sequence, (this.timestamp - samplesBack) >>> 0, this.ssrc);
    this.sequence = (this.sequence + 1) & 0xffff;
    this.packets += 1;
    this.bytes += payloadBytes;
    this.buffer = (this.buffer + 1) % buffers;
    this.send(packet, rtpHeaderBytes + payloadBytes);
  }

  /** The slot is over, whether something was sent in it or not. */
  endSlot(ptimeMs: number, nowMs: number): void {
    this.slotAtMs = nowMs;
    this.timestamp = (this.timestamp + ptimeMs * samplesPerMs) >>> 0;
  }

  timestampAt(nowMs: number): number {
    if (Number.isNaN(this.slotAtMs)) return this.timestamp;
    return (this.timestamp + Math.round((nowMs - this.slotAtMs) * samplesPerMs)) >>> 0;
  }
}
