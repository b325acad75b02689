/** Puts packets in order. A packet in order passes at once; behind a missing one at most two wait, for at most 40 ms. No clock of its own. */
import type { PhoneCodec } from '../engine.js';
import { sequenceDistance } from './packet.js';

const waitingAtMost = 2;
const waitAtMostMs = 40;
const farJump = 50;

interface Waiting {
  sequence: number;
  timestamp: number;
  payload: Uint8Array | null;
  codec: PhoneCodec;
  sinceMs: number;
}

export interface OrderHooks {
  /** `lost`: number of missing packets before this one. */
  next(
    sequence: number,
    timestamp: number,
    payload: Uint8Array | null,
    codec: PhoneCodec,
    nowMs: number,
    lost: number,
  ): void;
  /** The sequence numbers do not continue those before. */
  jumped(nowMs: number): void;
}

export class PacketOrder {
  /** Packets that arrived after a later packet was passed on. */
  late = 0;
  /** How long the packet that was passed on last had waited for an earlier one. */
  waitedMs = 0;
  private nextSequence = -1;
  private readonly waiting: Waiting[] = [];

  constructor(private readonly hooks: OrderHooks) {}

  /** Starts anew with the next packet. */
  restart(): void {
    this.nextSequence = -1;
    this.waiting.length = 0;
  }

  /** The payload is copied when the packet has to wait. */
  packet(sequence: number, timestamp: number, payload: Uint8Array | null, codec: PhoneCodec, nowMs: number): void {
    const distance = this.nextSequence < 0 ? 0 : sequenceDistance(sequence, this.nextSequence);
    if (Math.abs(distance) > farJump) {
      this.flush(nowMs);
      this.restart();
      this.hooks.jumped(nowMs);
    } else if (distance < 0) {
      this.late += 1;
      return;
    } else if (distance > 0) {
      this.hold({ sequence, timestamp, payload: payload && Uint8Array.from(payload), codec, sinceMs: nowMs });
      if (this.waiting.length > waitingAtMost) this.flush(nowMs);
      return;
    }
    this.waitedMs = 0;
    this.take(sequence, timestamp, payload, codec, nowMs);
    while (this.waiting.length > 0 && this.waiting[0]!.sequence === this.nextSequence) this.takeWaiting(nowMs);
  }

  tick(nowMs: number): void {
    if (this.waiting.length > 0 && nowMs - this.waiting[0]!.sinceMs >= waitAtMostMs) this.flush(nowMs);
  }

  /** Passes on the waiting packets without the missing ones. */
  flush(nowMs: number): void {
    while (this.waiting.length > 0) this.takeWaiting(nowMs);
  }

  private hold(packet: Waiting): void {
    let at = this.waiting.length;
    while (at > 0 && sequenceDistance(packet.sequence, this.waiting[at - 1]!.sequence) < 0) at -= 1;
    if (this.waiting[at - 1]?.sequence !== packet.sequence) this.waiting.splice(at, 0, packet);
  }

  private takeWaiting(nowMs: number): void {
    const { sequence, timestamp, payload, codec, sinceMs } = this.waiting.shift()!;
    this.waitedMs = nowMs - sinceMs;
    this.take(sequence, timestamp, payload, codec, nowMs);
  }

  private take(
    sequence: number,
    timestamp: number,
    payload: Uint8Array | null,
    codec: PhoneCodec,
    nowMs: number,
  ): void {
    const lost = this.nextSequence < 0 ? 0 : sequenceDistance(sequence, this.nextSequence);
    this.nextSequence = (sequence + 1) & 0xffff;
    this.hooks.next(sequence, timestamp, payload, codec, nowMs, lost);
  }
}
