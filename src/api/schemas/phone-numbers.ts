import { patterns } from './patterns.js';
import { activeStatus, body, listOf, name, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const clock = Type.String({ pattern: patterns.clock, description: 'A time of day, `HH:MM`.' });

const routeRule = body({
  endpoint_id: uuid('The endpoint that takes matching calls.'),
  weight: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 1000,
      description: 'The share of this rule among adjacent rules that also match.',
    }),
  ),
  schedule: Type.Optional(
    body(
      {
        timezone: Type.String({ maxLength: 64, description: 'An IANA time zone, such as `Europe/Berlin`.' }),
        days: Type.Optional(
          Type.Array(Type.Integer({ minimum: 1, maximum: 7 }), {
            maxItems: 7,
            description: 'The days of the week, 1 (Monday) to 7 (Sunday). Default: every day.',
          }),
        ),
        start: Type.Optional(clock),
        end: Type.Optional(clock),
      },
      { description: 'The times at which the rule applies.' },
    ),
  ),
  from_prefix: Type.Optional(
    Type.String({
      pattern: patterns.numberPrefix,
      description: 'The rule applies only to callers whose number has this prefix.',
    }),
  ),
});

const routes = Type.Array(routeRule, {
  maxItems: 50,
  description: 'The routing rules, in order; the first matching rule applies, and `endpoint_id` if none matches.',
});

const statusCallback =
  'Gets one request when an inbound call of the number has ended, in the format of the webhook endpoint that took the call and signed with its secret. Null: the `status_callback_url` of the endpoint gets it.';
const statusCallbackMethod = oneOf(['GET', 'POST'], { description: 'The method of that request.' });

const phoneNumber = Type.Object(
  {
    id: uuid('The id of the number.'),
    organization_id: uuid('The organization that owns the number.'),
    number: Type.String({ description: 'The phone number in E.164.' }),
    name: Type.String({ description: 'A name for display.' }),
    endpoint_id: nullable<string>(
      uuid('The endpoint that takes the calls of the number; if null, callers hear that the number is not in service.'),
    ),
    fallback_endpoint_id: nullable<string>(uuid('The endpoint that takes the calls when the first one fails.')),
    routes,
    status: activeStatus,
    status_callback_url: nullable<string>(Type.String({ description: statusCallback })),
    status_callback_method: statusCallbackMethod,
    created_at: time('When the record was created.'),
    updated_at: time('When the record was last changed.'),
  },
  { $id: 'PhoneNumber', additionalProperties: false },
);
const phoneNumberList = Type.Object(listOf('PhoneNumber').properties, { $id: 'PhoneNumberList' });

export const phoneNumberSchemas = [phoneNumber, phoneNumberList];

const changeable = {
  name: Type.Optional(name),
  endpoint_id: Type.Optional(nullable<string>(uuid('The endpoint that takes the calls of the number.'))),
  fallback_endpoint_id: Type.Optional(
    nullable<string>(uuid('The endpoint that takes the calls when the first one fails.')),
  ),
  routes: Type.Optional(routes),
  status: Type.Optional(activeStatus),
  status_callback_url: Type.Optional(
    nullable<string>(Type.String({ minLength: 1, maxLength: 2048, description: statusCallback })),
  ),
  status_callback_method: Type.Optional(statusCallbackMethod),
};

export const phoneNumbersQuery = body({
  endpoint_id: Type.Optional(uuid('Only numbers of this endpoint.')),
  status: Type.Optional(oneOf(['active', 'inactive'], { description: 'Only numbers with this status.' })),
  ...sliceQuery,
});

export const createPhoneNumberBody = body({
  number: Type.String({
    maxLength: 64,
    description: 'The phone number in E.164, such as `+15551234567`; spaces and `-.()` are stripped.',
  }),
  ...changeable,
});

export const updatePhoneNumberBody = body(changeable);
