import type { EndpointForCall as Endpoint } from '../store/routing/endpoints.js';
import { dialectOf } from '../webhook/dialects/registry.js';
import { Webhook } from '../webhook/webhook-client.js';
import type { Call } from './core/call.js';
import { CallProgressEvents } from './core/call-progress.js';
import type { PartyFacts } from './core/party-facts.js';
import type { ScriptDeps } from './script/context.js';

/** Reports the end of an inbound call to the `status_callback_url` of the webhook endpoint of its number, if that speaks the format of a platform. */
export function reportInboundEnd(
  call: Call,
  facts: PartyFacts,
  endpoint: Endpoint,
  { http, callbacks }: Pick<ScriptDeps, 'http' | 'callbacks'>,
): void {
  const { status_callback_url: url } = endpoint.providerConfig;
  if (endpoint.type !== 'webhook' || dialectOf(endpoint) === null || typeof url !== 'string') return;
  const webhook = new Webhook(endpoint, http, call.cookies);
  const state = { ...facts, answered: call.answered, ended: true };
  new CallProgressEvents(call, facts, (_, fields) => {
    // A caller who hung up first cancelled its INVITE; Twilio says so of outbound calls only.
    const status = fields.CallStatus === 'canceled' ? 'no-answer' : fields.CallStatus;
    callbacks.send(call.id, webhook.form({ url, method: 'POST' }, state, { ...fields, CallStatus: status ?? '' }));
  }).tell('completed');
}
