/**
 * Decodes the packets of a wideband codec, in order: its decoder has a state and must get each packet once. Lost audio is recovered from the
 * next packet or concealed by the decoder, for 60 ms at most.
 */
import type { PhoneCodec } from '../../engine.js';
import { PacketOrder } from '../../rtp/reorder-buffer.js';
import type { WideDecoder } from '../codec/wide-codec.js';
import { bytesOf, sampleFormatOf, ticksPerMs } from '../sample-format.js';

const madeUpAtMostTicks = 60 * ticksPerMs;
/** Of a longer loss, at most the last packet is recovered. */
const longestLossTicks = 1000 * ticksPerMs;

export interface DecodedHooks {
  /** Decoded samples; null for a packet without audio. Valid during the call. Timestamps are in ticks. */
  audio(sequence: number, timestamp: number, bytes: Uint8Array | null, nowMs: number): void;
  /** The packet could not be decoded. */
  malformed(): void;
}

export class DecodedLine {
  /** Lost packets whose audio was recovered from the next one. */
  recovered = 0;
  private nextTimestamp = 0;
  private lastTicks = 0;
  private placed = false;
  private readonly order: PacketOrder;
  private readonly samplesPerTick: number;

  constructor(
    readonly codec: PhoneCodec,
    private readonly decoder: WideDecoder,
    /** Conceals losses. */
    private readonly conceal: boolean,
    private readonly hooks: DecodedHooks,
  ) {
    this.samplesPerTick = sampleFormatOf[codec].sampleRateHz / 1000 / ticksPerMs;
    this.order = new PacketOrder({
      next: (sequence, timestamp, payload, _codec, nowMs, lost) =>
        this.accept(sequence, timestamp, payload, nowMs, lost),
      jumped: () => {
        this.placed = false;
      },
    });
  }

  get late(): number {
    return this.order.late;
  }

  /** `timestamp` in ticks. `payload` null: a packet without audio. */
  packet(sequence: number, timestamp: number, payload: Uint8Array | null, nowMs: number): void {
    this.order.packet(sequence, timestamp, payload, this.codec, nowMs);
  }

  tick(nowMs: number): void {
    this.order.tick(nowMs);
  }

  /** Passes on the waiting packets; the next packet begins a new stream. */
  restart(nowMs: number): void {
    this.order.flush(nowMs);
    this.order.restart();
    this.placed = false;
  }

  private accept(sequence: number, timestamp: number, payload: Uint8Array | null, nowMs: number, lost: number): void {
    if (payload === null) {
      this.hooks.audio(sequence, timestamp, null, nowMs);
      return;
    }
    if (lost > 0 && this.placed) this.makeUp(sequence, timestamp, payload, nowMs);
    const samples = this.decoder.decode(payload);
    if (samples === null || samples.length === 0) {
      this.hooks.malformed();
      return;
    }
    this.tell(sequence, timestamp, samples, nowMs);
  }

  /** Fills the gap between the last packet and this one. */
  private makeUp(sequence: number, timestamp: number, next: Uint8Array, nowMs: number): void {
    const missing = (timestamp - this.nextTimestamp) | 0;
    const each = this.lastTicks;
    if (missing <= 0 || missing > longestLossTicks || each === 0) return;
    const packets = Math.floor(missing / each);
    const madeUp = Math.min(packets - 1, Math.floor(madeUpAtMostTicks / each) - 1);
    const first = this.nextTimestamp;
    for (let i = 0; i < madeUp && this.conceal; i++)
      this.tell((sequence - packets + i) & 0xffff, first + i * each, this.decoder.conceal(this.samples(each)), nowMs);
    if (packets === 0) return;
    const known = this.decoder.recover(next, this.samples(each));
    if (known) this.recovered += 1;
    // After a silence there is nothing to continue, so nothing is concealed.
    const made = known ?? (this.conceal && madeUp === packets - 1 ? this.decoder.conceal(this.samples(each)) : null);
    if (made) this.tell((sequence - 1) & 0xffff, timestamp - each, made, nowMs);
  }

  private samples(ticks: number): number {
    return ticks * this.samplesPerTick;
  }

  private tell(sequence: number, timestamp: number, samples: Int16Array, nowMs: number): void {
    const ticks = samples.length / this.samplesPerTick;
    this.lastTicks = ticks;
    this.nextTimestamp = (timestamp + ticks) >>> 0;
    this.placed = true;
    this.hooks.audio(sequence, timestamp >>> 0, bytesOf(samples), nowMs);
  }
}
