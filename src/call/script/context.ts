import type { SafeHttp } from '../../../net/http.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { TranscriptionEngine } from '../../transcription/engine.js';
import type { Prompt } from '../../webhook/actions.js';
import type { CallbackQueue } from '../../webhook/callback-queue.js';
import type { CallLimits } from '../agent/conversation.js';
import type { AgentRules } from '../agent/failover-agent.js';
import type { Conferences } from '../conference/conferences.js';
import type { RequestedRecordings } from '../control/requested-recordings.js';
import type { ChildCallDeps } from '../dial/child-call.js';
import type { CallParty } from '../party/party.js';
import type { PromptPlayer } from '../prompts/prompt-player.js';
import type { CallQueues } from '../queue/call-queues.js';
import type { PartialRecordings } from '../recording/recordings.js';
import type { Keypad } from './input/keypad.js';
import type { ScriptWebhook } from './script-webhook.js';

/** What the script of a webhook needs of the process. */
export interface ScriptDeps {
  http: SafeHttp;
  agents: AgentRules;
  limits: CallLimits;
  getEndpoint(id: string): Endpoint | undefined;
  voice: PromptPlayer;
  dialling: ChildCallDeps;
  takes: PartialRecordings;
  recordings: RequestedRecordings;
  conferences: Conferences;
  queues: CallQueues;
  callbacks: CallbackQueue;
  /** null when there is no transcription engine at the moment. */
  readonly transcription: TranscriptionEngine | null;
}

/** What the actions of a script work with. The `signal` of an action aborts when its list is interrupted, or the call has ended. */
export interface ScriptContext {
  readonly party: CallParty;
  readonly keypad: Keypad;
  readonly deps: ScriptDeps;
  /** The webhook that is asked what to do next. */
  readonly webhook: ScriptWebhook;
  /** Answers the call, unless it is answered. */
  answer(): Promise<void>;
  /** Resolves when the prompt was heard. What cannot be made or fetched is left out, with a warning. */
  prompt(prompt: Prompt, signal: AbortSignal): Promise<void>;
}
