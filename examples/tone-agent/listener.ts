/** Splits the caller's audio into utterances by loudness. Its clock is the audio itself, so tests need no wall clock. */
import { loudness, strongestHz } from './sound.js';

export interface Utterance {
  /** Milliseconds of the caller's audio since the start of the call. */
  startMs: number;
  endMs: number;
  frequencyHz: number;
}

export interface ListenerOptions {
  sampleRateHz: number;
  /** Silence of this length ends an utterance. */
  silenceMs: number;
  /** The caller started to speak. */
  onSpeech(): void;
  onUtterance(utterance: Utterance): void;
}

const BLOCK_MS = 20;
/** About -40 dB of full scale. */
const THRESHOLD = 330;
/** Two blocks in a row are needed: a click is not speech. */
const SPEECH_BLOCKS = 2;
/** Enough samples to measure the frequency. */
const KEPT_MS = 1000;

export class Listener {
  readonly #options: ListenerOptions;
  readonly #block: Int16Array;
  #filled = 0;
  #nowMs = 0;
  #loudBlocks: Int16Array[] = [];
  #quietMs = 0;
  #startMs: number | undefined;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#block = new Int16Array((options.sampleRateHz * BLOCK_MS) / 1000);
  }

  hear(samples: Int16Array): void {
    for (let at = 0; at < samples.length; ) {
      const part = samples.subarray(at, at + this.#block.length - this.#filled);
      this.#block.set(part, this.#filled);
      this.#filled += part.length;
      at += part.length;
      if (this.#filled === this.#block.length) {
        this.#filled = 0;
        this.#judge();
      }
    }
  }

  #judge(): void {
    this.#nowMs += BLOCK_MS;
    if (loudness(this.#block) >= THRESHOLD) {
      this.#quietMs = 0;
      if (this.#loudBlocks.length < KEPT_MS / BLOCK_MS) this.#loudBlocks.push(this.#block.slice());
      if (this.#startMs === undefined && this.#loudBlocks.length === SPEECH_BLOCKS) {
        this.#startMs = this.#nowMs - SPEECH_BLOCKS * BLOCK_MS;
        this.#options.onSpeech();
      }
    } else if (this.#startMs === undefined) {
      this.#loudBlocks = [];
    } else {
      this.#quietMs += BLOCK_MS;
      if (this.#quietMs >= this.#options.silenceMs) this.#finish(this.#startMs);
    }
  }

  #finish(startMs: number): void {
    const samples = Int16Array.from(this.#loudBlocks.flatMap((block) => [...block]));
    const frequencyHz = strongestHz(samples, this.#options.sampleRateHz);
    const endMs = this.#nowMs - this.#quietMs;
    this.#startMs = undefined;
    this.#loudBlocks = [];
    this.#quietMs = 0;
    this.#options.onUtterance({ startMs, endMs, frequencyHz });
  }
}
