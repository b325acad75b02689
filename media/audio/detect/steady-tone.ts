/** Detects one steady tone of any frequency: an answering machine's beep, a fax tone. Blocks of 20 ms; no clock of its own. */
import { alawToLinear, ulawToLinear } from '../codec/g711.js';

const sampleRateHz = 8000;
const blockSamples = 160;
/** About -36 dBm0. */
const leastPeak = 360;
/** Share of the tone in the block's power; the rest is noise. A voice also has harmonics. */
const leastShare = 0.88;
/** Tolerances between successive blocks. */
const pitchTolerance = 0.015;
const peakTolerance = 1.35;
/** Without audio for longer than this, a tone has ended; jitter and short losses last less. */
const longestHoleMs = 200;

export interface SteadyTone {
  frequencyHz: number;
  durationMs: number;
  /** End of its last block. */
  endedMs: number;
}

const linears = { PCMU: ulawToLinear, PCMA: alawToLinear };

export class ToneListener {
  /** The tone that sounds now, with its duration so far. */
  current: SteadyTone | null = null;
  private peak = 0;
  private filled = 0;
  private blockFromMs = 0;
  private readonly block = new Float64Array(blockSamples);

  /** Audio in `[from, to)`, spoken from `atMs` on; returns the tone that ended within it. */
  hear(bytes: Uint8Array, from: number, to: number, codec: 'PCMU' | 'PCMA', atMs: number): SteadyTone | null {
    const linear = linears[codec];
    let ended: SteadyTone | null = null;
    for (let i = from; i < to; i++) {
      if (this.filled === 0) this.blockFromMs = atMs + (i - from) / 8;
      this.block[this.filled++] = linear[bytes[i]!]!;
      if (this.filled < blockSamples) continue;
      this.filled = 0;
      ended = this.judge() ?? ended;
    }
    return ended;
  }

  /** Advances the time without audio; returns a tone that ended because its packets stopped. */
  quiet(nowMs: number): SteadyTone | null {
    const { current } = this;
    if (current === null || nowMs - current.endedMs <= longestHoleMs) return null;
    this.current = null;
    this.filled = 0;
    return current;
  }

  private judge(): SteadyTone | null {
    const { current } = this;
    const frequencyHz = this.pitch();
    const peak = frequencyHz === null ? 0 : this.peakOf(frequencyHz);
    const goesOn =
      current !== null &&
      frequencyHz !== null &&
      Math.abs(frequencyHz / current.frequencyHz - 1) < pitchTolerance &&
      peak < this.peak * peakTolerance &&
      peak > this.peak / peakTolerance;
    const endedMs = this.blockFromMs + 20;
    if (goesOn && current) {
      current.durationMs += 20;
      current.endedMs = endedMs;
      return null;
    }
    this.peak = peak;
    this.current = frequencyHz === null || peak === 0 ? null : { frequencyHz, durationMs: 20, endedMs };
    return current;
  }

  /** Frequency from the first to the last upward zero crossing; null for silence and low frequencies. */
  private pitch(): number | null {
    const { block } = this;
    let first = -1;
    let last = -1;
    let periods = -1;
    for (let i = 1; i < blockSamples; i++) {
      const before = block[i - 1]!;
      const after = block[i]!;
      if (before >= 0 || after < 0) continue;
      last = i - after / (after - before);
      if (first < 0) first = last;
      periods += 1;
    }
    return periods < 4 ? null : (periods * sampleRateHz) / (last - first);
  }

  /** The tone's peak when the block contains almost nothing else, else 0 (Goertzel). */
  private peakOf(frequencyHz: number): number {
    const { block } = this;
    const coefficient = 2 * Math.cos((2 * Math.PI * frequencyHz) / sampleRateHz);
    let one = 0;
    let two = 0;
    let energy = 0;
    for (let i = 0; i < blockSamples; i++) {
      const sample = block[i]!;
      const next = sample + coefficient * one - two;
      two = one;
      one = next;
      energy += sample * sample;
    }
    const power = one * one + two * two - coefficient * one * two;
    const peak = (2 * Math.sqrt(power)) / blockSamples;
    return peak >= leastPeak && power / (blockSamples / 2) >= leastShare * energy ? peak : 0;
  }
}
