/** DTMF as the tone pairs of ITU-T Q.23 in the audio, for phones without telephone events. */
import type { PhoneCodec } from '../../engine.js';
import { alawToLinear, linearToAlaw, linearToUlaw, ulawToLinear } from '../codec/g711.js';
import { sampleFormatOf, samplesOf, ticksPerMs } from '../sample-format.js';

const rowsHz = [697, 770, 852, 941];
const columnsHz = [1209, 1336, 1477, 1633];
const keys = ['123A', '456B', '789C', '*0#D'];
const sampleRateHz = 8000;
/** 12.75 ms: the shortest valid key (40 ms, Q.24) contains at least two whole blocks. */
const blockSamples = 102;
const blockMs = (blockSamples * 1000) / sampleRateHz;

/** Each tone has about -36 dBm0 or more. */
const leastPower = ((360 * blockSamples) / 2) ** 2;
/** Twist: either tone may be 8 dB louder than the other, since lines and telephones differ. */
const mostTwist = 10 ** 0.8;
/** A tone is 8 dB above the other tones of its group. */
const overOthers = 10 ** 0.8;
/** Share of both tones in the block's power; speech that contains both tones has much more power besides. */
const leastShare = 0.8;

const coefficients = Float64Array.from(
  [...rowsHz, ...columnsHz],
  (hz) => 2 * Math.cos((2 * Math.PI * hz) / sampleRateHz),
);
const linears = { PCMU: ulawToLinear, PCMA: alawToLinear };

export interface ToneKey {
  digit: string;
  durationMs: number;
}

/** Detects keys in G.711 (Goertzel, block by block). One per direction; no clock of its own. */
export class DtmfListener {
  /** Blocks of the current press so far; 0 without a press. */
  private blocks = 0;
  private digit = '';
  private misses = 0;
  private filled = 0;
  private energy = 0;
  private readonly state = new Float64Array(16);

  /** A key sounds at this moment. */
  get pressed(): boolean {
    return this.blocks >= 2;
  }

  /** Returns the press that ends within these bytes. */
  hear(bytes: Uint8Array, codec: 'PCMU' | 'PCMA'): ToneKey | null {
    const linear = linears[codec];
    const { state } = this;
    let ended: ToneKey | null = null;
    for (let i = 0; i < bytes.length; i++) {
      const sample = linear[bytes[i]!]!;
      this.energy += sample * sample;
      for (let tone = 0; tone < 8; tone++) {
        const next = sample + coefficients[tone]! * state[tone]! - state[tone + 8]!;
        state[tone + 8] = state[tone]!;
        state[tone] = next;
      }
      this.filled += 1;
      if (this.filled === blockSamples) ended = this.block() ?? ended;
    }
    return ended;
  }

  /** The audio stopped: ends the current press and returns it. */
  quiet(): ToneKey | null {
    this.filled = 0;
    this.energy = 0;
    this.state.fill(0);
    return this.finish();
  }

  private block(): ToneKey | null {
    const digit = this.judge();
    this.filled = 0;
    this.energy = 0;
    this.state.fill(0);
    if (digit !== '' && digit === this.digit) {
      this.blocks += 1 + this.misses;
      this.misses = 0;
      return null;
    }
    // A single bad block within a press is a lost packet or noise.
    if (this.pressed && digit === '' && this.misses === 0) {
      this.misses = 1;
      return null;
    }
    const ended = this.finish();
    this.digit = digit;
    this.blocks = digit === '' ? 0 : 1;
    return ended;
  }

  private finish(): ToneKey | null {
    const { blocks, digit } = this;
    const ended = blocks >= 2 ? { digit, durationMs: Math.round(blocks * blockMs) } : null;
    this.blocks = 0;
    this.misses = 0;
    this.digit = '';
    return ended;
  }

  /** The key of this block; empty when there is none. */
  private judge(): string {
    if (this.energy < leastPower / blockSamples) return '';
    const row = this.loudest(0);
    const column = this.loudest(4);
    if (row < 0 || column < 0) return '';
    const rowPower = this.power(row);
    const columnPower = this.power(column);
    if (rowPower > columnPower * mostTwist || columnPower > rowPower * mostTwist) return '';
    if ((rowPower + columnPower) / (blockSamples / 2) < leastShare * this.energy) return '';
    return keys[row]![column - 4]!;
  }

  /** The dominant tone of a group (four tones from `first` on); -1 when there is none. */
  private loudest(first: number): number {
    let best = first;
    for (let tone = first + 1; tone < first + 4; tone++) if (this.power(tone) > this.power(best)) best = tone;
    const power = this.power(best);
    if (power < leastPower) return -1;
    for (let tone = first; tone < first + 4; tone++) {
      if (tone !== best && this.power(tone) * overOthers > power) return -1;
    }
    return best;
  }

  private power(tone: number): number {
    const one = this.state[tone]!;
    const two = this.state[tone + 8]!;
    return one * one + two * two - coefficients[tone]! * one * two;
  }
}

/** Peaks of the two tones, about -9 and -7 dBm0: lines attenuate the higher one more. */
const rowPeak = 8000;
const columnPeak = 10_000;

/** Fills `[from, to)` of `into`, a line of `codec`, with the tones of a key that began `ticks` eighths of a millisecond ago. */
export function writeKeyTone(
  digit: string,
  codec: PhoneCodec,
  ticks: number,
  into: Uint8Array,
  from: number,
  to: number,
): void {
  const row = keys.findIndex((line) => line.includes(digit));
  const line = sampleFormatOf[codec];
  const low = (2 * Math.PI * (rowsHz[row] ?? 0)) / line.sampleRateHz;
  const high = (2 * Math.PI * (columnsHz[keys[row]?.indexOf(digit) ?? 0] ?? 0)) / line.sampleRateHz;
  const begun = (ticks * line.sampleRateHz) / 1000 / ticksPerMs;
  const sampleAt = (n: number) => Math.round(rowPeak * Math.sin(n * low) + columnPeak * Math.sin(n * high));
  if (line.linear) {
    const samples = samplesOf(into.subarray(from, to));
    for (let i = 0; i < samples.length; i++) samples[i] = sampleAt(begun + i);
    return;
  }
  const table = codec === 'PCMA' ? linearToAlaw : linearToUlaw;
  for (let i = from; i < to; i++) into[i] = table[sampleAt(begun + i - from) & 0xffff]!;
}
