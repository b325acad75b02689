import { HttpError } from '../../../net/http.js';
import type { SpeechWarning } from '../../speech/offline-voice.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { Action, FollowUp, PlayAction, Prompt, Say, StatusCallback } from '../../webhook/actions.js';
import { connectedQuestion, startQuestion } from '../../webhook/request-bodies.js';
import type { CallState } from '../../webhook/twilio-parameters.js';
import { Webhook, WebhookFailure, type WebhookRequest } from '../../webhook/webhook-client.js';
import { carryOut } from '../control/call-commands.js';
import type { Call } from '../core/call.js';
import type { CallCommand, CommandResult } from '../core/command.js';
import { answerReoffers, keyOfInfo } from '../core/leg-requests.js';
import { CallEnded } from '../core/outcome.js';
import type { CallParty } from '../core/party.js';
import { heardKey, observe } from '../core/party-events.js';
import { confer } from './conference.js';
import { type ConnectStage, connectStep, connectTarget } from './connect.js';
import type { ScriptDeps } from './context.js';
import { dialOut } from './dial.js';
import { gather } from './gather.js';
import { Keypad } from './keypad.js';
import { SideStreams } from './media-forks.js';
import { recordPhone } from './record.js';

/** Follow-ups in a row between which the caller got nothing: a loop of redirects, or of things that fail. */
const maxIdleRequests = 20;
/** Whatever a list does for its caller takes longer than this. */
const idleMs = 200;
const maxRequests = 1000;
/** In the record of one call. */
const maxWarnings = 200;

/** Asks a webhook what to do with a new call. Rejects with `WebhookFailure`, or `CallEnded` when the caller was faster. */
export async function firstInstructions(
  line: CallParty,
  endpoint: Endpoint,
  rules: ScriptDeps,
  to: FollowUp | null = null,
): Promise<Action[]> {
  rules.voice.warm();
  return ask(
    line,
    new Webhook(endpoint, rules.http, line.call.cookies),
    to,
    startQuestion(line.facts, line.headers),
    line.call.signal,
  );
}

/** Does what a webhook says, action after action and list after list, until the call ends. */
export async function steer(line: CallParty, endpoint: Endpoint, actions: Action[], rules: ScriptDeps): Promise<void> {
  const steering = new Steering(line, new Webhook(endpoint, rules.http, line.call.cookies), rules);
  try {
    await steering.run(actions);
  } finally {
    await steering.close();
  }
}

/** One request and its place in the record of the call. `to` null: the endpoint's own address. */
async function ask(
  line: CallParty,
  webhook: Webhook,
  to: FollowUp | null,
  question: WebhookRequest,
  signal: AbortSignal,
): Promise<Action[]> {
  const { call } = line;
  const startedMs = performance.now();
  const facts = () => ({
    endpoint_id: webhook.endpoint.id,
    request: question.type,
    duration_ms: Math.round(performance.now() - startedMs),
  });
  try {
    const actions = await webhook.ask(to ?? webhook.target, stateOf(line), question, signal);
    call.event('webhook.delivered', { ...facts(), actions: namesOf(actions) });
    return actions;
  } catch (error) {
    call.check();
    if (signal.aborted) throw signal.reason;
    if (error instanceof WebhookFailure)
      call.event('webhook.failed', { ...facts(), message: error.message, ...error.facts });
    throw error;
  }
}

function stateOf({ facts, leg, call }: CallParty): CallState {
  return { ...facts, answered: leg !== null, ended: call.ending !== null };
}

/** Thrown through an action that a redirect interrupts. */
class Redirected extends Error {}

class Steering implements ConnectStage {
  readonly keypad = new Keypad();
  private readonly call: Call;
  /** Aborts the list that runs now. */
  private interrupt = new AbortController();
  private redirectTo: (CallCommand & { kind: 'redirect' })['to'] | null = null;
  private timeLimit: NodeJS.Timeout | null = null;
  private stopListening: (() => void) | null = null;
  private readonly streams = new SideStreams(this);
  private left: () => void = () => {};
  private requests = 0;
  private idleRequests = 0;
  private warnings = 0;
  /** When the last answer came, later by what was spent on things that failed. */
  private servedFromMs = performance.now();

  constructor(
    readonly line: CallParty,
    /** Who steers; a `connect` to another webhook changes it. */
    public asked: Webhook,
    readonly rules: ScriptDeps,
  ) {
    this.call = line.call;
    if (line.leg !== null) this.listen();
    line.call.onHandOver(() => this.leave());
  }

  get webhook(): Endpoint {
    return this.asked.endpoint;
  }

