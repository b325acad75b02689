/**
 * Packet loss concealment: repeats the last pitch period, fading to silence after 60 ms (the idea of G.711 Appendix I without its delay: the
 * seam is smoothed with the audio that follows).
 */
import type { PhoneCodec } from '../../engine.js';
import { alawToLinear, linearToAlaw, linearToUlaw, ulawToLinear } from '../codec/g711.js';
import { sampleFormatOf } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';
import { correlations, distancesAtOnce } from './correlation.js';

const linear = new ScratchBuffer(Float64Array);

/** null: linear samples need no table. */
const toLinear = { PCMU: ulawToLinear, PCMA: alawToLinear, G722: null, OPUS: null };
const fromLinear = { PCMU: linearToUlaw, PCMA: linearToAlaw, G722: null, OPUS: null };
/** 66 to 200 Hz at 8 kHz; a higher voice is repeated by several of its periods. */
const shortestPeriod = 40;
const longestPeriod = 120;
/** Length of history that is compared with the audio one lag earlier. */
const compared = 160;
/** A lost packet: full loudness for 10 ms, then fading to silence at 60 ms. */
const packetLoss: Fade = { fullMs: 10, silentMs: 60 };
/** Seams are smoothed over this many samples. */
const seam = 32;
const longestPacket = 1500;
/** Memory of the history, in multiples of its length. */
const historyRoom = 6;

/** Bytes of G.711, or linear samples. */
type Audio = Uint8Array | Int16Array;

/** Loudness of the repeated period over time. */
export interface Fade {
  fullMs: number;
  silentMs: number;
}

export class Concealment<T extends Audio = Uint8Array> {
  /** Multiple of 8 kHz; the lengths above are for 8 kHz. */
  private readonly rate: number;
  private readonly historyLength: number;
  /** The last audio that was received ends at `historyEnd`; with room for more, so that it is seldom moved. */
  private readonly history: T;
  private historyEnd: number;
  private heardSamples = 0;
  private readonly period: Float64Array;
  private periodLength = 0;
  /** Distance between the last received sample and the start of the repeated period. */
  private step = 0;
  private made = 0;
  private readonly joined: T;

  /** `codec` may change to the other law, but not to another sample rate. */
  constructor(
    private codec: PhoneCodec,
    Type: new (length: number) => T,
    private readonly fade: Fade = packetLoss,
  ) {
    this.rate = sampleFormatOf[codec].sampleRateHz / 8000;
    this.historyLength = (longestPeriod + compared) * this.rate;
    this.history = new Type(this.historyLength * historyRoom);
    this.historyEnd = this.historyLength;
    this.period = new Float64Array(longestPeriod * this.rate);
    this.joined = new Type(longestPacket);
  }

  /** Forgets the history: the next audio does not continue it. */
  reset(codec: PhoneCodec): void {
    this.codec = codec;
    this.heardSamples = 0;
    this.made = 0;
  }

  /** Takes received audio and returns what to play: after a loss its beginning is blended with the concealment. Valid until the next call. */
  heard(audio: T): T {
    const { historyLength } = this;
    const played = this.made > 0 ? this.join(audio) : audio;
    this.made = 0;
    const { history } = this;
    const kept = Math.min(audio.length, historyLength);
    if (this.historyEnd + kept > history.length) {
      history.copyWithin(0, this.historyEnd - historyLength, this.historyEnd);
      this.historyEnd = historyLength;
    }
    history.set(kept === audio.length ? audio : audio.subarray(audio.length - kept), this.historyEnd);
    this.historyEnd += kept;
    this.heardSamples = Math.min(historyLength, this.heardSamples + kept);
    return played;
  }

  /** Writes the next `count` concealed samples. */
  fill(into: T, at: number, count: number): void {
    if (this.made === 0) this.learn();
    const encode = fromLinear[this.codec];
    for (let i = 0; i < count; i++) {
      const sample = Math.round(this.next());
      into[at + i] = encode ? encode[sample & 0xffff]! : sample;
    }
  }

  private next(): number {
    const n = this.made++;
    const at = n / this.rate;
    const { fullMs, silentMs } = this.fade;
    const ms = at / 8;
    if (this.periodLength === 0 || ms >= silentMs) return 0;
    const loudness = ms < fullMs ? 1 : 1 - (ms - fullMs) / (silentMs - fullMs);
    const offset = at < seam ? this.step * (1 - at / seam) : 0;
    return loudness * clipped(this.period[n % this.periodLength]! + offset);
  }

  private join(audio: T): T {
    const decode = toLinear[this.codec];
    const encode = fromLinear[this.codec];
    const joined = this.joined.subarray(0, Math.min(audio.length, this.joined.length)) as T;
    joined.set(audio.subarray(0, joined.length));
    const blended = Math.min(seam * this.rate, joined.length);
    for (let i = 0; i < blended; i++) {
      const share = (i + 1) / (blended + 1);
      const came = decode ? decode[joined[i]!]! : joined[i]!;
      const sample = Math.round(this.next() * (1 - share) + came * share);
      joined[i] = encode ? encode[sample & 0xffff]! : sample;
    }
    return joined;
  }

  /** Learns the last pitch period, blended so that its end continues in its start. */
  private learn(): void {
    this.periodLength = 0;
    if (this.heardSamples < this.historyLength) return;
    const decode = toLinear[this.codec];
    const past = linear.ofLength(this.historyLength);
    const from = this.historyEnd - past.length;
    for (let i = 0; i < past.length; i++) past[i] = decode ? decode[this.history[from + i]!]! : this.history[from + i]!;
    const period = likeliestPeriod(past, this.rate);
    const begin = past.length - period;
    const blended = Math.min(seam * this.rate, period >> 1);
    for (let i = 0; i < period; i++) {
      const untilEnd = period - i;
      const share = untilEnd > blended ? 0 : 1 - untilEnd / (blended + 1);
      this.period[i] = past[begin + i]! * (1 - share) + past[begin - period + i]! * share;
    }
    this.periodLength = period;
    this.step = past[past.length - 1]! - past[begin - 1]!;
  }
}

/** The lag at which the end of the history is most similar to the audio before it. */
function likeliestPeriod(past: Float64Array, rate: number): number {
  const from = past.length - compared * rate;
  let best = longestPeriod * rate;
  let bestLikeness = Number.NEGATIVE_INFINITY;
  // The energy of the audio that is compared; one lag less moves it by one sample.
  let energy = 1;
  for (let i = 0; i < compared * rate; i++) energy += past[from - longestPeriod * rate + i]! ** 2;
  for (let lag = longestPeriod * rate; lag >= shortestPeriod * rate; lag -= distancesAtOnce) {
    const products = correlations(past, from, past.length, 1, -lag);
    for (let n = 0; n < distancesAtOnce && lag - n >= shortestPeriod * rate; n++) {
      const likeness = products[n]! / Math.sqrt(energy);
      // Of equal ones the shortest.
      if (likeness >= bestLikeness) {
        bestLikeness = likeness;
        best = lag - n;
      }
      const start = from - lag + n;
      energy += past[start + compared * rate]! ** 2 - past[start]! ** 2;
    }
  }
  return best;
}

function clipped(sample: number): number {
  return Math.max(-32768, Math.min(32767, sample));
}
