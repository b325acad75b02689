import type { Action, FollowUp, Prompt, StatusCallback } from '../../webhook/actions.js';
import type { Webhook, WebhookRequest } from '../../webhook/webhook-client.js';
import type { CallParty } from '../core/party.js';
import type { Keypad } from './keypad.js';
import type { SteerRules } from './runner.js';

/** What the actions of a webhook work with. `signal` everywhere: the list of actions is left, or the call has ended. */
export interface Stage {
  readonly line: CallParty;
  readonly keypad: Keypad;
  readonly rules: SteerRules;
  /** Who is asked, and signs. */
  readonly asked: Webhook;
  /** The webhook endpoint that steers. */
  readonly endpointId: string;
  /** Something has no effect, or not all of it: a note in the record. */
  warn(message: string): void;
  /** Answers the call, if it is not. */
  answer(): Promise<void>;
  /** Resolves when it was heard. What cannot be made or fetched is left out, with a warning. */
  prompt(prompt: Prompt, signal: AbortSignal): Promise<void>;
  /** What is next, now that this has its result. */
  ask(next: FollowUp, question: WebhookRequest, signal: AbortSignal): Promise<Action[]>;
  /** The result of something that the end of the call cut short: nothing is next. */
  tell(next: FollowUp | null, question: WebhookRequest): void;
  /** A step of something that takes time, for those who asked to be told. */
  status(callback: StatusCallback | null, event: string, fields: { [name: string]: string }): void;
}
