/** Detects speech by loudness in steps of 10 ms above a floor that follows the line's noise. No clock of its own. */
import type { PhoneCodec } from '../../engine.js';
import { sampleFormatOf } from '../sample-format.js';
import { meanSquare } from './frame-level.js';

const stepMs = 10;
/** About -45 dBm0: quieter audio is never speech. */
const leastMeanSquare = 180 * 180;
/** Speech exceeds the floor by this factor in power (8 dB). */
const overFloor = 6;
const floorFalls = 0.2;
const floorRises = 1.002;
const leastFloor = 100;
/** Speech needs this much loudness without a longer gap; less is a click. */
const leastSpeechMs = 40;
const clickGapMs = 30;
/** Gaps between sounds of one word are shorter. */
const wordGapMs = 100;
/** Pauses within a sentence are shorter. */
export const pauseMs = 300;

export interface SpeechHooks {
  /** Called after `leastSpeechMs` of speech, which began at `atMs`. */
  started(atMs: number): void;
  /** Called after `pauseMs` of silence: speech ended at `atMs`. */
  ended(atMs: number): void;
}

export class SpeechDetector {
  speaking = false;
  /** End of the last loud step. */
  loudUntilMs = Number.NEGATIVE_INFINITY;
  /** The longest stretch without a gap between words, in the current or last speech. */
  wordsMs = 0;
  /** Begin of the last stretch without a gap between words. */
  stretchFromMs = 0;
  /** End of the last loud step before this stretch. */
  private beforeStretchMs = Number.NEGATIVE_INFINITY;
  /** The same before this speech. */
  private beforeSpeechMs = Number.NEGATIVE_INFINITY;
  private sinceMs = 0;
  private loudMs = 0;
  private floor = leastFloor;

  constructor(private readonly hooks: SpeechHooks) {}

  /** Audio in `[from, to)` of `bytes`, spoken from `atMs` on. */
  hear(bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, atMs: number): void {
    const { bytesPerMs } = sampleFormatOf[codec];
    const stepBytes = stepMs * bytesPerMs;
    for (let at = from; at < to; at += stepBytes) {
      const end = Math.min(to, at + stepBytes);
      const power = meanSquare(bytes, codec, at, end);
      const loud = power > leastMeanSquare && power > overFloor * this.floor;
      this.floor = Math.max(
        leastFloor,
        power < this.floor ? this.floor + (power - this.floor) * floorFalls : this.floor * floorRises,
      );
      const fromMs = atMs + (at - from) / bytesPerMs;
      if (loud) this.loud(fromMs, atMs + (end - from) / bytesPerMs);
      else this.quiet(fromMs);
    }
  }

  /** Advances the time; without audio it was silent. */
  quiet(nowMs: number): void {
    const silentMs = nowMs - this.loudUntilMs;
    if (!this.speaking) {
      if (silentMs > clickGapMs) this.loudMs = 0;
    } else if (silentMs >= pauseMs) {
      this.speaking = false;
      this.loudMs = 0;
      this.hooks.ended(this.loudUntilMs);
    }
  }

  /** The current speech was none: without a call of `ended`, as if it had been silent. */
  dismiss(): void {
    this.speaking = false;
    this.loudMs = 0;
    this.wordsMs = 0;
    this.loudUntilMs = this.beforeSpeechMs;
  }

  /** The current speech ended at `atMs` at the latest: what was loud since then was none. */
  cut(atMs: number): void {
    if (!this.speaking) return;
    this.speaking = false;
    this.loudMs = 0;
    this.loudUntilMs = this.stretchFromMs >= atMs ? this.beforeStretchMs : Math.min(this.loudUntilMs, atMs);
    this.hooks.ended(this.loudUntilMs);
  }

  private loud(fromMs: number, toMs: number): void {
    this.quiet(fromMs);
    if (this.loudMs === 0) {
      this.sinceMs = fromMs;
      this.wordsMs = 0;
      this.beforeSpeechMs = this.loudUntilMs;
    }
    if (this.loudMs === 0 || fromMs - this.loudUntilMs > wordGapMs) {
      this.stretchFromMs = fromMs;
      this.beforeStretchMs = this.loudUntilMs;
    }
    this.wordsMs = Math.max(this.wordsMs, toMs - this.stretchFromMs);
    this.loudMs += toMs - fromMs;
    // A reordered packet does not move the end back.
    this.loudUntilMs = Math.max(this.loudUntilMs, toMs);
    if (this.speaking || this.loudMs < leastSpeechMs) return;
    this.speaking = true;
    this.hooks.started(this.sinceMs);
  }
}
