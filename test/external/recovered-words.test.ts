/**
 * What a recognizer understands of speech out of which delays were taken, beside the same speech undisturbed. With the offline recognition of
 * `TRUNKLINE_DATA_DIR` (`npx trunkline setup speech`).
 */
import { describe, expect, it } from 'vitest';
import { sentences, wordErrors, wordsOf } from '../../bench/load/words.js';
import { readWav } from '../../media/audio/wav.js';
import { monoSamples } from '../../src/speech/clip.js';
import { type FliteVoice, speakWithFlite } from '../../src/speech/flite.js';
import { levelSpeech } from '../../src/speech/loudness.js';
import { installedSpeech, speechFolder } from '../../src/transcription/offline/setup.js';
import { openRecognizer, recognitionHz } from '../../src/transcription/offline/sherpa.js';
import { spokenText } from '../../src/transcription/offline/spoken-text.js';
import { PlayoutSchedule } from '../support/playout-line.js';

const dataDir = process.env.TRUNKLINE_DATA_DIR ?? './data';
const installed = installedSpeech(dataDir);
const voices: FliteVoice[] = ['slt', 'rms'];
/** In each sentence the agent stands still once for so long, and then sends at once what it could not send; percentage points of word errors more at most. */
const stalls = [
  { stallMs: 0, mostMore: 0 },
  { stallMs: 20, mostMore: 3 },
  { stallMs: 60, mostMore: 4 },
  { stallMs: 100, mostMore: 8 },
];
const stalledFrame = 40;

describe.skipIf(installed === null)('a recognizer', () => {
  it('understands speech after recoveries', { timeout: 1_200_000, retry: 0 }, async () => {
    const recognizer = openRecognizer(speechFolder(dataDir), installed!.engine);
    const errors = new Map(stalls.map(({ stallMs }) => [stallMs, 0]));
    let [words, leftOutMs] = [0, 0];
    for (const voice of voices)
      for (const sentence of sentences) {
        const spoken = levelSpeech(monoSamples(readWav(await speakWithFlite(sentence, voice)), 8000, 60), 8000);
        const said = wordsOf(sentence);
        words += said.length;
        for (const { stallMs } of stalls) {
          const line = new PlayoutSchedule();
          line.time.advance(500);
          const resumes = stalledFrame + stallMs / 20;
          line.speak(spoken, (i) => (i >= stalledFrame && i < resumes ? (resumes - i) * 20 : 0));
          line.time.advance(500);
          leftOutMs += line.playout.trimmedMs;
          const heard = wordsOf(spokenText(recognizer, framed(line.heard), () => false));
          errors.set(stallMs, errors.get(stallMs)! + wordErrors(said, heard));
        }
      }
    const percents = [...errors].map(([stallMs, count]) => `${stallMs} ms ${((100 * count) / words).toFixed(1)} %`);
    console.info(`${words} words, ${(leftOutMs / 1000).toFixed(1)} s left out; word errors: ${percents.join('; ')}`);
    expect(leftOutMs).toBeGreaterThan(1000);
    for (const { stallMs, mostMore } of stalls)
      expect((100 * (errors.get(stallMs)! - errors.get(0)!)) / words, `${stallMs} ms`).toBeLessThanOrEqual(mostMore);
  });
});

/** With silence around it, at the recognizer's rate. */
function framed(audio: Int16Array): Float32Array {
  const wide = monoSamples({ channels: [audio], sampleRateHz: 8000 }, recognitionHz, 60);
  const samples = new Float32Array(wide.length + 5 * recognitionHz);
  wide.forEach((sample, i) => {
    samples[i + 2 * recognitionHz] = sample / 32_768;
  });
  return samples;
}
