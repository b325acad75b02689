/** The webhook that a script follows: its requests, their limits, and what goes wrong with them. */
import { randomUUID } from 'node:crypto';
import { HttpError } from '../../../net/http.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { Action, FollowUp, StatusCallback } from '../../webhook/actions.js';
import type { CallbackQueue } from '../../webhook/callback-queue.js';
import type { CallState } from '../../webhook/twilio-parameters.js';
import { type Webhook, WebhookFailure } from '../../webhook/webhook-client.js';
import type { WebhookRequest } from '../../webhook/webhook-request.js';
import type { CallParty } from '../party/party.js';

/** Follow-ups in a row between which the caller got nothing: a loop of redirects, or of actions that fail. */
const maxIdleRequests = 20;
/** A list that does something for its caller takes longer than this. */
const idleMs = 200;
const maxRequests = 1000;
/** In the record of one call. */
const maxWarnings = 200;

/** One request and its place in the record of the call. `to` null: the endpoint's own address. */
export async function askWebhook(
  party: CallParty,
  webhook: Webhook,
  to: FollowUp | null,
  question: WebhookRequest,
  signal: AbortSignal,
): Promise<Action[] | null> {
  const { call } = party;
  const startedMs = performance.now();
  const facts = () => ({
    endpoint_id: webhook.endpoint.id,
    request: question.type,
    duration_ms: Math.round(performance.now() - startedMs),
  });
  try {
    const actions = await webhook.ask(to ?? webhook.target, stateOf(party), question, signal);
    call.event('webhook.delivered', { ...facts(), actions: namesOf(actions ?? []) });
    return actions;
  } catch (error) {
    call.check();
    if (signal.aborted) throw signal.reason;
    if (error instanceof WebhookFailure)
      call.event('webhook.failed', { ...facts(), message: error.message, ...error.facts });
    throw error;
  }
}

export class ScriptWebhook {
  #requests = 0;
  #idleRequests = 0;
  #warnings = 0;
  /** When the last answer came, later by the time that was spent on failed actions. */
  #servedFromMs = performance.now();

  constructor(
    private readonly party: CallParty,
    /** The client of its endpoint, which also signs; a `connect` to another webhook changes it. */
    public client: Webhook,
    private readonly callbacks: CallbackQueue,
  ) {}

  get endpoint(): Endpoint {
    return this.client.endpoint;
  }

  /** Asks what is next; null: the next action of this list. Rejects with `WebhookFailure`, or the reason of `signal`. */
  async ask(to: FollowUp | null, question: WebhookRequest, signal: AbortSignal): Promise<Action[] | null> {
    if (to?.answerIgnored) {
      this.tell(to, question);
      return null;
    }
    this.#requests += 1;
    this.#idleRequests = performance.now() - this.#servedFromMs < idleMs ? this.#idleRequests + 1 : 1;
    if (this.#idleRequests > maxIdleRequests || this.#requests > maxRequests)
      throw new WebhookFailure('The webhook redirects in a circle.', { where: 'redirect' });
    try {
      return await askWebhook(this.party, this.client, to, question, signal);
    } catch (error) {
      if (error instanceof HttpError) throw new WebhookFailure(error.message);
      throw error;
    } finally {
      this.#servedFromMs = performance.now();
    }
  }

  /** Sends the result of an action that the end of the call cut short; its answer is ignored. */
  tell(next: FollowUp | null, question: WebhookRequest): void {
    const { party, client } = this;
    if (next !== null) this.callbacks.send(party.call.id, client.request(next, stateOf(party), question));
  }

  /** As `tell`, when the work is done; the call need not wait for it. */
  tellLater(next: FollowUp | null, work: (signal: AbortSignal) => Promise<WebhookRequest>): void {
    const { party, client } = this;
    const make = async (signal: AbortSignal) => {
      const question = await work(signal);
      return next === null ? null : client.request(next, stateOf(party), question);
    };
    this.callbacks.send(party.call.id, make, randomUUID());
  }

  /** Reports a step of an action to `callback`, if it asked for that step. */
  status(callback: StatusCallback | null, event: string, fields: { [name: string]: string }): void {
    const { party, client } = this;
    if (!callback?.events.includes(event)) return;
    this.callbacks.send(party.call.id, client.form(callback.to, stateOf(party), fields));
  }

  /** An instruction has no effect, or not all of it: a note in the record. */
  warn(message: string, code?: string): void {
    const { call } = this.party;
    this.#warnings += 1;
    if (call.ending !== null || this.#warnings > maxWarnings) return;
    const told =
      this.#warnings === maxWarnings
        ? { message: 'There are more warnings than the record of a call takes.' }
        : { message, ...(code !== undefined && { code }) };
    call.event('webhook.warning', { endpoint_id: this.endpoint.id, ...told });
  }

  /** An action failed after `ms`: the caller got nothing in that time. */
  failedFor(ms: number): void {
    this.#servedFromMs += ms;
  }
}

export function stateOf({ facts, leg, call }: CallParty): CallState {
  return { ...facts, answered: leg !== null, ended: call.ending !== null };
}

function namesOf(actions: Action[]): string[] {
  return actions.map((each) => each.action).filter((name) => name !== 'warn');
}
