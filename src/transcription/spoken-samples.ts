import { randomUUID } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writeWav } from '../../media/audio/wav.js';
import type { ExpectedSpeech, TranscribedAudio, TranscriptionEngine } from './engine.js';

/** A file for audio on its way to the engine, in a folder of this user. */
export function speechFile(): string {
  return path.join(tmpdir(), `trunkline-speech-${process.getuid?.() ?? 0}`, `${randomUUID()}.wav`);
}

/** Recognizes linear samples, by way of a file that is removed afterwards. Rejects as `transcribe` of the engine does. */
export async function transcribeSamples(
  engine: TranscriptionEngine,
  { samples, sampleRateHz }: { samples: Int16Array; sampleRateHz: number },
  signal: AbortSignal,
  expected: ExpectedSpeech,
): Promise<TranscribedAudio> {
  const file = speechFile();
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    await writeFile(file, writeWav({ sampleRateHz, channels: [samples] }), { mode: 0o600 });
    signal.throwIfAborted();
    return await engine.transcribe({ path: file, format: 'wav' }, signal, expected);
  } finally {
    await rm(file, { force: true }).catch(() => {});
  }
}