  get endpointId(): string {
    return this.webhook.id;
  }

  async run(first: Action[]): Promise<void> {
    for (let actions: Action[] | null = first; actions !== null; ) actions = await this.follow(actions);
    await this.answer(); // a list that ends has served its caller, whatever was on it
    this.call.end({ cause: 'normal_clearing', source: 'agent' });
  }

  async close(): Promise<void> {
    if (this.timeLimit !== null) clearTimeout(this.timeLimit);
    this.stopListening?.();
    this.call.commands = null;
    await this.streams.close();
  }

  /** One list; answers the next one, or null when it came to its end. */
  private async follow(actions: Action[]): Promise<Action[] | null> {
    this.interrupt = new AbortController();
    const signal = AbortSignal.any([this.call.signal, this.interrupt.signal]);
    for (const [index, prompt] of actions.flatMap(promptsOf).entries()) this.rules.voice.prepare(prompt, index === 0);
    try {
      for (const [index, action] of actions.entries()) {
        const next = await this.perform(action, signal, index === actions.length - 1);
        this.call.check();
        if (next !== null) return next;
      }
      return null;
    } catch (error) {
      if (this.call.handedOver) {
        this.left();
        await this.call.ended;
      }
      this.call.check();
      const to = this.redirectTo;
      this.redirectTo = null;
      if (to !== null) return 'actions' in to ? to.actions : this.redirected(to.next);
      if (error instanceof WebhookFailure)
        throw new CallEnded({ cause: 'webhook_error', source: 'system', detail: error.message });
      throw error;
    }
  }

  private async redirected(next: FollowUp): Promise<Action[]> {
    try {
      return await this.ask(next, { type: 'call.redirected', data: {}, fields: {} }, this.call.signal);
    } catch (error) {
      if (!(error instanceof WebhookFailure)) throw error;
      throw new CallEnded({ cause: 'webhook_error', source: 'system', detail: error.message });
    }
  }

