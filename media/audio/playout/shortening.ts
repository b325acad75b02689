/** Shortens one packet's audio by whole pitch periods, on a phone's line. */
import type { PhoneCodec } from '../../engine.js';
import { linearToAlaw, linearToUlaw } from '../codec/g711.js';
import { bestCut, cutReadsMs, writeCut } from '../dsp/time-scale.js';
import { readSamples, sampleFormatOf, samplesOf } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';

/** At first only good cuts are made; the longer the delay stands, the less is asked of them. */
const bestLikeness = 0.8;
/** The first cut: a period of a deep voice. With less room than one of a high voice no cut is looked for. */
const firstRoomMs = 10;
const leastRoomMs = 5;
const lessPerMs = 0.003;
/** A steady tone goes on as if nothing were left out, or it is not cut: its phase moves by less than 6 degrees. */
export const likenessInTone = 0.995;

/** While a delay is removed, speech is this much faster: 100 ms in half a second. */
const fasterBy = 0.2;
/** One longest cut. */
const mostRoomMs = 20;

/** A search takes some 50 µs. When all calls of a thread are behind at once, one slot in two makes one, after a first burst. */
const searchesAtOnce = 16;
const searchesPerSlot = 0.5;

/** To tell a voice from notes, this much of what was played is listened to at once, or less when other calls need the time too. */
export const heardAtOnceMs = 320;
const heardAtLeastMs = 160;
/** What the difference costs, in searches. */
const hearingCosts = 6;

/** Spreads the searches of all calls of a thread. */
export class SearchBudget {
  private searches = searchesAtOnce;

  /** A slot of any call. */
  slot(): void {
    if (this.searches < searchesAtOnce) this.searches += searchesPerSlot;
  }

  /** False when this slot must do without a search, or without work that takes as long as `count` of them. */
  take(count = 1): boolean {
    if (this.searches < count) return false;
    this.searches -= count;
    return true;
  }
}

/**
 * How much of a call's speech may be left out now: it is spoken a fifth faster, and no word is shortened much more than another. A recognizer
 * understands less of speech out of which half a word was taken at once.
 */
export class SpeechPace {
  private roomMs = 0;

  get mostMs(): number {
    return this.roomMs >= leastRoomMs ? this.roomMs : 0;
  }

  /** Shortening begins: the first period may be left out at once. */
  begin(): void {
    this.roomMs = firstRoomMs;
  }

  /** A packet of speech is played. */
  played(ms: number): void {
    this.roomMs = Math.min(mostRoomMs, this.roomMs + ms * fasterBy);
  }

  leftOut(ms: number): void {
    this.roomMs -= ms;
  }
}

/** How much of what was played a call may listen to now. */
export function hearableMs(searches: SearchBudget): number {
  return searches.take(hearingCosts) ? heardAtOnceMs : heardAtLeastMs;
}

const decoded = new ScratchBuffer(Int16Array);
const written = new ScratchBuffer(Int16Array);

/** The likeness asked of a cut in speech, when the delay has been known for so long. */
export const likenessInSpeech = (waitedMs: number): number => bestLikeness - waitedMs * lessPerMs;

/** How much of the queue is read beyond the packet. */
export const shorteningReadsMs = cutReadsMs;

/**
 * Writes `length` bytes into `into` from `line`, which has more, and returns how many bytes were left out: at most `most` of `owed`; 0 when
 * there is no place whose sides are that much alike, and then nothing was written.
 */
export function shorten(
  line: Uint8Array,
  codec: PhoneCodec,
  length: number,
  owed: number,
  most: number,
  leastLikeness: number,
  into: Uint8Array,
  at: number,
): number {
  const { sampleRateHz, linear } = sampleFormatOf[codec];
  const bytesPerSample = linear ? 2 : 1;
  const audio = readSamples(line, codec, decoded);
  const frame = length / bytesPerSample;
  const cut = bestCut(
    audio,
    frame,
    owed / bytesPerSample,
    sampleRateHz,
    Math.floor(Math.min(owed, most) / bytesPerSample),
  );
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
