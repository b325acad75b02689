/** The noise of a line on which nobody sends (RFC 3389, and Opus): at the level the far side told last, of no colour. */
import type { PhoneCodec } from '../../engine.js';
import { linearToAlaw, linearToUlaw } from '../codec/g711.js';
import { lineOf, samplesOf } from '../sample-format.js';

/** Below this there is nothing to be heard; what a phone claims above it is not believed to be noise. */
const quietestDb = 90;
const loudestDb = 40;
/** What was louder before a pause was no noise, and the pause no DTX. */
const noiseDb = 48;
/** Mean square of an even distribution is a third of its square. */
const peakOverLevel = Math.sqrt(3);

export class ComfortNoise {
  private peak = 0;
  private state = 0x2545f491;

  /** The payload of a comfort noise packet: the level below overload comes first, a colour we leave out may follow. */
  told(payload: Uint8Array): void {
    const [level = quietestDb] = payload;
    this.setLevel(level & 0x7f);
  }

  /** What sounded before the far side fell silent, as mean square of its samples. */
  sounded(meanSquare: number): void {
    const level = meanSquare > 0 ? -10 * Math.log10(meanSquare / 32_767 ** 2) : quietestDb;
    if (level >= noiseDb) this.setLevel(level);
    else this.reset();
  }

  /** Nothing is known of the far side's noise. */
  reset(): void {
    this.peak = 0;
  }

  /** False, and nothing done, when no noise was told. */
  fill(into: Uint8Array, from: number, to: number, codec: PhoneCodec): boolean {
    const { peak } = this;
    if (peak === 0) return false;
    if (lineOf[codec].linear) {
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
