import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { Action, FollowUp, Prompt } from '../../webhook/actions.js';
import { connectedQuestion, notifiedQuestion, startQuestion } from '../../webhook/request-bodies.js';
import { Webhook, WebhookFailure } from '../../webhook/webhook-client.js';
import type { WebhookRequest } from '../../webhook/webhook-request.js';
import { carryOut } from '../control/call-commands.js';
import type { Call } from '../core/call.js';
import type { CallCommand, CommandResult } from '../core/command.js';
import { CallEnded } from '../core/outcome.js';
import type { Application, DetachReason, Key } from '../party/application.js';
import type { CallParty } from '../party/party.js';
import { confer } from './conference.js';
import type { ScriptContext, ScriptDeps } from './context.js';
import { dialOut } from './dial.js';
import { dialQueue } from './dial-queue.js';
import { enqueue } from './enqueue.js';
import { gather } from './input/gather.js';
import { Keypad } from './input/keypad.js';
import { Transcriptions } from './input/transcriptions.js';
import { playPrompt, promptsOf } from './prompts.js';
import { recordPhone, startRecording } from './record.js';
import { conversationRelay } from './relay/conversation-relay.js';
import { askWebhook, ScriptWebhook } from './script-webhook.js';
import { connectStep, connectTarget } from './streams/connect.js';
import { MediaForks } from './streams/media-forks.js';

type Redirect = CallCommand & { kind: 'redirect' };

/** Thrown through an action that a redirect or a transfer interrupts. */
class Interrupted extends Error {}

const redirected: WebhookRequest = { type: 'call.redirected', data: {}, fields: {} };

/** Follows a webhook, action after action and list after list, until the call ends. */
export class Script implements Application, ScriptContext {
  readonly kind = 'script';
  readonly keypad = new Keypad();
  readonly webhook: ScriptWebhook;
  readonly #call: Call;
  readonly #forks: MediaForks;
  readonly #transcriptions: Transcriptions;
  /** Aborts the list that runs now. */
  #interrupt = new AbortController();
  #redirectTo: Redirect['to'] | null = null;
  /** The party is being transferred: no further action starts. */
  #isLeaving = false;
  #resolveLeft!: () => void;
  /** Resolves when no action runs. */
  readonly #left: Promise<void>;

