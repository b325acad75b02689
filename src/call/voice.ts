import type { MediaSession } from '../../media/engine.js';
import { WebhookFailure } from '../webhook/ask.js';
import type { Play, Record, Say } from '../webhook/instructions.js';
import type { Recorded } from '../webhook/questions.js';
import type { Keypad } from './keypad.js';

/** What a call that is steered says, plays and records by itself. */
export interface Voice {
  /** Resolves when it was heard. Rejects with the reason of `signal`, or with `WebhookFailure`. */
  speak(session: MediaSession, prompt: Say | Play, signal: AbortSignal): Promise<void>;
  /** null: there was nothing but silence. */
  record(session: MediaSession, rules: Record, keypad: Keypad, signal: AbortSignal): Promise<Recorded | null>;
}

export const noVoice: Voice = {
  speak: () => Promise.reject(new WebhookFailure('This version cannot play audio.')),
  record: () => Promise.reject(new WebhookFailure('This version cannot record.')),
};
