import type { Store } from '../../../store/store.js';
import { notFound } from '../../errors.js';
import { presentList, presentWebhookDelivery } from '../../present/present.js';
import { type Route, route } from '../../route.js';
import { idParams, lowerCase, ref } from '../../schemas/types.js';
import { webhookDeliveriesQuery } from '../../schemas/webhook-deliveries.js';

export interface WebhookDeliveryRoutesOptions {
  store: Store;
  /** Something is due at once. */
  onRetry: () => void;
}

const tag = 'Webhooks';

export function webhookDeliveryRoutes({ store, onRetry }: WebhookDeliveryRoutesOptions): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/webhook-deliveries',
      operationId: 'listWebhookDeliveries',
      tag,
      summary: 'List deliveries of events',
      description:
        'Every event that went, or is to go, to the `events_url` of a webhook endpoint, newest first, with its attempts.',
      access: 'member',
      query: webhookDeliveriesQuery,
      answer: { status: 200, description: 'A part of the list.', schema: ref('WebhookDeliveryList') },
      handle: async ({ query, caller }) => {
        const { status, endpoint_id: endpointId, call_id: callId } = query;
        const filter = { status, endpointId: lowerCase(endpointId), callId: lowerCase(callId) };
        store.calls.flush(); // what has happened is in the list
        const page = await store.longReads.ask('deliveries', caller.scope, filter, query);
        return presentList(page, query, presentWebhookDelivery);
      },
    }),
    route({
      method: 'POST',
      path: '/v1/webhook-deliveries/:id/retry',
      operationId: 'retryWebhookDelivery',
      tag,
      summary: 'Send an event again',
      description:
        'The delivery is due at once, with the same `webhook-id` and a full set of attempts, whatever became of it before.',
      access: 'admin',
      params: idParams,
      answer: { status: 200, description: 'The delivery, pending.', schema: ref('WebhookDelivery') },
      handle: ({ params, caller }) => {
        const delivery = store.webhookDeliveries.retry(caller.scope, params.id.toLowerCase());
        if (!delivery) throw notFound('Webhook delivery');
        onRetry();
        return presentWebhookDelivery(delivery);
      },
    }),
  ];
}
