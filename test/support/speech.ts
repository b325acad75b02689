/** Speech for tests: spoken by espeak-ng where it is installed, and a synthetic voice everywhere. 8 kHz, linear. */
import { execFileSync } from 'node:child_process';

const text =
  'The quick brown fox jumps over the lazy dog while seven wise women wander along the winding river. Thank you for calling. ' +
  'Your appointment is on Thursday the fourteenth at half past nine. Would you like me to send a reminder by text message the day before?';

/** null when espeak-ng is not installed. */
export function espeakVoice(voice: string, pitch: number): Int16Array | null {
  try {
    const wav = execFileSync('espeak-ng', ['-v', voice, '-p', String(pitch), '--stdout', text], { maxBuffer: 1e8 });
    const from = wav.indexOf('data', 12, 'latin1') + 8;
    const rate = wav.readUInt32LE(24);
    const samples = Array.from({ length: (wav.length - from) >> 1 }, (_, i) => wav.readInt16LE(from + 2 * i));
    return resampled(samples, rate / 8000);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** A mean over each output sample's width, then linear interpolation: enough to be speech. */
function resampled(samples: number[], factor: number): Int16Array {
  const width = Math.ceil(factor);
  const smooth = samples.map((_, i) => {
    let sum = 0;
    for (let j = 0; j < width; j++) sum += samples[Math.min(samples.length - 1, i + j)]!;
    return sum / width;
  });
  return Int16Array.from({ length: Math.floor(samples.length / factor) - 1 }, (_, i) => {
    const at = i * factor;
    const low = Math.floor(at);
    return Math.round(smooth[low]! + (smooth[low + 1]! - smooth[low]!) * (at - low));
  });
}

/** Formants of five vowels, in Hz. */
const vowels = [
  [730, 1090, 2440],
  [270, 2290, 3010],
  [300, 870, 2240],
  [530, 1840, 2480],
  [570, 840, 2410],
];

/** Syllables of a vowel with a gliding pitch, a hiss between some of them, and pauses between words. The same in every run. */
export function syntheticVoice(seconds: number, baseHz = 120): Int16Array {
  let seed = 12345;
  const random = () => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return seed / 2 ** 32;
  };
  const out = new Int16Array(seconds * 8000);
  let phase = 0;
  for (let at = 0, syllable = 0; at < out.length; syllable++) {
    const length = Math.round((0.14 + 0.1 * random()) * 8000);
    const formants = vowels[Math.floor(random() * vowels.length)]!;
    const fromHz = baseHz * (0.9 + 0.3 * random());
    const toHz = fromHz * (0.8 + 0.35 * random());
    for (let i = 0; i < length && at < out.length; i++, at++) {
      const part = i / length;
      const hz = fromHz + (toHz - fromHz) * part;
      phase += hz / 8000;
      let sample = 0;
      for (let harmonic = 1; harmonic * hz < 3600; harmonic++) {
        let gain = 0;
        for (const formant of formants) gain += 1 / (1 + ((harmonic * hz - formant) / 90) ** 2);
        sample += (gain / harmonic ** 0.3) * Math.sin(2 * Math.PI * harmonic * phase);
      }
      out[at] = Math.round(3500 * Math.sin(Math.PI * part) ** 0.5 * sample);
    }
    if (syllable % 3 === 1)
      for (let i = 0; i < 480 && at < out.length; i++, at++) out[at] = Math.round(1600 * (random() - 0.5));
    if (syllable % 5 === 4) at += Math.round((0.08 + 0.2 * random()) * 8000);
    else at += 160;
  }
  return out;
}

/**
 * The same voice with breath, a tenth of its loudness: a filter that learns an echo from it also learns the frequencies between its harmonics,
 * as it does from a person.
 */
export function breathyVoice(seconds: number, baseHz = 120): Int16Array {
  let seed = 17;
  let loudness = 0;
  return syntheticVoice(seconds, baseHz).map((sample) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    loudness = Math.max(Math.abs(sample), 0.995 * loudness);
    return Math.max(-32_768, Math.min(32_767, sample + 0.1 * loudness * (seed / 2 ** 31 - 1)));
  });
}
