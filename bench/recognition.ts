/**
 * The offline recognition: `node dist/bench/recognition.js [data directory]`, after `trunkline setup speech`. Sentences are spoken by the offline
 * voices and by espeak-ng where it is installed, at 16 kHz and as a phone sends them (G.711 μ-law, 8 kHz), with silence around them, and
 * recognized. Word errors are substitutions, insertions and deletions per word said; CPU time is that of this process.
 */
import { linearToUlaw, ulawToLinear } from '../media/audio/codec/g711.js';
import { readWav } from '../media/audio/wav.js';
import { monoSamples } from '../src/speech/clip.js';
import { espeakLanguage, speakWithEspeak } from '../src/speech/espeak.js';
import { type FliteVoice, speakWithFlite } from '../src/speech/flite.js';
import { levelSpeech } from '../src/speech/loudness.js';
import { installedSpeech, speechFolder } from '../src/transcription/offline/setup.js';
import { openRecognizer, recognitionHz } from '../src/transcription/offline/sherpa.js';
import { spokenText } from '../src/transcription/offline/spoken-text.js';
import { sentences, wordErrors, wordsOf } from './load/words.js';

const dataDir = process.argv[2] ?? process.env.TRUNKLINE_DATA_DIR ?? './data';
const installed = installedSpeech(dataDir);
if (installed === null) throw new Error(`${dataDir} has no offline recognition: run trunkline setup speech`);

const flite: readonly FliteVoice[] = ['slt', 'rms', 'awb'];
const espeak = ['en-us', 'en-gb'].filter((language) => espeakLanguage(language) !== null);

const loadedMs = performance.now();
const rssBefore = process.memoryUsage().rss;
const recognizer = openRecognizer(speechFolder(dataDir), installed.engine);
recognizer.textOf(new Float32Array(recognitionHz));
const loadMs = Math.round(performance.now() - loadedMs);
const noise = Float32Array.from({ length: 20 * recognitionHz }, () => (Math.random() - 0.5) / 5);
recognizer.textOf(noise); // the longest window
const threadMb = Math.round((process.memoryUsage().rss - rssBefore) / 1e6);
process.stdout.write(`engine ${installed.engine}, loaded in ${loadMs} ms, ${threadMb} MB\n`);

function asPhone(audio: Int16Array): Int16Array {
  const phone = monoSamples({ channels: [audio], sampleRateHz: recognitionHz }, 8000, 60);
  return phone.map((sample) => ulawToLinear[linearToUlaw[sample & 0xffff] ?? 0xff] ?? 0);
}

/** With two seconds of silence before and three behind it. */
function recognized(audio: Int16Array, sampleRateHz: number): string {
  const wide = monoSamples({ channels: [audio], sampleRateHz }, recognitionHz, 60);
  const samples = new Float32Array(wide.length + 5 * recognitionHz);
  wide.forEach((sample, i) => {
    samples[i + 2 * recognitionHz] = sample / 32_768;
  });
  return spokenText(recognizer, samples, () => false);
}

const speakers: { name: string; speak(text: string): Promise<Uint8Array> | Uint8Array }[] = [
  ...flite.map((voice) => ({ name: `flite ${voice}`, speak: (text: string) => speakWithFlite(text, voice) })),
  ...espeak.map((language) => ({
    name: `espeak-ng ${language}`,
    speak: (text: string) => speakWithEspeak(text, language),
  })),
];
for (const { name, speak } of speakers) {
  const figures = { wide: { errors: 0, cpuUs: 0 }, phone: { errors: 0, cpuUs: 0 } };
  let [words, audioSec] = [0, 0];
  for (const sentence of sentences) {
    const wide = levelSpeech(monoSamples(readWav(await speak(sentence)), recognitionHz, 60), recognitionHz);
    const said = wordsOf(sentence);
    words += said.length;
    audioSec += wide.length / recognitionHz;
    for (const [kind, audio, rate] of [
      ['wide', wide, recognitionHz],
      ['phone', asPhone(wide), 8000],
    ] as const) {
      const before = process.cpuUsage();
      const heard = recognized(audio, rate);
      const { user, system } = process.cpuUsage(before);
      figures[kind].cpuUs += user + system;
      const errors = wordErrors(said, wordsOf(heard));
      figures[kind].errors += errors;
      if (errors > 0 && process.env.SHOW) process.stdout.write(`  ${name} ${kind}: ${sentence} -> ${heard}\n`);
    }
  }
  const line = (kind: 'wide' | 'phone') =>
    `${((100 * figures[kind].errors) / words).toFixed(1)} % word errors, ${(figures[kind].cpuUs / 1e6 / audioSec).toFixed(3)} s CPU per second of speech`;
  process.stdout.write(`${name}: 16 kHz ${line('wide')}; G.711 ${line('phone')}\n`);
}
