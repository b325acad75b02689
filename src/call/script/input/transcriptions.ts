import { howToTranscribe } from '../../../transcription/engine.js';
import type { StartTranscription } from '../../../webhook/actions.js';
import { transcriptionFields } from '../../../webhook/request-bodies.js';
import { newTranscriptionSid } from '../../../webhook/twilio-parameters.js';
import type { ScriptContext } from '../context.js';
import { expectedSpeech, Listening } from './listening.js';

/** The silence that ends an utterance. */
const pauseSec = 0.7;

export const noEngine = `no transcription engine (${howToTranscribe})`;

interface Running {
  name: string;
  listening: Listening;
  over: Promise<void>;
}

/** Transcriptions that run beside what the call does. Each utterance is in the record, and sent to the webhook that asked for it. */
export class Transcriptions {
  readonly #running = new Set<Running>();

  constructor(private readonly script: ScriptContext) {}

  start(action: StartTranscription): void {
    const { party, deps, webhook } = this.script;
    const sid = newTranscriptionSid();
    let sequence = 0;
    const report = (event: Parameters<typeof transcriptionFields>[2], about: { [name: string]: string } = {}) => {
      if (action.status === null) return;
      sequence += 1;
      const fields = transcriptionFields({ ...action, sid }, sequence, event, about);
      webhook.status({ to: action.status, events: [event] }, event, fields);
    };
    if (deps.transcription === null) {
      webhook.warn(`The call is not transcribed: there is ${noEngine}.`);
      report('transcription-error', { TranscriptionError: `There is ${noEngine}.` });
      return;
    }
    report('transcription-started', { PartialResults: 'false' });
    const expected = { speechTimeoutSec: pauseSec, ...expectedSpeech(action.language, action.hints) };
    const listening = new Listening(party, deps.transcription, expected, {
      said: (text) => {
        const { call } = party;
        if (call.transcript.isWrittenBy('action', 'caller')) call.said({ speaker: 'caller', text });
        const transcript = call.redaction.textOf(text);
        report('transcription-content', { TranscriptionData: JSON.stringify({ transcript }), Final: 'true' });
      },
    });
    const running: Running = {
      name: action.name ?? sid,
      listening,
      over: listening.over.then(() => {
        this.#running.delete(running);
        report('transcription-stopped');
      }),
    };
    this.#running.add(running);
  }

  /** `name` null: the one that was started last. */
  stop(name: string | null): void {
    const named = [...this.#running].filter((each) => name === null || each.name === name);
    named.at(-1)?.listening.stop();
  }

  /** Resolves when all have ended. */
  async close(): Promise<void> {
    const all = [...this.#running];
    for (const { listening } of all) listening.stop();
    await Promise.all(all.map(({ over }) => over));
  }
}
