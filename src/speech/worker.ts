/** Runs in a thread of its own: decoding and speaking take longer than a call may wait. */
import { parentPort } from 'node:worker_threads';
import decode from 'audio-decode';
import { clipOf, withoutSilence } from './clip.js';
import { speakWithFlite } from './flite.js';
import type { SpeechAnswer, SpeechJob } from './speech-thread.js';

const maxSeconds = 900;

async function run(job: SpeechJob): Promise<SharedArrayBuffer> {
  const file = job.kind === 'say' ? await speakWithFlite(job.text, job.voice) : job.bytes;
  const clip = clipOf(await decode(file), maxSeconds);
  return job.kind === 'say' ? withoutSilence(clip) : clip;
}

/** One after the other: they would only slow each other down. */
// Once for nobody: what follows finds its code compiled.
let last: Promise<unknown> = speakWithFlite('a', 'slt').catch(() => {});
parentPort?.on('message', (job: SpeechJob) => {
  last = last.then(async () => {
    let answer: SpeechAnswer;
    try {
      answer = { id: job.id, clip: await run(job) };
    } catch (error) {
      answer = { id: job.id, error: error instanceof Error ? error.message : String(error) };
    }
    parentPort?.postMessage(answer);
  });
});
