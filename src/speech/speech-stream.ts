import type { MessagePort } from 'node:worker_threads';
import { createResampler, type Resampler } from '../../media/audio/dsp/resample.js';
import { activeLevelDb, spokenLevelDb } from './loudness.js';
import type { PcmStart } from './wav-stream.js';

/** The rates that a media session plays. */
const playedRates = [8000, 16_000, 24_000, 48_000] as const;
type PlayedRate = (typeof playedRates)[number];

/** Quieter samples at the beginning are left out. */
const quietest = 256;
/** The level of a voice that was not heard before is estimated by its first speech. */
const estimateMs = 100;
/** Estimated gains; a gain that is known from whole texts may be any. */
const leastGain = 10 ** (-10 / 20);
const mostGain = 10 ** (10 / 20);
const highestPeak = 32_768 * 10 ** (-1 / 20);

/** Speech that is being received: it is played while the rest arrives, to as many calls as want it, each from its beginning on. */
export class SpeechStream {
  readonly format: { encoding: 'l16'; sampleRateHz: PlayedRate };
  /** There is sound to play. */
  readonly begun: Promise<void>;
  /** Resolves when nothing more comes, with null or with the reason why the rest is missing, as one sentence. */
  readonly ended: Promise<string | null>;
  #begin!: () => void;
  #end!: (problem: string | null) => void;
  #isOver = false;
  readonly #parts: Int16Array[] = [];
  #length = 0;
  readonly #ports = new Set<MessagePort>();
  readonly #resampler: Resampler | null;
  #held = new Int16Array(0);
  /** A byte or three of a sample whose rest is still to come. */
  #rest: Uint8Array = new Uint8Array(0);
  #leftBytes: number;

  /** `gain`: of this voice, as it is known; null: it is estimated. */
  constructor(
    private readonly start: PcmStart,
    private gain: number | null,
  ) {
    const { sampleRateHz, length } = start;
    const played = playedRates.find((rate) => rate === sampleRateHz);
    this.#resampler = played === undefined ? createResampler(sampleRateHz, 24_000) : null;
    this.format = { encoding: 'l16', sampleRateHz: played ?? 24_000 };
    this.#leftBytes = length;
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get hasSound(): boolean {
    return this.#length > 0;
  }

  /** Of the sound until now. */
  get receivedMs(): number {
    return (this.#length / this.format.sampleRateHz) * 1000;
  }

  /** All sound until now. */
  get samples(): Int16Array {
    const all = new Int16Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  /** The gain that brings this voice to the level of others, now that the text is complete; null: it was silent. */
  get measuredGain(): number | null {
    const levelDb = activeLevelDb(this.samples, this.format.sampleRateHz);
    return Number.isFinite(levelDb) ? (this.gain ?? 1) * 10 ** ((spokenLevelDb - levelDb) / 20) : null;
  }

  /** Samples of the file, as they came. */
  take(bytes: Uint8Array): void {
    if (this.#isOver || this.#leftBytes <= 0) return;
    const used = bytes.subarray(0, Math.min(bytes.length, this.#leftBytes));
    this.#leftBytes -= used.length;
    const samples = this.#samplesOf(used);
    this.#hear(this.#resampler?.process(samples).slice() ?? samples);
  }

  /** Nothing more comes. */
  finish(problem: string | null): void {
    if (this.#isOver) return;
    if (problem === null && this.#resampler !== null)
      this.#hear(this.#resampler.process(new Int16Array(Math.ceil(this.#resampler.delaySamples))).slice());
    if (problem === null && this.#held.length > 0) this.#send(this.#held, true);
    this.#isOver = true;
    for (const port of this.#ports) {
      port.postMessage('end');
      port.close();
    }
    this.#ports.clear();
    this.#end(problem);
  }

  /** Sends all of it to the other end of the port, which gets `end` at last and is closed. */
  pour(port: MessagePort): void {
    for (const part of this.#parts) port.postMessage(bytesOf(part));
    if (this.#isOver) {
      port.postMessage('end');
      port.close();
      return;
    }
    this.#ports.add(port);
    port.on('close', () => this.#ports.delete(port));
  }

  /** One channel of 16 bit samples. */
  #samplesOf(bytes: Uint8Array): Int16Array {
    const blockBytes = this.start.channelCount * 2;
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const count = Math.floor(all.length / blockBytes);
    this.#rest = all.slice(count * blockBytes);
    const view = new DataView(all.buffer, all.byteOffset, all.byteLength);
    const samples = new Int16Array(count);
    for (let i = 0; i < count; i += 1) {
      const at = i * blockBytes;
      const left = view.getInt16(at, true);
      samples[i] = blockBytes === 2 ? left : (left + view.getInt16(at + 2, true)) >> 1;
    }
    return samples;
  }

  #hear(samples: Int16Array): void {
    let fresh = samples;
    if (this.#length === 0 && this.#held.length === 0) {
      const first = samples.findIndex((sample) => Math.abs(sample) > quietest);
      if (first < 0) return;
      fresh = samples.subarray(first);
    }
    if (this.#length > 0) {
      this.#send(fresh, false);
      return;
    }
    const held = new Int16Array(this.#held.length + fresh.length);
    held.set(this.#held);
    held.set(fresh, this.#held.length);
    this.#held = held;
    if (held.length >= (this.format.sampleRateHz * estimateMs) / 1000) this.#send(held, true);
  }

  #send(samples: Int16Array, isFirst: boolean): void {
    if (isFirst) {
      this.gain ??= this.#estimated(samples);
      this.#held = new Int16Array(0);
    }
    const { gain } = this;
    const part = samples.map((sample) =>
      Math.max(-highestPeak, Math.min(highestPeak, Math.round(sample * (gain ?? 1)))),
    );
    this.#parts.push(part);
    this.#length += part.length;
    for (const port of this.#ports) port.postMessage(bytesOf(part));
    if (isFirst) this.#begin();
  }

  #estimated(samples: Int16Array): number {
    const levelDb = activeLevelDb(samples, this.format.sampleRateHz);
    if (!Number.isFinite(levelDb)) return 1;
    return Math.max(leastGain, Math.min(mostGain, 10 ** ((spokenLevelDb - levelDb) / 20)));
  }
}

function bytesOf(samples: Int16Array): Uint8Array {
  return new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
}
