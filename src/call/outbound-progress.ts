/** What an outbound call reports to the webhook that asked for it: status callbacks and the result of machine detection. */
import type { AnsweredBy } from '../webhook/twilio-parameters.js';
import { answeredByFields } from '../webhook/twilio-parameters.js';
import { Webhook } from '../webhook/webhook-client.js';
import type { Call } from './core/call.js';
import { CallProgressEvents } from './core/call-progress.js';
import type { OutboundCall } from './core/outbound-request.js';
import type { PartyFacts } from './core/party-facts.js';
import type { RouteLookup } from './routing/router.js';
import type { ScriptDeps } from './script/context.js';

export class OutboundProgress {
  readonly #webhook: Webhook | null;
  readonly #steps: CallProgressEvents;
  #isRinging = false;
  #isAnswered = false;

  /** `facts`: of the call, without the result of machine detection. */
  constructor(
    private readonly call: Call,
    private readonly request: OutboundCall,
    private readonly facts: PartyFacts,
    lookup: Pick<RouteLookup, 'getForCall'>,
    private readonly deps: Pick<ScriptDeps, 'http' | 'callbacks'>,
  ) {
    const endpoint = lookup.getForCall(request.endpointId);
    this.#webhook = endpoint === undefined ? null : new Webhook(endpoint, deps.http, call.cookies);
    const { status } = request;
    this.#steps = new CallProgressEvents(call, facts, (step, fields) => {
      if (status && this.#webhook && status.events.includes(step))
        deps.callbacks.send(
          call.id,
          this.#webhook.form(status.to, { ...facts, answered: false, ended: false }, fields),
        );
    });
  }

  initiated(): void {
    const { call, request } = this;
    this.#steps.tell('initiated');
    for (const message of request.warnings ?? [])
      call.event('webhook.warning', { endpoint_id: request.endpointId, message });
  }

  ringing(): void {
    if (!this.#isRinging) this.#steps.tell('ringing');
    this.#isRinging = true;
  }

  /** Writes the answer into the record as well: the callee is on the line, agent or not. */
  answered(): void {
    if (this.#isAnswered) return;
    this.#isAnswered = true;
    this.call.answer();
    this.#steps.tell('answered');
  }

  answeredBy(found: AnsweredBy): void {
    const { call, request, facts, deps } = this;
    if (!request.machineStatus || this.#webhook === null) return;
    const state = { ...facts, answered: true, ended: call.ending !== null };
    deps.callbacks.send(call.id, this.#webhook.form(request.machineStatus, state, answeredByFields(found)));
  }

  completed(): void {
    this.#steps.tell('completed');
  }
}
