import { body, listOf, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const statuses = ['pending', 'delivered', 'failed'] as const;
const eventType = Type.String({ description: 'The event, as in `call.answered`.' });

const attempt = Type.Object(
  {
    at: time('When it began.'),
    duration_ms: Type.Integer({ description: 'How long it took.' }),
    http_status: nullable<number>(Type.Integer({ description: 'The answer; null when there was none.' })),
    error: nullable<string>(Type.String({ description: 'Why it did not count as delivered.' })),
  },
  { additionalProperties: false },
);

const delivery = Type.Object(
  {
    id: uuid('The id of the event, sent as `webhook-id` at every attempt.'),
    endpoint_id: uuid('The webhook endpoint whose `events_url` it goes to.'),
    call_id: uuid('The call it tells of.'),
    sequence: Type.Integer({ description: 'The number of the event within its call.' }),
    event_type: eventType,
    status: oneOf(statuses, { description: '`failed`: given up, until it is retried by hand.' }),
    attempts: Type.Array(attempt, { description: 'Oldest first.' }),
    next_attempt_at: nullable<string>(time('When the next attempt is due; null unless pending.')),
    created_at: time('When the event happened.'),
    delivered_at: nullable<string>(time('When the receiver took it.')),
  },
  { $id: 'WebhookDelivery', additionalProperties: false },
);
const deliveryList = Type.Object(listOf('WebhookDelivery').properties, { $id: 'WebhookDeliveryList' });

export const webhookDeliverySchemas = [delivery, deliveryList];

export const webhookDeliveriesQuery = body({
  endpoint_id: Type.Optional(uuid('Only deliveries to this endpoint.')),
  call_id: Type.Optional(uuid('Only deliveries of this call.')),
  status: Type.Optional(oneOf(statuses, { description: 'Only deliveries of this status.' })),
  ...sliceQuery,
});