  private async perform(action: Action, signal: AbortSignal, last: boolean): Promise<Action[] | null> {
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
        await this.command({ kind: 'dtmf', digits: action.digits });
        return null;
      case 'transfer':
        await this.command({ kind: 'transfer', to: action.to });
        return null;
      case 'connect':
        return this.connect(action, signal, last);
      case 'redirect':
        return this.ask(action.next, { type: 'call.redirected', data: {}, fields: {} }, signal);
      case 'record':
        return recordPhone(this, action, signal);
      case 'start_stream':
        await this.answer();
        this.streams.start(action, this.webhook);
        return null;
      case 'stop_stream':
        this.streams.stop(action.name);
        return null;
      case 'dial':
        return dialOut(this, action, signal);
      case 'warn':
        this.warn(action.message);
        return null;
      case 'conference':
        return confer(this, action, signal);
      case 'reject':
        if (this.line.leg === null)
          throw new CallEnded({
            cause: action.status === 486 || action.status === 600 ? 'user_busy' : 'call_rejected',
            source: 'agent',
          });
        throw new CallEnded({ cause: 'normal_clearing', source: 'agent' });
      case 'hangup':
        throw new CallEnded({ cause: 'normal_clearing', source: 'agent' });
    }
  }

  async answer(): Promise<void> {
    if (this.line.leg !== null) return;
    await this.line.answer();
    this.listen();
  }

  /** Keys, re-offers and commands, while no agent has the call. */
  private listen(): void {
    const { call, line, rules } = this;
    const { session, leg } = line;
    if (leg === null) return;
    this.timeLimit ??= setTimeout(() => call.end({ cause: 'time_limit', source: 'system' }), rules.limits.maxCallMs);
    session.attach(null);
    const stop = observe(session, call, (event) => {
      if (event.type === 'dtmf') this.keypad.press(event.digit);
    });
    answerReoffers(leg, session);
    leg.onInfo(
      call.guarded((info) => {
        const digit = keyOfInfo(info);
        if (digit === null || this.stopListening === null) return;
        heardKey(call, digit, 'info');
        this.keypad.press(digit);
        this.keypad.passOn?.(digit);
      }),
    );
    call.commands = async (command) =>
      command.kind === 'redirect'
        ? this.redirect(command)
        : carryOut(command, 'api', call, leg, session, rules.limits.transferTimeoutMs);
    this.stopListening = () => {
      this.stopListening = null;
      stop();
    };
  }

  redirect = (command: CallCommand & { kind: 'redirect' }): CommandResult => {
    this.redirectTo = command.to;
    this.interrupt.abort(new Redirected());
    return { ok: true };
  };

  /** The far side goes to somebody else: whatever runs is left, and no list comes after it. */
  private leave(): Promise<void> {
    return new Promise((resolve) => {
      this.left = resolve;
      this.interrupt.abort(new Redirected());
    });
  }

  /** What an API command would do, from the webhook; its failure is in the record, and the next action runs. */
  private async command(command: CallCommand): Promise<void> {
    await this.answer();
    const { leg, session } = this.line;
    if (leg === null) return;
    const { signal } = this.interrupt;
    const done = this.call.orEnd(
      carryOut(command, 'agent', this.call, leg, session, this.rules.limits.transferTimeoutMs),
    );
    const interrupted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    await Promise.race([done, interrupted]);
  }

  async prompt(prompt: Prompt, signal: AbortSignal): Promise<void> {
    if (prompt.action === 'pause') return wait(prompt.seconds * 1000, signal);
    const startedMs = performance.now();
    try {
      const warn = ({ message, code }: SpeechWarning) => this.warn(message, code);
      await this.rules.voice.speak(this.line.session, prompt, signal, warn);
    } catch (error) {
      if (!(error instanceof WebhookFailure)) throw error;
      this.servedFromMs += performance.now() - startedMs;
      this.warn(`${whatOf(prompt)} cannot be heard: ${error.message} The call goes on without it.`);
    }
  }

  private async connect(action: Action & { action: 'connect' }, signal: AbortSignal, last: boolean) {
    const { line, rules } = this;
    let endpoint: Endpoint;
    try {
      endpoint = connectTarget(action, this.webhook, rules.getEndpoint);
    } catch (error) {
      // Nothing would follow: the call fails, and says why.
      if (!(error instanceof WebhookFailure) || (last && action.next === null)) throw error;
      this.warn(`The call is not connected: ${error.message}`);
      return action.next === null ? null : this.ask(action.next, connectedQuestion('failed', error.message, 0), signal);
    }
    if (endpoint.type !== 'webhook') return connectStep(this, action, endpoint, last, signal);
    this.asked = new Webhook(endpoint, rules.http, line.call.cookies);
    return this.ask(null, startQuestion(line.facts, line.headers), signal);
  }

  handOver(): void {
    this.stopListening?.();
  }

  takeBack(): void {
    this.listen();
  }

  warn(message: string, code?: string): void {
    this.warnings += 1;
    if (this.call.ending !== null || this.warnings > maxWarnings) return;
    const told =
      this.warnings === maxWarnings
        ? { message: 'There are more warnings than the record of a call takes.' }
        : { message, ...(code !== undefined && { code }) };
    this.call.event('webhook.warning', { endpoint_id: this.endpointId, ...told });
  }

  tell(next: FollowUp | null, question: WebhookRequest): void {
    const { line, asked } = this;
    if (next !== null) this.rules.notices.send(this.call.id, asked.request(next, stateOf(line), question));
  }

  status(callback: StatusCallback | null, event: string, fields: { [name: string]: string }): void {
    if (!callback?.events.includes(event)) return;
    this.rules.notices.send(this.call.id, this.asked.form(callback.to, stateOf(this.line), fields));
  }

  async ask(to: FollowUp | null, question: WebhookRequest, signal: AbortSignal): Promise<Action[]> {
    this.requests += 1;
    this.idleRequests = performance.now() - this.servedFromMs < idleMs ? this.idleRequests + 1 : 1;
    if (this.idleRequests > maxIdleRequests || this.requests > maxRequests)
      throw new WebhookFailure('The webhook redirects in a circle.', { where: 'redirect' });
    try {
      return await ask(this.line, this.asked, to, question, signal);
    } catch (error) {
      // An answer that came apart for another reason than the webhook's is ours.
      if (error instanceof HttpError) throw new WebhookFailure(error.message);
      throw error;
    } finally {
      this.servedFromMs = performance.now();
    }
  }
}

function namesOf(actions: Action[]): string[] {
  return actions.map((each) => each.action).filter((name) => name !== 'warn');
}

/** What an action says and plays. */
function promptsOf(action: Action): (Say | PlayAction)[] {
  if (action.action === 'gather') return action.prompts.flatMap(promptsOf);
  return action.action === 'say' || action.action === 'play' ? [action] : [];
}

/** A prompt in a warning: texts and the queries of addresses are the caller's affair. */
function whatOf(prompt: Say | PlayAction): string {
  if (prompt.action === 'say') return 'A text';
  const { origin, pathname } = new URL(prompt.url);
  return `The file ${origin}${pathname}`;
}

/** Rejects with the reason of `signal`. */
function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end);
      resolve();
    }, ms);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
  });
}
