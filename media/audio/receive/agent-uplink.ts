/**
 * The caller's packets as one line of 20 ms frames for the agent. Packets in order pass at once; behind a missing one at most two
 * wait. The line keeps to the phone's clock: what is lost or not sent (DTX, events) becomes silence, so that an agent that listens
 * for the end of speech hears it. With concealment, what was lost sounds on for a moment first.
 */
import type { PhoneCodec } from '../../engine.js';
import { PacketOrder } from '../../rtp/reorder-buffer.js';
import type { ComfortNoise } from '../dsp/comfort-noise.js';
import { Concealment } from '../dsp/concealment.js';
import { changeLine, lineOf, ticksPerMs } from '../sample-format.js';

const uplinkFrameMs = 20;
const frameTicks = uplinkFrameMs * ticksPerMs;
/** Nothing came for this long: silence is made up by the clock until something does. A shorter stall is delivered in full. */
const silentAfterMs = 200;
/** Ticks of the clock further apart mean that the thread stood still: what came meanwhile waits in the socket, and is not silence. */
const stallMs = 100;
/** Timestamps that jump further are a new line, not a gap. */
const longestGapTicks = 1000 * ticksPerMs;

export class Uplink {
  private running = false;
  private nextTimestamp = 0;
  private placed = false;
  private muted = false;
  private filledUntilMs = 0;
  private lastHeardMs = 0;
  private lastTickMs = 0;
  private sentTicks = 0;
  private bytesPerTick: number;
  private frameBytes: number;
  private frame: Uint8Array;
  private framed = 0;
  /** Only of G.711: what is lost of a wideband codec is made up where it is decoded. */
  private concealment: Concealment | null = null;
  private other: { codec: PhoneCodec; change: (bytes: Uint8Array) => Uint8Array } | null = null;
  private readonly order: PacketOrder;

  constructor(
    private codec: PhoneCodec,
    /** `bytes` are 20 ms in `codec`, valid during the call; `atMs` of the line. */
    private readonly deliver: (bytes: Uint8Array, atMs: number) => void,
    private readonly conceal = false,
    /** What is heard while nothing is sent; without it silence. */
    private readonly noise: ComfortNoise | null = null,
  ) {
    this.bytesPerTick = 0;
    this.frameBytes = 0;
    this.frame = new Uint8Array(0);
    this.takeCodec(codec);
    this.order = new PacketOrder({
      next: (_sequence, timestamp, payload, of, nowMs, lost) => this.accept(timestamp, payload, of, nowMs, lost > 0),
      jumped: () => this.newLine(),
    });
  }

  /** Packets that came after others that followed them: their time was told as silence. */
  get late(): number {
    return this.order.late;
  }

  /** A new line for a new listener. */
  start(nowMs: number): void {
    this.running = true;
    this.placed = false;
    this.order.restart();
    this.framed = 0;
    this.sentTicks = 0;
    this.lastHeardMs = nowMs;
    this.filledUntilMs = nowMs;
  }

  stop(): void {
    this.running = false;
    this.order.restart();
  }

  changeCodec(codec: PhoneCodec): void {
    if (codec === this.codec) return;
    this.framed = 0;
    this.takeCodec(codec);
  }

  /** The far side is on hold: the agent hears silence, not music. */
  mute(muted: boolean): void {
    if (this.muted && !muted) this.placed = false;
    this.muted = muted;
  }

  /** Another sender took over: its numbers say nothing about the old line. */
  restart(): void {
    this.order.flush(this.lastHeardMs);
    this.order.restart();
    this.newLine();
  }

  /**
   * `timestamp` in ticks of the line. `payload` null: a packet without audio (an event, comfort noise) that says that until `timestamp` there
   * is none. The payload may be kept.
   */
  packet(sequence: number, timestamp: number, payload: Uint8Array | null, codec: PhoneCodec, nowMs: number): void {
    if (this.running) this.order.packet(sequence, timestamp, payload, codec, nowMs);
  }

