import { availableParallelism } from 'node:os';
import { type TranscriptionEngine, TranscriptionError } from '../engine.js';
import { RecognitionBusy, RecognitionPool } from './recognition-pool.js';
import { type InstalledSpeech, speechFolder } from './setup.js';

/** Recognition on this machine, of English. */
export interface OfflineEngine extends TranscriptionEngine {
  close(): Promise<void>;
}

/** One core is left for calls. */
const mostThreads = 4;
/** An utterance of a caller that waits longer than these is not worth its turn: a `gather` gives up after 5 s. */
const mostUtterances = 32;
const mostFiles = 8;
const utteranceLimitMs = 30_000;
/** An hour of audio, at a third of real time on a busy machine. */
const fileLimitMs = 1_200_000;

/** `module`: the module of the threads, for tests. */
export function offlineEngine(
  dataDir: string,
  { engine, model }: InstalledSpeech,
  options: { cores?: number; module?: URL } = {},
): OfflineEngine {
  const { cores = availableParallelism(), module } = options;
  const common = { folder: speechFolder(dataDir), engine, ...(module === undefined ? {} : { module }) };
  const threads = Math.min(mostThreads, Math.max(1, cores - 1));
  const utterances = new RecognitionPool({
    ...common,
    threads,
    mostWaiting: mostUtterances,
    runLimitMs: utteranceLimitMs,
  });
  const files = new RecognitionPool({ ...common, threads: 1, mostWaiting: mostFiles, runLimitMs: fileLimitMs });
  return {
    prepare: () => utterances.start(),
    async transcribe(audio, signal, { language, use = 'file' } = {}) {
      if (language !== undefined && !/^en(-|$)/i.test(language))
        throw new TranscriptionError(
          `The offline recognition understands English only, not "${language}": set TRUNKLINE_TRANSCRIPTION_URL to a server for other languages`,
        );
      try {
        const pool = use === 'file' ? files : utterances;
        const { text } = await pool.recognize(audio, signal, use === 'transcript');
        return { text, model };
      } catch (error) {
        if (signal.aborted) throw error;
        throw new TranscriptionError((error as Error).message, undefined, error instanceof RecognitionBusy);
      }
    },
    async close() {
      await Promise.all([utterances.close(), files.close()]);
    },
  };
}
