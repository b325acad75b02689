import type { ExpectedSpeech, TranscriptionEngine } from '../../../transcription/engine.js';
import type { CallParty } from '../../party/party.js';
import { SpeechInput } from './speech-input.js';

export interface Heard {
  /** Speech begins. */
  begun?(): void;
  /** Speech that had begun is over. */
  ended?(): void;
  /** An utterance, in the order in which they were spoken. */
  said(text: string): void;
}

/** Hears a phone, utterance by utterance, until it is stopped or the phone has gone. */
export class Listening {
  /** Resolves when it has ended and every utterance was reported. Never rejects. */
  readonly over: Promise<void>;
  #input: SpeechInput | null = null;
  #isStopped = false;

  constructor(
    private readonly party: CallParty,
    private readonly engine: TranscriptionEngine,
    private readonly expected: { speechTimeoutSec: number } & ExpectedSpeech,
    private readonly heard: Heard,
  ) {
    this.over = this.#listen();
  }

  /** What is being said is not reported any more. Idempotent. */
  stop(): void {
    this.#isStopped = true;
    this.#input?.giveUp();
  }

  async #listen(): Promise<void> {
    const { party, heard } = this;
    let reported = Promise.resolve();
    while (!this.#isStopped && party.call.ending === null) {
      const input = new SpeechInput(party, this.engine, this.expected);
      this.#input = input;
      let hasBegun = false;
      void input.begun.then(() => {
        hasBegun = !this.#isStopped;
        if (hasBegun) heard.begun?.();
      });
      // The next utterance may begin while this one is being recognized.
      reported = reported.then(async () => {
        const text = await input.said;
        if (text !== null && !this.#isStopped) heard.said(text);
      });
      const isLast = await input.isOver;
      if (hasBegun) heard.ended?.();
      if (isLast) break;
    }
    await reported;
  }
}

/** An expectation without what is not known. */
export function expectedSpeech(language: string | null, hints: string | null): ExpectedSpeech {
  return { ...(language === null ? {} : { language }), ...(hints === null ? {} : { hints }) };
}
