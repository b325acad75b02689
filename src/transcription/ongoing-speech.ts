import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { SpeechDetector } from '../../media/audio/detect/speech-detector.js';
import { bytesOf } from '../../media/audio/sample-format.js';
import type { ExpectedSpeech, TranscriptionEngine } from './engine.js';
import { transcribeSamples } from './spoken-samples.js';
import { utteranceHz } from './utterances.js';

/** The audio that it needs. */
export const ongoingAudio = { chunkMs: 100, sampleRateHz: utteranceHz } as const;
const samplesPerMs = utteranceHz / 1000;
/** Kept while nobody speaks, so that the first word of an utterance is whole. */
const keptChunks = 6;
/** New speech after which an utterance is recognized again, once the recognition before is done. */
const againAfterMs = 600;
/** What is longer is reported at its end alone: each recognition begins at the first word. */
const longestMs = 20_000;

export interface SpeechSoFar {
  /** From the first sound of the utterance to the last one until now. */
  spoke(ms: number): void;
  /** The words until now, whenever they change. Without it nothing is recognized. */
  words?(text: string): void;
}

/** Follows utterances of a phone while they go on: how long they are, and their words until now. Whoever hears them says where they begin and end. */
export class OngoingSpeech {
  readonly #port: MessagePort;
  readonly #stop: () => void;
  readonly #speech = new SpeechDetector({ started: (atMs) => this.#started(atMs), ended: () => {} });
  #chunks: Int16Array[] = [];
  #begunMs: number | null = null;
  #utterance: AbortController | null = null;
  #recognizedMs = 0;
  #isRecognizing = false;
  #text = '';

  constructor(
    tap: (port: MessagePort) => { stop(): unknown },
    private readonly engine: TranscriptionEngine,
    private readonly expected: ExpectedSpeech,
    private readonly soFar: SpeechSoFar,
  ) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port2;
    port2.on('message', (message: { samples: Int16Array; startMs: number } | 'end') => this.#hear(message));
    const tapped = tap(port1);
    this.#stop = () => void tapped.stop();
  }

  /** The audio of the first sounds is here already. */
  begin(): void {
    this.#utterance?.abort();
    this.#utterance = new AbortController();
    this.#recognizedMs = 0;
    this.#text = '';
  }

  /** Nothing more is reported of it. Idempotent. */
  end(): void {
    this.#utterance?.abort();
    this.#utterance = null;
    this.#chunks = this.#chunks.slice(-keptChunks);
  }

  /** Idempotent. */
  close(): void {
    this.end();
    this.#stop();
  }

  #started(atMs: number): void {
    this.#begunMs ??= atMs;
  }

  #hear(message: { samples: Int16Array; startMs: number } | 'end'): void {
    if (message === 'end') {
      this.#port.close();
      return;
    }
    this.#port.postMessage('taken');
    const { samples, startMs } = message;
    this.#chunks.push(samples);
    const bytes = bytesOf(samples);
    this.#speech.hear(bytes, 0, bytes.length, 'G722', startMs);
    if (this.#utterance === null) {
      if (!this.#speech.speaking) this.#begunMs = null;
      this.#chunks = this.#chunks.slice(-keptChunks);
      return;
    }
    const spokenMs = this.#begunMs === null ? 0 : this.#speech.loudUntilMs - this.#begunMs;
    if (spokenMs <= 0) return;
    if (spokenMs > longestMs) this.#chunks = [];
    this.soFar.spoke(spokenMs);
    if (this.#utterance !== null && spokenMs - this.#recognizedMs >= againAfterMs && spokenMs <= longestMs)
      void this.#recognize(this.#utterance.signal, spokenMs);
  }

  /** Never rejects: the whole utterance is recognized at its end in any case. */
  async #recognize(signal: AbortSignal, spokenMs: number): Promise<void> {
    const { words } = this.soFar;
    if (words === undefined || this.#isRecognizing) return;
    this.#isRecognizing = true;
    this.#recognizedMs = spokenMs;
    const samples = new Int16Array(this.#chunks.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const chunk of this.#chunks) {
      samples.set(chunk, at);
      at += chunk.length;
    }
    try {
      const audio = { samples, sampleRateHz: samplesPerMs * 1000 };
      // What is whole goes before what is not.
      const { text } = await transcribeSamples(this.engine, audio, signal, { ...this.expected, use: 'transcript' });
      if (signal.aborted || text === '' || text === this.#text) return;
      this.#text = text;
      words(text);
    } catch {
    } finally {
      this.#isRecognizing = false;
    }
  }
}
