/**
 * The caller's packets as one line of 20 ms frames for the agent. Packets in order pass at once; behind a missing one at most two
 * wait. The line keeps to the phone's clock: what is lost or not sent (DTX, events) becomes silence, so that an agent that listens
 * for the end of speech hears it. With concealment, what was lost sounds on for a moment first.
 */
import type { PhoneCodec } from '../engine.js';
import { sequenceDistance } from '../rtp/packet.js';
import { Concealment } from './concealment.js';
import { alawToUlaw, mapBytes, silenceByte, ulawToAlaw } from './g711.js';

const uplinkFrameMs = 20;
const samplesPerMs = 8;
const frameBytes = uplinkFrameMs * samplesPerMs;
const waitingAtMost = 2;
const waitAtMostMs = 40;
/** Nothing came for this long: silence is made up by the clock until something does. A shorter stall is delivered in full. */
const silentAfterMs = 200;
/** Ticks further apart mean that the thread stood still: what came meanwhile waits in the socket, and is not silence. */
const stallMs = 100;
/** Timestamps that jump further are a new line, not a gap. */
const longestGapSamples = 1000 * samplesPerMs;
const farJump = 50;

interface Waiting {
  sequence: number;
  timestamp: number;
  payload: Uint8Array | null;
  codec: PhoneCodec;
  sinceMs: number;
}

export class Uplink {
  /** Packets that came after others that followed them: their time was told as silence. */
  late = 0;
  private running = false;
  private nextSequence = -1;
  private nextTimestamp = 0;
  private placed = false;
  private muted = false;
  private filledUntilMs = 0;
  private lastHeardMs = 0;
  private lastTickMs = 0;
  private sentSamples = 0;
  private readonly waiting: Waiting[] = [];
  private readonly frame = new Uint8Array(frameBytes);
  private framed = 0;
  private readonly concealment: Concealment | null;
  private readonly mapped = new Uint8Array(1500);

  constructor(
    private codec: PhoneCodec,
    /** `bytes` are 20 ms in `codec`, valid during the call; `atMs` of the line. */
    private readonly deliver: (bytes: Uint8Array, atMs: number) => void,
    conceal = false,
  ) {
    this.concealment = conceal ? new Concealment(codec) : null;
  }

  /** A new line for a new listener. */
  start(nowMs: number): void {
    this.running = true;
    this.placed = false;
    this.nextSequence = -1;
    this.waiting.length = 0;
    this.framed = 0;
    this.sentSamples = 0;
    this.lastHeardMs = nowMs;
    this.filledUntilMs = nowMs;
  }

  stop(): void {
    this.running = false;
    this.waiting.length = 0;
  }

  changeCodec(codec: PhoneCodec): void {
    if (codec === this.codec) return;
    this.framed = 0;
    this.codec = codec;
    this.concealment?.reset(codec);
  }

  /** The far side is on hold: the agent hears silence, not music. */
  mute(muted: boolean): void {
    if (this.muted && !muted) this.placed = false;
    this.muted = muted;
  }

  /** Another sender took over: its numbers say nothing about the old line. */
  restart(): void {
    this.flush();
    this.concealment?.reset(this.codec);
    this.nextSequence = -1;
    this.placed = false;
  }

  /**
   * `payload` null: a packet without audio (an event, comfort noise) that says that until `timestamp` there is none. The payload may be
   * kept.
   */
  packet(sequence: number, timestamp: number, payload: Uint8Array | null, codec: PhoneCodec, nowMs: number): void {
    if (!this.running) return;
    const distance = this.nextSequence < 0 ? 0 : sequenceDistance(sequence, this.nextSequence);
    if (Math.abs(distance) > farJump) this.restart();
    else if (distance < 0) {
      this.late += 1;
      return;
    } else if (distance > 0) {
      this.hold({ sequence, timestamp, payload, codec, sinceMs: nowMs });
      if (this.waiting.length > waitingAtMost) this.flush(nowMs);
      return;
    }
    this.accept(sequence, timestamp, payload, codec, nowMs);
    while (this.waiting.length > 0 && this.waiting[0]!.sequence === this.nextSequence) this.acceptWaiting(nowMs);
  }

  /** Called every packet time by the clock. */
  tick(nowMs: number): void {
    const sinceTickMs = nowMs - this.lastTickMs;
    this.lastTickMs = nowMs;
    if (!this.running) return;
    if (sinceTickMs > stallMs) this.lastHeardMs = Math.min(nowMs, this.lastHeardMs + sinceTickMs);
    if (this.waiting.length > 0 && nowMs - this.waiting[0]!.sinceMs >= waitAtMostMs) this.flush(nowMs);
    if (nowMs - this.lastHeardMs < silentAfterMs) return;
    // One frame behind the wall, so that the packet that ends the silence still finds its place.
    while (this.filledUntilMs + 2 * uplinkFrameMs <= nowMs) {
      this.fill(frameBytes);
      this.nextTimestamp = (this.nextTimestamp + frameBytes) >>> 0;
      this.filledUntilMs += uplinkFrameMs;
    }
  }

  private hold(packet: Waiting): void {
    let at = this.waiting.length;
    while (at > 0 && sequenceDistance(packet.sequence, this.waiting[at - 1]!.sequence) < 0) at -= 1;
    if (this.waiting[at - 1]?.sequence !== packet.sequence) this.waiting.splice(at, 0, packet);
  }

  private flush(nowMs = this.lastHeardMs): void {
    while (this.waiting.length > 0) this.acceptWaiting(nowMs);
  }

  private acceptWaiting(nowMs: number): void {
    const { sequence, timestamp, payload, codec } = this.waiting.shift()!;
    this.accept(sequence, timestamp, payload, codec, nowMs);
  }

  private accept(
    sequence: number,
    timestamp: number,
    payload: Uint8Array | null,
    codec: PhoneCodec,
    nowMs: number,
  ): void {
    const lost = this.nextSequence >= 0 && sequence !== this.nextSequence;
    this.nextSequence = (sequence + 1) & 0xffff;
    if (this.muted) return;
    const ahead = this.placed ? (timestamp - this.nextTimestamp) | 0 : 0;
    const gap = ahead > 0 && ahead <= longestGapSamples;
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
    this.nextTimestamp = (timestamp + payload.length) >>> 0;
    this.lastHeardMs = nowMs;
    this.filledUntilMs = nowMs;
    const audio = codec === this.codec ? payload : this.translate(payload);
    this.append(this.concealment?.heard(audio) ?? audio);
  }

  private translate(audio: Uint8Array): Uint8Array {
    const mapped = this.mapped.subarray(0, Math.min(audio.length, this.mapped.length));
    mapBytes(audio.subarray(0, mapped.length), this.codec === 'PCMA' ? ulawToAlaw : alawToUlaw, mapped);
    return mapped;
  }

  private append(audio: Uint8Array): void {
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

  private fill(samples: number, lost = false): void {
    let left = samples;
    while (left > 0) {
      const count = Math.min(left, frameBytes - this.framed);
      if (lost && this.concealment) this.concealment.fill(this.frame, this.framed, count);
      else {
        this.frame.fill(silenceByte[this.codec], this.framed, this.framed + count);
        this.concealment?.reset(this.codec);
      }
      this.framed += count;
      left -= count;
      if (this.framed < frameBytes) return;
      this.framed = 0;
      this.send(this.frame);
    }
  }

  private send(bytes: Uint8Array): void {
    const atMs = this.sentSamples / samplesPerMs;
    this.sentSamples += frameBytes;
    this.deliver(bytes, atMs);
  }
}
