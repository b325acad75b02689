/** Runs in a separate thread: recognition keeps a core busy. */
import { readFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import decode from 'audio-decode';
import { readWav } from '../../../media/audio/wav.js';
import { type DecodedAudio, monoSamples } from '../../speech/clip.js';
import type { ThreadMessage } from '../../speech/job-thread.js';
import type { RecognitionThreadData, RecognitionWork, RecognizedSpeech } from './recognition-thread.js';
import { openRecognizer, recognitionHz } from './sherpa.js';
import { spokenText } from './spoken-text.js';

const maxSeconds = 3600;
/** On Linux priorities are per thread, so only this thread yields to signalling and audio; elsewhere the whole process would. */
if (process.platform === 'linux') {
  try {
    setPriority(0, 5);
  } catch {
    // Not permitted: the thread keeps the normal priority.
  }
}

const { folder, engine } = workerData as RecognitionThreadData;
const tell = (message: ThreadMessage<RecognizedSpeech>) => parentPort?.postMessage(message);
const recognizer = openRecognizer(folder, engine);
recognizer.textOf(new Float32Array(recognitionHz)); // so that later runs find the memory of the model in place
tell({ kind: 'ready' });

parentPort?.on('message', async (work: RecognitionWork) => {
  try {
    tell({ kind: 'made', made: await recognize(work) });
  } catch (error) {
    tell({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
  }
});

async function recognize(work: RecognitionWork): Promise<RecognizedSpeech> {
  const { format, cancelled } = work;
  const audio = await decoded('bytes' in work ? work.bytes : await readFile(work.path), format);
  if (lengthSec(audio) > maxSeconds) throw new Error(`The audio is longer than ${maxSeconds / 60} minutes.`);
  const samples = floats(monoSamples(audio, recognitionHz, maxSeconds));
  const flag = new Int32Array(cancelled);
  const text = spokenText(recognizer, samples, () => Atomics.load(flag, 0) !== 0);
  return { text, audioMs: Math.round((samples.length / recognitionHz) * 1000) };
}

async function decoded(file: Uint8Array, format: string): Promise<DecodedAudio> {
  if (format === 'wav') {
    try {
      return readWav(file);
    } catch {
      // another kind of WAV file, such as 24 bit or floating point
    }
  }
  const { channelData, sampleRate } = await decode(file).catch(() => {
    throw new Error('The audio file cannot be decoded.');
  });
  return { channels: channelData, sampleRateHz: sampleRate };
}

function lengthSec({ channels, sampleRateHz }: DecodedAudio): number {
  return (channels[0]?.length ?? 0) / sampleRateHz;
}

function floats(samples: Int16Array): Float32Array {
  const converted = new Float32Array(samples.length);
  for (let i = 0; i < samples.length; i += 1) converted[i] = (samples[i] as number) / 32_768;
  return converted;
}
