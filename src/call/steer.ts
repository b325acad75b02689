import { HttpError, type SafeHttp } from '../../net/http.js';
import type { EndpointForCall as Endpoint } from '../store/endpoints.js';
import { type Question, Webhook, WebhookFailure } from '../webhook/ask.js';
import {
  type Action,
  type Connect,
  type Dial,
  e164,
  type FollowUp,
  type Gather,
  type Play,
  type Prompt,
  type Say,
} from '../webhook/instructions.js';
import { connectedQuestion, dialledQuestion, gatheredQuestion, startQuestion } from '../webhook/questions.js';
import type { CallState } from '../webhook/twilio-words.js';
import type { Call } from './call.js';
import type { CallCommand, CommandResult } from './command.js';
import { type AgentRules, connectAgent } from './connect-agent.js';
import { answerReoffers, type ConverseLimits, carryOut, converse, keyOfInfo } from './converse.js';
import { type DialRules, dialOut } from './dial-out.js';
import { Keypad } from './keypad.js';
import type { Line } from './line.js';
import { CallEnded } from './outcome.js';
import type { BridgeRules } from './second-leg.js';
import { streamEndpoint } from './stream-endpoint.js';
import type { Voice } from './voice.js';

export interface SteerRules {
  bridging: BridgeRules;
  http: SafeHttp;
  agents: AgentRules;
  limits: ConverseLimits;
  getEndpoint(id: string): Endpoint | undefined;
  voice: Voice;
  dialling: DialRules;
}

/** Follow-ups in a row in which nothing was done that takes time: a loop of redirects. */
const maxIdleRequests = 20;
const maxRequests = 1000;

/** Asks a webhook what to do with a new call. Rejects with `WebhookFailure`, or `CallEnded` when the caller was faster. */
export async function firstInstructions(line: Line, endpoint: Endpoint, rules: SteerRules): Promise<Action[]> {
  rules.voice.warm();
  return ask(line, new Webhook(endpoint, rules.http), null, startQuestion(line.facts, line.headers), line.call.signal);
}

/** Does what a webhook says, action after action and list after list, until the call ends. */
export async function steer(line: Line, endpoint: Endpoint, actions: Action[], rules: SteerRules): Promise<void> {
  const steering = new Steering(line, new Webhook(endpoint, rules.http), rules);
  try {
    await steering.run(actions);
  } finally {
    steering.close();
  }
}

/** One request and its place in the record of the call. `to` null: the endpoint's own address. */
async function ask(
  line: Line,
  webhook: Webhook,
  to: FollowUp | null,
  question: Question,
  signal: AbortSignal,
): Promise<Action[]> {
  const { call } = line;
  const startedMs = performance.now();
  const facts = () => ({
    endpoint_id: webhook.endpoint.id,
    request: question.type,
    duration_ms: Math.round(performance.now() - startedMs),
  });
  const state: CallState = { ...line.facts, answered: line.leg !== null, ended: call.ending !== null };
  try {
    const actions = await webhook.ask(to ?? webhook.target, state, question, signal);
    call.event('webhook.delivered', { ...facts(), actions: actions.map((each) => each.action) });
    return actions;
  } catch (error) {
    call.check();
    if (signal.aborted) throw signal.reason;
    if (error instanceof WebhookFailure)
      call.event('webhook.failed', { ...facts(), message: error.message, ...error.facts });
    throw error;
  }
}

/** Thrown through an action that a redirect interrupts. */
class Redirected extends Error {}

class Steering {
  private readonly keypad = new Keypad();
  private readonly call: Call;
  /** Aborts the list that runs now. */
  private interrupt = new AbortController();
  private redirect: (CallCommand & { kind: 'redirect' })['to'] | null = null;
  private timeLimit: NodeJS.Timeout | null = null;
  private stopListening: (() => void) | null = null;
  private requests = 0;
  private idleRequests = 0;

  constructor(
    private readonly line: Line,
    private webhook: Webhook,
    private readonly rules: SteerRules,
  ) {
    this.call = line.call;
    if (line.leg !== null) this.listen();
  }

  async run(first: Action[]): Promise<void> {
    for (let actions: Action[] | null = first; actions !== null; ) actions = await this.follow(actions);
    this.call.end({ cause: 'normal_clearing', source: 'agent' });
  }

