import type { Store } from '../../../store/store.js';
import { notFound } from '../../errors.js';
import { presentList, presentWebhookDelivery } from '../../present/present.js';
import { type Route, route } from '../../route.js';
import { idParams, lowerCase, ref } from '../../schemas/types.js';
import { webhookDeliveriesQuery } from '../../schemas/webhook-deliveries.js';

export interface WebhookDeliveryRoutesOptions {
  store: Store;
  /** Called when a delivery is due at once. */
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
      summary: 'List event deliveries',
      description:
        'Every event that was or will be sent to the `events_url` of a webhook endpoint, newest first, with its attempts.',
      access: 'member',
      query: webhookDeliveriesQuery,
      answer: { status: 200, description: 'One page of the list.', schema: ref('WebhookDeliveryList') },
      handle: async ({ query, caller }) => {
        const { status, endpoint_id: endpointId, call_id: callId } = query;
        const filter = { status, endpointId: lowerCase(endpointId), callId: lowerCase(callId) };
        await store.calls.flush(); // so that the list contains all past events
        const page = await store.longReads.ask('deliveries', caller.scope, filter, query);
        return presentList(page, query, presentWebhookDelivery);
      },
    }),
    route({
      method: 'POST',
      path: '/v1/webhook-deliveries/:id/retry',
      operationId: 'retryWebhookDelivery',
      tag,
      summary: 'Retry an event delivery',
      description:
        'Makes the delivery due at once, with the same `webhook-id` and a full set of attempts, regardless of its current status.',
      access: 'admin',
      params: idParams,
      answer: { status: 200, description: 'The delivery, now `pending`.', schema: ref('WebhookDelivery') },
      handle: async ({ params, caller }) => {
        const delivery = await store.webhookDeliveries.retry(caller.scope, params.id.toLowerCase());
        if (!delivery) throw notFound('Webhook delivery');
        onRetry();
        return presentWebhookDelivery(delivery);
      },
    }),
  ];
}
