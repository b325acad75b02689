import { builtModule } from '../../../config/built.js';
import { JobThread } from '../../speech/job-thread.js';
import type { AudioFile } from '../engine.js';
import type { EngineKind } from './packages.js';

/** One file to recognize. */
export type RecognitionWork = AudioFile & {
  /** One 32 bit number; not 0: nobody waits any more, and the thread stops at the next spoken part. */
  cancelled: SharedArrayBuffer;
};

export interface RecognizedSpeech {
  text: string;
  /** Of the audio. */
  audioMs: number;
}

/** What the thread gets at its start. */
export interface RecognitionThreadData {
  folder: string;
  engine: EngineKind;
}

export type RecognitionThread = JobThread<RecognitionWork, RecognizedSpeech>;

export function recognitionThread(data: RecognitionThreadData, runLimitMs: number, module?: URL): RecognitionThread {
  return new JobThread({
    module: module ?? builtModule(import.meta.url, './worker.ts'),
    workerData: data,
    startLimitMs: 60_000, // WebAssembly on a busy machine takes 20 s
    runLimitMs,
    heapLimitMb: 512,
    says: {
      failed: 'The offline recognition failed; `trunkline setup speech --status` checks its files.',
      late: 'The offline recognition did not finish in time.',
      lateStart: 'The offline recognition did not start in time.',
    },
  });
}
