/** Comfort noise for a line on which nothing is sent (RFC 3389, and Opus DTX): white noise at the far side's last known level. */
import type { PhoneCodec } from '../../engine.js';
import { linearToAlaw, linearToUlaw } from '../codec/g711.js';
import { sampleFormatOf, samplesOf } from '../sample-format.js';

/** Range of levels below overload: quieter noise is inaudible, louder noise is not plausible. */
const quietestDb = 90;
const loudestDb = 40;
/** Audio louder than this before a pause was no noise, and the pause no DTX. */
const noiseDb = 48;
/** The mean square of a uniform distribution is a third of its peak's square. */
const peakOverLevel = Math.sqrt(3);

export class ComfortNoise {
  private peak = 0;
  private state = 0x2545f491;

  /** The payload of a comfort noise packet: the level below overload, then optional spectral information, which is ignored. */
  told(payload: Uint8Array): void {
    const [level = quietestDb] = payload;
    this.setLevel(level & 0x7f);
  }

  /** The audio before the far side fell silent, as the mean square of its samples. */
  sounded(meanSquare: number): void {
    const level = meanSquare > 0 ? -10 * Math.log10(meanSquare / 32_767 ** 2) : quietestDb;
    if (level >= noiseDb) this.setLevel(level);
    else this.reset();
  }

  /** Forgets the far side's noise level. */
  reset(): void {
    this.peak = 0;
  }

  /** Fills `into` with noise. False, and nothing is written, when no level is known. */
  fill(into: Uint8Array, from: number, to: number, codec: PhoneCodec): boolean {
    const { peak } = this;
    if (peak === 0) return false;
    if (sampleFormatOf[codec].linear) {
      const samples = samplesOf(into.subarray(from, to));
      for (let i = 0; i < samples.length; i++) samples[i] = peak * this.next();
    } else {
      const table = codec === 'PCMA' ? linearToAlaw : linearToUlaw;
      for (let i = from; i < to; i++) into[i] = table[Math.round(peak * this.next()) & 0xffff]!;
    }
    return true;
  }

  private setLevel(belowOverloadDb: number): void {
    const level = Math.max(loudestDb, belowOverloadDb);
    this.peak = level >= quietestDb ? 0 : 32_767 * 10 ** (-level / 20) * peakOverLevel;
  }

  /** -1 to 1 (xorshift). */
  private next(): number {
    let x = this.state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.state = x;
    return x / 0x8000_0000;
  }
}