  /** Called every packet time by the clock. */
  tick(nowMs: number): void {
    const sinceTickMs = nowMs - this.lastTickMs;
    this.lastTickMs = nowMs;
    if (!this.running) return;
    if (sinceTickMs > stallMs) this.lastHeardMs = Math.min(nowMs, this.lastHeardMs + sinceTickMs);
    this.order.tick(nowMs);
    if (nowMs - this.lastHeardMs < silentAfterMs) return;
    // One frame behind the wall, so that the packet that ends the silence still finds its place.
    while (this.filledUntilMs + 2 * uplinkFrameMs <= nowMs) {
      this.fill(frameTicks);
      this.nextTimestamp = (this.nextTimestamp + frameTicks) >>> 0;
      this.filledUntilMs += uplinkFrameMs;
    }
  }

  private takeCodec(codec: PhoneCodec): void {
    const { bytesPerMs, linear } = lineOf[codec];
    this.codec = codec;
    this.other = null;
    this.bytesPerTick = bytesPerMs / ticksPerMs;
    this.frameBytes = uplinkFrameMs * bytesPerMs;
    if (this.frame.length !== this.frameBytes) this.frame = new Uint8Array(this.frameBytes);
    if (!this.conceal || linear) this.concealment = null;
    else if (this.concealment) this.concealment.reset(codec);
    else this.concealment = new Concealment(codec, Uint8Array);
  }

  private newLine(): void {
    this.concealment?.reset(this.codec);
    this.placed = false;
  }

  private accept(timestamp: number, payload: Uint8Array | null, codec: PhoneCodec, nowMs: number, lost: boolean): void {
    if (this.muted) return;
    const ahead = this.placed ? (timestamp - this.nextTimestamp) | 0 : 0;
    const gap = ahead > 0 && ahead <= longestGapTicks;
    if (payload === null) {
      // The silence under a key goes out with its packets, and not as one burst with the audio that follows.
      this.lastHeardMs = nowMs;
      if (gap) {
        this.fill(ahead);
        this.nextTimestamp = timestamp;
        this.filledUntilMs = nowMs;
      }
      return;
    }
    if (gap) this.fill(ahead, lost);
    // Behind the line: a stall of the network held it back, or the phone's clock stood still. What was said counts more than the clock.
    this.placed = true;
    this.lastHeardMs = nowMs;
    this.filledUntilMs = nowMs;
    const audio = codec === this.codec ? payload : this.translate(payload, codec);
    this.nextTimestamp = (timestamp + audio.length / this.bytesPerTick) >>> 0;
    this.append(this.concealment?.heard(audio) ?? audio);
  }

  private translate(audio: Uint8Array, codec: PhoneCodec): Uint8Array {
    if (this.other?.codec !== codec) this.other = { codec, change: changeLine(codec, this.codec) };
    return this.other.change(audio);
  }

  private append(audio: Uint8Array): void {
    const { frameBytes } = this;
    let at = 0;
    if (this.framed > 0) {
      at = Math.min(frameBytes - this.framed, audio.length);
      this.frame.set(audio.subarray(0, at), this.framed);
      this.framed += at;
      if (this.framed < frameBytes) return;
      this.framed = 0;
      this.send(this.frame);
    }
    for (; at + frameBytes <= audio.length; at += frameBytes) {
      this.send(at === 0 && audio.length === frameBytes ? audio : audio.subarray(at, at + frameBytes));
    }
    if (at < audio.length) {
      this.frame.set(audio.subarray(at));
      this.framed = audio.length - at;
    }
  }

  private fill(ticks: number, lost = false): void {
    let left = ticks * this.bytesPerTick;
    while (left > 0) {
      const count = Math.min(left, this.frameBytes - this.framed);
      if (lost && this.concealment) this.concealment.fill(this.frame, this.framed, count);
      else {
        const until = this.framed + count;
        if (lost || !this.noise?.fill(this.frame, this.framed, until, this.codec))
          this.frame.fill(lineOf[this.codec].silence, this.framed, until);
        this.concealment?.reset(this.codec);
      }
      this.framed += count;
      left -= count;
      if (this.framed < this.frameBytes) return;
      this.framed = 0;
      this.send(this.frame);
    }
  }

  private send(bytes: Uint8Array): void {
    const atMs = this.sentTicks / ticksPerMs;
    this.sentTicks += frameTicks;
    this.deliver(bytes, atMs);
  }
}
