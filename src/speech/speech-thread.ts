import { builtModule } from '../../config/built.js';
import { JobThread, type ThreadMessage } from './job-thread.js';
import type { OfflineText, SpeechWarning } from './offline-voice.js';

/** `say`: a text for the offline voice. `speech`: audio of a speech server. `file`: any other audio, whose loudness is kept. */
export type SpeechWork = { isWide?: boolean } & (
  | ({ kind: 'say' } & OfflineText)
  | { kind: 'speech'; bytes: Uint8Array }
  | { kind: 'file'; bytes: Uint8Array }
);

export interface MadeClip {
  /** G.711 μ-law at 8 kHz, or, if it is wide, 16 bit samples at 16 kHz; null if there is nothing to play; the warning says why. */
  clip: SharedArrayBuffer | null;
  warning: SpeechWarning | null;
}

export type WorkerMessage = ThreadMessage<MadeClip>;
export type SpeechThread = JobThread<SpeechWork, MadeClip>;

/** `module`: the module that the thread runs. */
export function speechThread(runLimitMs: number, module?: URL): SpeechThread {
  return new JobThread({
    module: module ?? builtModule(import.meta.url, './worker.ts'),
    startLimitMs: 20_000,
    runLimitMs,
    heapLimitMb: 512,
    says: {
      failed: 'The audio could not be prepared.',
      late: 'The audio could not be prepared in time.',
      lateStart: 'The voice did not start in time.',
    },
  });
}
