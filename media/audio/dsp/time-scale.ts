/**
 * Shortens speech without changing its pitch (waveform similarity overlap-add): leaves out one or more pitch periods where the audio after
 * the cut continues the audio before it, and blends both. Works on linear samples.
 */

/** One period of 400 Hz to two of 100 Hz. */
const shortestCutMs = 2.5;
const longestCutMs = 20;
/** Over this time both sides of a cut are blended and compared. */
const blendMs = 8;
/** Cuts are tried at these distances from the start of the frame. */
const triedEveryMs = 4;

export interface SpeechCut {
  /** First sample of the blend. */
  at: number;
  /** Samples that are left out. */
  length: number;
  /** Normalized correlation of both sides, -1 to 1. */
  likeness: number;
}

/** How much audio beyond its frame a cut of the longest length reads. */
export const cutReadsMs = longestCutMs + blendMs;

/**
 * The best cut within the first `frame` samples of `audio`. It removes at most `owed` samples, and leaves nothing or at least the shortest cut
 * to remove later. null when no cut fits.
 */
export function bestCut(audio: Int16Array, frame: number, owed: number, sampleRateHz: number): SpeechCut | null {
  const rate = sampleRateHz / 1000;
  const blend = Math.round(blendMs * rate);
  const shortest = Math.round(shortestCutMs * rate);
  const longest = Math.min(Math.round(longestCutMs * rate), owed, audio.length - frame);
  if (longest < shortest && longest < owed) return null;
  /** Wideband: every second or third sample at every second or third lag, then the neighbours. */
  const stride = Math.max(1, Math.floor(sampleRateHz / 8000));
  let best: SpeechCut | null = null;
  for (let at = 0; at + blend <= frame; at += Math.round(triedEveryMs * rate)) {
    let here: SpeechCut | null = null;
    for (let length = Math.min(shortest, longest); length <= longest; length += stride) {
      if (leavesTooLittle(owed - length, shortest)) continue;
      const likeness = likenessOf(audio, at, length, blend, 2 * stride);
      if (here === null || likeness > here.likeness) here = { at, length, likeness };
    }
    if (longest === owed) {
      const likeness = likenessOf(audio, at, owed, blend, 2 * stride);
      if (here === null || likeness > here.likeness) here = { at, length: owed, likeness };
    }
    if (here === null) continue;
    const refined = stride === 1 ? here : refine(audio, here, owed, shortest, longest, blend, stride);
    if (best === null || refined.likeness > best.likeness) best = refined;
  }
  return best;
}

/** Writes `frame` samples from `audio` without the cut. */
export function writeCut(
  audio: Int16Array,
  cut: SpeechCut,
  frame: number,
  sampleRateHz: number,
  into: Int16Array,
): void {
  const { at, length } = cut;
  const blend = Math.round((blendMs * sampleRateHz) / 1000);
  for (let i = 0; i < at; i++) into[i] = audio[i]!;
  for (let i = 0; i < blend; i++) {
    const share = (i + 1) / (blend + 1);
    into[at + i] = Math.round(audio[at + i]! * (1 - share) + audio[at + length + i]! * share);
  }
  for (let i = at + blend; i < frame; i++) into[i] = audio[i + length]!;
}

function leavesTooLittle(rest: number, shortest: number): boolean {
  return rest > 0 && rest < shortest;
}

function refine(
  audio: Int16Array,
  cut: SpeechCut,
  owed: number,
  shortest: number,
  longest: number,
  blend: number,
  stride: number,
): SpeechCut {
  let best = cut;
  for (let length = cut.length - stride + 1; length < cut.length + stride; length++) {
    if (length === cut.length || length < shortest || length > longest) continue;
    if (leavesTooLittle(owed - length, shortest)) continue;
    const likeness = likenessOf(audio, cut.at, length, blend, stride);
    if (likeness > best.likeness) best = { at: cut.at, length, likeness };
  }
  return best;
}

function likenessOf(audio: Int16Array, at: number, length: number, blend: number, step: number): number {
  let product = 0;
  let before = 1;
  let after = 1;
  for (let i = at; i < at + blend; i += step) {
    const one = audio[i]!;
    const other = audio[i + length]!;
    product += one * other;
    before += one * one;
    after += other * other;
  }
  return product / Math.sqrt(before * after);
}
