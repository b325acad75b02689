import type { EndpointForCall as Endpoint } from '../store/routing/endpoints.js';
import type { PhoneNumber } from '../store/routing/phone-numbers.js';
import type { FollowUp } from '../webhook/actions.js';
import { dialectOf } from '../webhook/dialects/registry.js';
import { Webhook } from '../webhook/webhook-client.js';
import type { Call } from './core/call.js';
import { CallProgressEvents } from './core/call-progress.js';
import type { PartyFacts } from './core/party-facts.js';
import type { ScriptDeps } from './script/context.js';

/**
 * Reports the end of an inbound call to the `status_callback_url` of its number, else to that of its endpoint if this is a webhook in the
 * format of a platform. The format and the signature are those of the first of the call's endpoints that is a webhook; without one the
 * form is Twilio's, and unsigned.
 */
export function reportInboundEnd(
  call: Call,
  facts: PartyFacts,
  { number, endpoints }: { number: PhoneNumber; endpoints: readonly [Endpoint, ...Endpoint[]] },
  { http, callbacks }: Pick<ScriptDeps, 'http' | 'callbacks'>,
): void {
  const [first] = endpoints;
  const to =
    number.statusCallbackUrl === null
      ? ofEndpoint(first)
      : { url: number.statusCallbackUrl, method: number.statusCallbackMethod };
  if (to === null) return;
  const webhook = new Webhook(endpoints.find(({ type }) => type === 'webhook') ?? first, http, call.cookies);
  const state = { ...facts, answered: call.answered, ended: true };
  new CallProgressEvents(call, facts, (_, fields) => {
    // A caller who hung up first cancelled its INVITE; Twilio says so of outbound calls only.
    const status = fields.CallStatus === 'canceled' ? 'no-answer' : fields.CallStatus;
    callbacks.send(call.id, webhook.form(to, state, { ...fields, CallStatus: status ?? '' }));
  }).tell('completed');
}

function ofEndpoint(endpoint: Endpoint): FollowUp | null {
  const { status_callback_url: url } = endpoint.providerConfig;
  if (endpoint.type !== 'webhook' || dialectOf(endpoint) === null || typeof url !== 'string') return null;
  return { url, method: 'POST' };
}
