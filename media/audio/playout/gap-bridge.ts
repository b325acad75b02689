/** Bridges a gap in an agent's audio with the last pitch periods, fading, so that a late frame is no hole in a word. */
import type { PhoneCodec } from '../../engine.js';
import { isQuiet } from '../detect/frame-level.js';
import { Concealment } from '../dsp/concealment.js';
import { sampleFormatOf, samplesOf } from '../sample-format.js';

/** Longer than for a lost packet: more audio follows after a stall than a network loses. */
const fade = { fullMs: 20, silentMs: 160 };
const learntMs = 35;
const lastFrameMs = 20;

export class GapBridge {
  private readonly law: Concealment<Uint8Array> | null;
  private readonly linear: Concealment<Int16Array> | null;
  private bridgedMs = 0;
  private readonly bytesPerMs: number;

  constructor(private readonly codec: PhoneCodec) {
    const { linear, bytesPerMs } = sampleFormatOf[codec];
    this.bytesPerMs = bytesPerMs;
    this.law = linear ? null : new Concealment(codec, Uint8Array, fade);
    this.linear = linear ? new Concealment(codec, Int16Array, fade) : null;
  }

  /** A gap is being bridged. */
  get active(): boolean {
    return this.bridgedMs > 0;
  }

  /** `played`: the last audio before the gap. False when it was silent: then the gap is a pause. */
  begin(played: Uint8Array): boolean {
    if (isQuiet(played, this.codec, played.length - lastFrameMs * this.bytesPerMs, played.length)) return false;
    const learnt = played.subarray(played.length - learntMs * this.bytesPerMs);
    this.law?.reset(this.codec);
    this.law?.heard(learnt);
    this.linear?.reset(this.codec);
    this.linear?.heard(samplesOf(learnt));
    return true;
  }

  /** Fills `[at, at + length)`; false when the bridge has faded out. */
  fill(into: Uint8Array, at: number, length: number): boolean {
    if (this.bridgedMs >= fade.silentMs) return false;
    this.law?.fill(into, at, length);
    this.linear?.fill(samplesOf(into.subarray(at, at + length)), 0, length >> 1);
    this.bridgedMs += length / this.bytesPerMs;
    return true;
  }

  /** The agent's audio is there again, in `[at, at + length)`: blends the bridge into it. */
  end(into: Uint8Array, at: number, length: number): void {
    this.bridgedMs = 0;
    const audio = into.subarray(at, at + length);
    if (this.law) audio.set(this.law.heard(audio));
    if (this.linear) samplesOf(audio).set(this.linear.heard(samplesOf(audio)));
  }

  /** What follows does not continue the gap. */
  stop(): void {
    this.bridgedMs = 0;
  }
}
