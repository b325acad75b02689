/** Runs in a separate thread, because decoding and synthesis would block calls. */
import { setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import decode from 'audio-decode';
import { readWav } from '../../media/audio/wav.js';
import { clipHz, clipOf, type DecodedAudio, monoSamples, withoutSilence } from './clip.js';
import { speakWithFlite } from './flite.js';
import { levelSpeech } from './loudness.js';
import { speakOffline } from './offline-voice.js';
import type { MadeClip, SpeechWork, WorkerMessage } from './speech-thread.js';

const maxSeconds = 900;
/** On Linux priorities are per thread, so only this thread yields to signalling and audio; elsewhere the whole process would. */
if (process.platform === 'linux') {
  try {
    setPriority(0, 2);
  } catch {
    // Not permitted: the thread keeps the normal priority.
  }
}

async function run(work: SpeechWork): Promise<MadeClip> {
  const { isWide = false } = work;
  const hz = isWide ? clipHz.wide : clipHz.narrow;
  if (work.kind === 'file')
    return { clip: clipOf(monoSamples(await decoded(work.bytes), hz, maxSeconds), isWide), warning: null };
  if (work.kind === 'say') {
    const { file, warning } = await speakOffline(work);
    return { clip: file && speechClip(readWav(file), isWide), warning };
  }
  return { clip: speechClip(await decoded(work.bytes), isWide), warning: null };
}

async function decoded(file: Uint8Array): Promise<DecodedAudio> {
  const { channelData, sampleRate } = await decode(file);
  return { channels: channelData, sampleRateHz: sampleRate };
}

function speechClip(audio: DecodedAudio, isWide: boolean): SharedArrayBuffer {
  const hz = isWide ? clipHz.wide : clipHz.narrow;
  return clipOf(withoutSilence(levelSpeech(monoSamples(audio, hz, maxSeconds), hz), hz), isWide);
}

const tell = (message: WorkerMessage) => parentPort?.postMessage(message);
// A warm-up run, so that later runs find compiled code.
const ready = speakWithFlite('a', 'slt').then(
  () => tell({ kind: 'ready' }),
  () => tell({ kind: 'ready' }),
);
parentPort?.on('message', async (work: SpeechWork) => {
  await ready;
  try {
    tell({ kind: 'made', made: await run(work) });
  } catch (error) {
    tell({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
  }
});
