import type { TranscriptionEngine } from '../../transcription/engine.js';
import type { CallParty } from '../party/party.js';
import { Listening } from '../script/input/listening.js';
import { type AnswererPhrase, answererOf, type SpokenAnswerer } from './answerer-phrases.js';

/** The silence that ends an utterance; announcements pause longer between sentences. */
const pauseSec = 0.6;

export interface HeardAnswerer extends AnswererPhrase {
  /** Milliseconds from the begin of listening. */
  afterMs: number;
}

/** Recognizes by words who answered, utterance by utterance. */
export class AnswererWords {
  /** The last that was recognized; null: none. */
  heard: HeardAnswerer | null = null;
  readonly #listening: Listening;
  readonly #waiting = new Set<() => void>();
  readonly #startedMs = performance.now();
  #isOver = false;
  #isSpeaking = false;

  constructor(party: CallParty, engine: TranscriptionEngine) {
    this.#listening = new Listening(
      party,
      engine,
      { speechTimeoutSec: pauseSec },
      {
        begun: () => {
          this.#isSpeaking = true;
        },
        said: (text) => {
          const phrase = answererOf(text);
          this.#isSpeaking = false;
          if (phrase !== null) this.heard = { ...phrase, afterMs: Math.round(performance.now() - this.#startedMs) };
          this.#tell();
        },
      },
    );
    void this.#listening.over.then(() => {
      this.#isOver = true;
      this.#tell();
    });
  }

  /** The first of these that is recognized; null when the words are over without. */
  async found(...wanted: readonly SpokenAnswerer[]): Promise<HeardAnswerer | null> {
    for (;;) {
      if (this.heard !== null && wanted.includes(this.heard.answerer)) return this.heard;
      if (this.#isOver) return null;
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  /** What was recognized, or is by the end of the utterance that is being spoken; null: nothing by then, or within the limit. */
  async next(limitMs: number, signal: AbortSignal): Promise<HeardAnswerer | null> {
    if (this.heard !== null || this.#isOver || !this.#isSpeaking) return this.heard;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limitMs);
      const end = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#waiting.add(end);
      signal.addEventListener('abort', end, { once: true });
    });
    return this.heard;
  }

  /** Idempotent. */
  stop(): void {
    this.#listening.stop();
  }

  #tell(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve();
  }
}
