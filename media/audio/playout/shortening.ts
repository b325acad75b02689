/** Shortens one packet's audio by whole pitch periods, on a phone's line. */
import type { PhoneCodec } from '../../engine.js';
import { linearToAlaw, linearToUlaw } from '../codec/g711.js';
import { bestCut, cutReadsMs, writeCut } from '../dsp/time-scale.js';
import { readSamples, sampleFormatOf, samplesOf } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';

/** At first only good cuts are made; the longer the delay stands, the less is asked of them. */
const bestLikeness = 0.8;
const lessPerMs = 0.003;
/** A steady tone goes on as if nothing were left out, or it is not cut: its phase moves by less than 6 degrees. */
export const likenessInTone = 0.995;

/** A search takes some 50 µs. When all calls of a thread are behind at once, one slot in two makes one, after a first burst. */
const searchesAtOnce = 16;
const searchesPerSlot = 0.5;

/** Spreads the searches of all calls of a thread. */
export class SearchBudget {
  private searches = searchesAtOnce;

  /** A slot of any call. */
  slot(): void {
    if (this.searches < searchesAtOnce) this.searches += searchesPerSlot;
  }

  /** False when this slot must do without a search. */
  take(): boolean {
    if (this.searches < 1) return false;
    this.searches -= 1;
    return true;
  }
}

const decoded = new ScratchBuffer(Int16Array);
const written = new ScratchBuffer(Int16Array);

/** The likeness asked of a cut in speech, when the delay has been known for so long. */
export const likenessInSpeech = (waitedMs: number): number => bestLikeness - waitedMs * lessPerMs;

/** How much of the queue is read beyond the packet. */
export const shorteningReadsMs = cutReadsMs;

/**
 * Writes `length` bytes into `into` from `line`, which has more, and returns how many bytes were left out: at most `owed`; 0 when there is no
 * place whose sides are that much alike, and then nothing was written.
 */
export function shorten(
  line: Uint8Array,
  codec: PhoneCodec,
  length: number,
  owed: number,
  leastLikeness: number,
  into: Uint8Array,
  at: number,
): number {
  const { sampleRateHz, linear } = sampleFormatOf[codec];
  const bytesPerSample = linear ? 2 : 1;
  const audio = readSamples(line, codec, decoded);
  const frame = length / bytesPerSample;
  const cut = bestCut(audio, frame, owed / bytesPerSample, sampleRateHz);
  if (cut === null || cut.likeness < leastLikeness) return 0;
  if (linear) writeCut(audio, cut, frame, sampleRateHz, samplesOf(into.subarray(at, at + length)));
  else {
    const samples = written.ofLength(frame);
    writeCut(audio, cut, frame, sampleRateHz, samples);
    const table = codec === 'PCMA' ? linearToAlaw : linearToUlaw;
    for (let i = 0; i < frame; i++) into[at + i] = table[samples[i]! & 0xffff]!;
  }
  return cut.length * bytesPerSample;
}
