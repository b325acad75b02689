import { writeWav } from '../../media/audio/wav.js';
import type { ExpectedSpeech, TranscribedAudio, TranscriptionEngine } from './engine.js';

/** Recognizes linear samples. Rejects as `transcribe` of the engine does. */
export function transcribeSamples(
  engine: TranscriptionEngine,
  { samples, sampleRateHz }: { samples: Int16Array; sampleRateHz: number },
  signal: AbortSignal,
  expected: ExpectedSpeech,
): Promise<TranscribedAudio> {
  const bytes = new Uint8Array(writeWav({ sampleRateHz, channels: [samples] }));
  return engine.transcribe({ bytes, format: 'wav' }, signal, expected);
}
