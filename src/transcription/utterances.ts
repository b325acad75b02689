/** Cuts one side of a call into utterances, at its pauses. No clock of its own. */
import { SpeechDetector } from '../../media/audio/detect/speech-detector.js';
import { bytesOf } from '../../media/audio/sample-format.js';

/** The rate of the samples; the detector reads them as those of G.722. */
export const utteranceHz = 16_000;
const samplesPerMs = utteranceHz / 1000;

export interface Utterance {
  samples: Int16Array;
  /** Of the first sample, on the clock of the audio. */
  startMs: number;
  durationMs: number;
}

const stepMs = 20;
/** The silence that ends an utterance. */
const pauseMs = 700;
/** From this length on any pause ends it, and from the next one on the next step, perhaps within a word. */
const longMs = 12_000;
const longestMs = 20_000;
/** Less is a click. */
const leastMs = 100;
/** Silence that stays before and after the speech. */
const marginMs = 200;
/** Kept while nobody speaks: the margin, and what the detector needs to know speech. */
const keptMs = 400;

export class Utterances {
  #parts: Int16Array[] = [];
  /** Start of the first part. */
  #fromMs = 0;
  /** End of the last part. */
  #nowMs: number | null = null;
  #begunMs: number | null = null;
  #endedMs = 0;
  #speech = this.#detector();

  constructor(private readonly said: (utterance: Utterance) => void) {}

  /** Samples from `startMs` on; what is missing since the samples before ends an utterance. */
  hear(samples: Int16Array, startMs: number): void {
    if (this.#nowMs === null || Math.abs(startMs - this.#nowMs) > stepMs) {
      this.flush();
      this.#fromMs = startMs;
      this.#nowMs = startMs;
    }
    const beginsMs = this.#nowMs;
    this.#parts.push(samples);
    const bytes = bytesOf(samples);
    const stepBytes = stepMs * samplesPerMs * 2;
    for (let at = 0; at < bytes.length; at += stepBytes) {
      const end = Math.min(bytes.length, at + stepBytes);
      this.#speech.hear(bytes, at, end, 'G722', beginsMs + at / 2 / samplesPerMs);
      this.#nowMs = beginsMs + end / 2 / samplesPerMs;
      if (this.#isOver(this.#nowMs)) this.#say();
    }
    if (this.#begunMs === null) this.#forgetUntil(this.#nowMs - keptMs);
  }

  /** The audio stops: what was being said is an utterance. */
  flush(): void {
    if (this.#begunMs !== null) this.#say();
    this.#parts = [];
    this.#nowMs = null;
    this.#speech = this.#detector();
  }

  #isOver(nowMs: number): boolean {
    if (this.#begunMs === null) return false;
    if (nowMs - this.#begunMs >= longestMs) return true;
    if (this.#speech.speaking) return false;
    return nowMs - this.#endedMs >= pauseMs || nowMs - this.#begunMs >= longMs;
  }

  #say(): void {
    const nowMs = this.#nowMs ?? 0;
    const begunMs = this.#begunMs ?? nowMs;
    const startMs = Math.max(this.#fromMs, begunMs - marginMs);
    const lastMs = this.#speech.speaking ? this.#speech.loudUntilMs : this.#endedMs;
    const endMs = Math.min(nowMs, lastMs + marginMs);
    const samples = this.#between(startMs, endMs);
    // Who speaks on has begun the next utterance.
    this.#begunMs = this.#speech.speaking ? nowMs : null;
    this.#forgetUntil(endMs);
    if (lastMs - begunMs >= leastMs) this.said({ samples, startMs, durationMs: samples.length / samplesPerMs });
  }

  #between(startMs: number, endMs: number): Int16Array {
    const from = Math.round((startMs - this.#fromMs) * samplesPerMs);
    const samples = new Int16Array(Math.max(0, Math.round((endMs - startMs) * samplesPerMs)));
    let at = -from;
    for (const part of this.#parts) {
      const first = Math.max(0, -at);
      const count = Math.min(part.length, samples.length - at) - first;
      if (count > 0) samples.set(part.subarray(first, first + count), Math.max(0, at));
      at += part.length;
    }
    return samples;
  }

  /** Frees whole parts. */
  #forgetUntil(ms: number): void {
    for (let [part] = this.#parts; part !== undefined; [part] = this.#parts) {
      const partMs = part.length / samplesPerMs;
      if (this.#fromMs + partMs > ms) return;
      this.#parts.shift();
      this.#fromMs += partMs;
    }
  }

  #detector(): SpeechDetector {
    return new SpeechDetector({
      started: (atMs) => {
        this.#begunMs ??= atMs;
      },
      ended: (atMs) => {
        this.#endedMs = atMs;
      },
    });
  }
}