  private constructor(
    readonly party: CallParty,
    client: Webhook,
    readonly deps: ScriptDeps,
    private readonly first: Action[],
  ) {
    this.#call = party.call;
    this.webhook = new ScriptWebhook(party, client, deps.callbacks);
    this.#forks = new MediaForks(this);
    this.#transcriptions = new Transcriptions(this);
    this.#left = new Promise((resolve) => {
      this.#resolveLeft = resolve;
    });
  }

  /** Asks the webhook what to do with a new call. Rejects with `WebhookFailure`, or with `CallEnded` when the caller hung up first. */
  static async ask(
    party: CallParty,
    endpoint: Endpoint,
    deps: ScriptDeps,
    first: { actions: Action[] } | { next: FollowUp | null } = { next: null },
  ): Promise<Script> {
    const { call, facts, headers } = party;
    const client = new Webhook(endpoint, deps.http, call.cookies);
    if ('actions' in first) return new Script(party, client, deps, first.actions);
    deps.voice.warm();
    const actions = await askWebhook(party, client, first.next, startQuestion(facts, headers), call.signal);
    return new Script(party, client, deps, actions ?? []);
  }

  async run(): Promise<void> {
    const { party } = this;
    await party.control.connect(this);
    try {
      if (party.leg !== null) await party.answer();
      let list: Redirect['to'] | null = { actions: this.first };
      while (list !== null) list = await this.#follow(list);
      await this.answer(); // an empty list answers the call too
      this.#call.end({ cause: 'normal_clearing', source: 'agent' });
    } finally {
      this.#resolveLeft();
      await Promise.all([this.#forks.close(), this.#transcriptions.close()]);
    }
  }

  attach(): void {
    const { party, webhook, deps } = this;
    party.control.attach(this, null);
    if (party.call.isRecorded ?? webhook.endpoint.record) deps.agents.recordings.begin(party.call, party.session);
  }

  /** Resolves when the running action was interrupted and has ended. */
  async detach(why: DetachReason): Promise<void> {
    if (why !== 'transferred') return; // the list has ended, or ends with the call
    this.#isLeaving = true;
    this.#interrupt.abort(new Interrupted());
    await this.#left;
  }

  onKey({ digit }: Key): void {
    this.keypad.press(digit);
  }

  onHold(): void {}

  onCommand(command: CallCommand): Promise<CommandResult> | null {
    if (command.kind !== 'redirect') return null;
    this.#redirectTo = command.to;
    this.#interrupt.abort(new Interrupted());
    return Promise.resolve({ ok: true });
  }

  async answer(): Promise<void> {
    if (this.party.leg === null) await this.party.answer();
  }

  prompt(prompt: Prompt, signal: AbortSignal): Promise<void> {
    return playPrompt(prompt, this.party, this.deps.voice, this.webhook, signal);
  }

  /** Carries out one list, which the webhook is asked for unless it is there; returns the next one, or null when no actions remain. */
  async #follow(list: Redirect['to']): Promise<Redirect['to'] | null> {
    this.#interrupt = new AbortController();
    if (this.#isLeaving || this.#redirectTo !== null) this.#interrupt.abort(new Interrupted());
    const signal = AbortSignal.any([this.#call.signal, this.#interrupt.signal]);
    try {
      const actions =
        'actions' in list ? list.actions : ((await this.webhook.ask(list.next, redirected, signal)) ?? []);
      const session = this.party.hasMedia ? this.party.session : null;
      for (const [index, prompt] of actions.flatMap(promptsOf).entries())
        this.deps.voice.prepare(session, prompt, index === 0);
      for (const [index, action] of actions.entries()) {
        signal.throwIfAborted();
        const next = await this.#perform(action, signal, index === actions.length - 1);
        this.#call.check();
        if (next !== null) return { actions: next };
      }
      signal.throwIfAborted();
      return null;
    } catch (error) {
      if (this.#isLeaving) {
        this.#resolveLeft();
        await this.#call.ended;
      }
      this.#call.check();
      const to = this.#redirectTo;
      this.#redirectTo = null;
      if (to === null) throw failed(error);
      return to;
    }
  }

  async #perform(action: Action, signal: AbortSignal, last: boolean): Promise<Action[] | null> {
    switch (action.action) {
      case 'answer':
        await this.answer();
        return null;
      case 'say':
      case 'play':
        await this.answer();
        await this.prompt(action, signal);
        return null;
      case 'pause':
        await this.prompt(action, signal);
        return null;
      case 'gather':
        return gather(this, action, signal);
      case 'dtmf':
        await this.#command({ kind: 'dtmf', digits: action.digits });
        return null;
      case 'redact':
        await this.#command({ kind: 'redaction', ...action.change });
        return null;
      case 'transfer':
        await this.#command({ kind: 'transfer', to: action.to });
        return null;
      case 'connect':
        return this.#connect(action, signal, last);
      case 'conversation_relay':
        return conversationRelay(this, action, signal);
      case 'redirect':
        return this.webhook.ask(action.next, redirected, signal);
      case 'notify':
        return this.webhook.ask(action.next, notifiedQuestion(action.payload), signal);
      case 'record':
        return recordPhone(this, action, signal);
      case 'start_stream':
        await this.answer();
        this.#forks.start(action, this.webhook.endpoint);
        return null;
      case 'stop_stream':
        this.#forks.stop(action.name);
        return null;
      case 'start_recording':
        await this.answer();
        startRecording(this, action);
        return null;
      case 'start_transcription':
        await this.answer();
        this.#transcriptions.start(action);
        return null;
      case 'stop_transcription':
        this.#transcriptions.stop(action.name);
        return null;
      case 'dial':
        return dialOut(this, action, signal);
      case 'dial_queue':
        return dialQueue(this, action, signal);
      case 'enqueue':
        return enqueue(this, action, signal);
      case 'leave':
        this.webhook.warn('The call is in no queue that it could leave.');
        return null;
      case 'warn':
        this.webhook.warn(action.message);
        return null;
      case 'conference':
        return confer(this, action, signal);
      case 'reject':
        if (this.party.leg === null)
          throw new CallEnded({
            cause: action.status === 486 || action.status === 600 ? 'user_busy' : 'call_rejected',
            source: 'agent',
          });
        throw new CallEnded({ cause: 'normal_clearing', source: 'agent' });
      case 'hangup':
        throw new CallEnded({ cause: 'normal_clearing', source: 'agent' });
    }
  }

  /** A command as the API has it. Its failure is in the record, and the next action runs. */
  async #command(command: CallCommand): Promise<void> {
    await this.answer();
    const { signal } = this.#interrupt;
    const done = carryOut(command, 'agent', this.party, this.deps.limits.transferTimeoutMs);
    const interrupted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    await Promise.race([this.#call.orEnd(done), interrupted]);
  }

  async #connect(action: Action & { action: 'connect' }, signal: AbortSignal, last: boolean): Promise<Action[] | null> {
    const { party, deps, webhook } = this;
    let endpoint: Endpoint;
    try {
      endpoint = connectTarget(action, webhook.endpoint, deps.getEndpoint);
    } catch (error) {
      // When no action follows, the call fails with this reason.
      if (!(error instanceof WebhookFailure) || (last && action.next === null)) throw error;
      webhook.warn(`The call is not connected: ${error.message}`);
      return action.next === null
        ? null
        : webhook.ask(action.next, connectedQuestion('failed', error.message, 0), signal);
    }
    if (endpoint.providerConfig.redact_dtmf === true) party.call.redaction.redactEveryKey();
    if (endpoint.type !== 'webhook') return connectStep(this, action, endpoint, last, signal);
    webhook.client = new Webhook(endpoint, deps.http, party.call.cookies);
    return webhook.ask(null, startQuestion(party.facts, party.headers), signal);
  }
}

function failed(error: unknown): unknown {
  return error instanceof WebhookFailure
    ? new CallEnded({ cause: 'webhook_error', source: 'system', detail: error.message })
    : error;
}
