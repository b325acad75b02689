import type { SafeHttp } from '../../../net/http.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { TranscriptionEngine } from '../../transcription/engine.js';
import type { Action, FollowUp, Prompt, StatusCallback } from '../../webhook/actions.js';
import type { Notices } from '../../webhook/callback-queue.js';
import type { Webhook, WebhookRequest } from '../../webhook/webhook-client.js';
import type { ConverseLimits } from '../agent/conversation.js';
import type { AgentRules } from '../agent/failover-agent.js';
import type { Conferences } from '../conference/conferences.js';
import type { CallParty } from '../core/party.js';
import type { ChildCallDeps } from '../dial/child-call.js';
import type { BridgeRules } from '../dial/dial-sip.js';
import type { PromptPlayer } from '../prompts/prompt-player.js';
import type { Takes } from '../recording/recordings.js';
import type { Keypad } from './keypad.js';

/** What the script of a webhook needs of the process. */
export interface ScriptDeps {
  bridging: BridgeRules;
  http: SafeHttp;
  agents: AgentRules;
  limits: ConverseLimits;
  getEndpoint(id: string): Endpoint | undefined;
  voice: PromptPlayer;
  dialling: ChildCallDeps;
  takes: Takes;
  conferences: Conferences;
  notices: Notices;
  /** null when no transcription engine is configured. */
  transcription: TranscriptionEngine | null;
}

/** What the actions of a webhook work with. `signal` everywhere: the list of actions is left, or the call has ended. */
export interface Stage {
  readonly line: CallParty;
  readonly keypad: Keypad;
  readonly rules: ScriptDeps;
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