  close(): void {
    if (this.timeLimit !== null) clearTimeout(this.timeLimit);
    this.stopListening?.();
    this.call.commands = null;
  }

  /** One list; answers the next one, or null when it came to its end. */
  private async follow(actions: Action[]): Promise<Action[] | null> {
    this.interrupt = new AbortController();
    const signal = AbortSignal.any([this.call.signal, this.interrupt.signal]);
    for (const prompt of actions.flatMap(promptsOf)) this.rules.voice.prepare(prompt);
    try {
      for (const [index, action] of actions.entries()) {
        const next = await this.perform(action, signal, index === actions.length - 1);
        this.call.check();
        if (next !== null) return next;
      }
      return null;
    } catch (error) {
      this.call.check();
      const to = this.redirect;
      this.redirect = null;
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
    const takesTime = action.action !== 'redirect' && action.action !== 'answer';
    if (takesTime) this.idleRequests = 0;
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
        return this.gather(action, signal);
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
        throw new WebhookFailure('This version cannot record.', { where: 'record' });
      case 'dial':
        return this.dial(action, signal);
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

  private async answer(): Promise<void> {
    if (this.line.leg !== null) return;
    await this.line.answer();
    this.listen();
  }

  /** Keys, holds, re-offers and commands, while no agent has the call. */
  private listen(): void {
    const { call, line, rules } = this;
    const { session, leg } = line;
    if (leg === null) return;
    this.timeLimit ??= setTimeout(() => call.end({ cause: 'time_limit', source: 'system' }), rules.limits.maxCallMs);
    session.attach(null);
    const heard = (digit: string, method: string, durationMs?: number) => {
      call.event('dtmf.received', { digit, method, ...(durationMs === undefined ? {} : { duration_ms: durationMs }) });
      this.keypad.press(digit);
    };
    const stop = session.onEvent((event) => {
      if (event.type === 'started') call.event('media.started');
      else if (event.type === 'dtmf') heard(event.digit, 'rfc4733', event.durationMs);
      else if (event.type === 'held') call.event('call.held');
      else if (event.type === 'resumed') call.event('call.resumed');
      else if (event.type === 'agentAudio') call.heardAgent();
      else if (event.type === 'oneWay') call.event('media.one_way', { direction: event.direction });
    });
    answerReoffers(leg, session);
    leg.onInfo((info) => {
      const digit = keyOfInfo(info);
      if (digit !== null && this.stopListening !== null) heard(digit, 'info');
    });
    call.commands = async (command) =>
      command.kind === 'redirect'
        ? this.takeRedirect(command)
        : carryOut(command, 'api', call, leg, session, rules.limits);
    this.stopListening = () => {
      this.stopListening = null;
      stop();
    };
  }

  private takeRedirect(command: CallCommand & { kind: 'redirect' }): CommandResult {
    this.redirect = command.to;
    this.interrupt.abort(new Redirected());
    return { ok: true };
  }

  /** What an API command would do, from the webhook; its failure is in the record, and the next action runs. */
  private async command(command: CallCommand): Promise<void> {
    await this.answer();
    const { leg, session } = this.line;
    if (leg !== null) await this.call.orEnd(carryOut(command, 'agent', this.call, leg, session, this.rules.limits));
  }

  private async prompt(prompt: Prompt, signal: AbortSignal): Promise<void> {
    if (prompt.action === 'pause') return wait(prompt.seconds * 1000, signal);
    await this.rules.voice.speak(this.line.session, prompt, signal);
  }

  private async gather(action: Gather, signal: AbortSignal): Promise<Action[] | null> {
    if (!action.digits)
      throw new WebhookFailure('Speech cannot be gathered: no transcription engine is configured.', {
        where: 'gather',
      });
    await this.answer();
    const input = await this.keypad.collect(
      { numDigits: action.numDigits, finishOnKey: action.finishOnKey, timeoutMs: action.timeoutSec * 1000 },
      async (stop) => {
        for (const prompt of action.prompts) await this.prompt(prompt, stop);
      },
      signal,
    );
    if (action.next === null || (input.digits === '' && !action.nextWhenEmpty)) return null;
    return this.ask(action.next, gatheredQuestion(input), signal);
  }

  private async dial(action: Dial, signal: AbortSignal): Promise<Action[] | null> {
    const { facts, mode } = this.line;
    if (action.record) throw new WebhookFailure('This version cannot record.', { where: 'dial.record' });
    for (const to of action.to) {
      const refusal = e164.test(to)
        ? this.rules.dialling.refusal(facts.organizationId, mode, { to, from: action.from })
        : 'This version dials E.164 numbers only.';
      if (refusal !== null) throw new WebhookFailure(refusal, { where: 'dial' });
    }
    const dialled = await dialOut(this.line, action, () => this.answer(), this.rules.dialling, signal);
    if (action.next === null) return null;
    return this.ask(action.next, dialledQuestion(dialled), signal);
  }

  /** An agent of an endpoint, or a stream; the call is answered only when it is ready. */
  private async connect(action: Connect, signal: AbortSignal, last: boolean): Promise<Action[] | null> {
    const { line, call, rules } = this;
    const endpoint = this.connectTarget(action);
    if (endpoint.type === 'webhook') {
      this.webhook = new Webhook(endpoint, rules.http);
      return this.ask(null, startQuestion(line.facts, line.headers), signal);
    }
    const startedMs = performance.now();
    const facts = { ...line.facts, custom: action.to.kind === 'stream' ? action.to.custom : {} };
    let agent: Awaited<ReturnType<typeof connectAgent>>['agent'];
    try {
      ({ agent } = await connectAgent(call, facts, [endpoint], line.session, rules.agents));
    } catch (error) {
      if (!(error instanceof CallEnded) || call.ending !== null || (last && action.next === null)) throw error;
      if (action.next === null) return null;
      return this.ask(action.next, connectedQuestion('failed', error.message, 0), signal);
    }
    try {
      const leg = await line.answer();
      this.stopListening?.();
      const visit = {
        leave: signal,
        redirect: (command: CallCommand & { kind: 'redirect' }) => this.takeRedirect(command),
      };
      const end = await converse(call, leg, line.session, agent, rules.limits, visit);
      call.check();
      if (signal.aborted) throw signal.reason;
      const by = end?.by === 'failed' ? 'failed' : 'hangup';
      if (last && action.next === null)
        throw new CallEnded({
          cause: by === 'failed' ? 'agent_error' : 'agent_hangup',
          source: 'agent',
          ...(end === null ? {} : { detail: end.detail }),
        });
      if (action.next === null) return null;
      const durationSec = Math.round((performance.now() - startedMs) / 1000);
      return await this.ask(action.next, connectedQuestion(by, end?.detail ?? '', durationSec), signal);
    } finally {
      await agent.close('the stream is over');
      if (call.ending === null) this.listen();
    }
  }

  private connectTarget(action: Connect): Endpoint {
    const { endpoint: own } = this.webhook;
    if (action.to.kind === 'stream') return streamEndpoint(own, action.to);
    const endpoint = this.rules.getEndpoint(action.to.endpointId.toLowerCase());
    if (endpoint?.organizationId !== own.organizationId)
      throw new WebhookFailure('There is no such endpoint.', { where: 'connect.endpoint_id' });
    if (endpoint.status !== 'active')
      throw new WebhookFailure('The endpoint is inactive.', { where: 'connect.endpoint_id' });
    return endpoint;
  }

  private async ask(to: FollowUp | null, question: Question, signal: AbortSignal): Promise<Action[]> {
    this.requests += 1;
    this.idleRequests += 1;
    if (this.idleRequests > maxIdleRequests || this.requests > maxRequests)
      throw new WebhookFailure('The webhook redirects in a circle.', { where: 'redirect' });
    try {
      return await ask(this.line, this.webhook, to, question, signal);
    } catch (error) {
      // An answer that came apart for another reason than the webhook's is ours.
      if (error instanceof HttpError) throw new WebhookFailure(error.message);
      throw error;
    }
  }
}

/** What an action says and plays. */
function promptsOf(action: Action): (Say | Play)[] {
  if (action.action === 'gather') return action.prompts.flatMap(promptsOf);
  return action.action === 'say' || action.action === 'play' ? [action] : [];
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
