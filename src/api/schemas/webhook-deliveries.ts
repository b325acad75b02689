import { body, listOf, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const statuses = ['pending', 'delivered', 'failed'] as const;
const eventType = Type.String({ description: 'The type of the event, such as `call.answered`.' });

const attempt = Type.Object(
  {
    at: time('When the attempt began.'),
    duration_ms: Type.Integer({ description: 'The duration of the attempt in milliseconds.' }),
    http_status: nullable<number>(
      Type.Integer({ description: 'The HTTP status of the response; null if there was none.' }),
    ),
    error: nullable<string>(Type.String({ description: 'Why the attempt failed.' })),
  },
  { additionalProperties: false },
);

const delivery = Type.Object(
  {
    id: uuid('The id of the event, sent as `webhook-id` with every attempt.'),
    endpoint_id: uuid('The webhook endpoint whose `events_url` receives the event.'),
    call_id: uuid('The call of the event.'),
    sequence: Type.Integer({ description: 'The number of the event within its call.' }),
    event_type: eventType,
    status: oneOf(statuses, {
      description: 'The status; `failed` is final unless the delivery is retried by the API.',
    }),
    attempts: Type.Array(attempt, { description: 'The attempts, oldest first.' }),
    next_attempt_at: nullable<string>(time('When the next attempt is due; null unless the delivery is pending.')),
    created_at: time('When the event happened.'),
    delivered_at: nullable<string>(time('When the receiver accepted the event.')),
  },
  { $id: 'WebhookDelivery', additionalProperties: false },
);
const deliveryList = Type.Object(listOf('WebhookDelivery').properties, { $id: 'WebhookDeliveryList' });

export const webhookDeliverySchemas = [delivery, deliveryList];

export const webhookDeliveriesQuery = body({
  endpoint_id: Type.Optional(uuid('Only deliveries to this endpoint.')),
  call_id: Type.Optional(uuid('Only deliveries of this call.')),
  status: Type.Optional(oneOf(statuses, { description: 'Only deliveries with this status.' })),
  ...sliceQuery,
});
