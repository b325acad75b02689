import { activeStatus, body, listOf, name, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const clock = Type.String({ pattern: '^([01]\\d|2[0-3]):[0-5]\\d$', description: '`HH:MM`' });

const routeRule = body({
  endpoint_id: uuid('Where calls that fit go.'),
  weight: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 1000, description: 'Share among neighbouring rules that fit as well.' }),
  ),
  schedule: Type.Optional(
    body(
      {
        timezone: Type.String({ maxLength: 64, description: 'An IANA time zone, like `Europe/Berlin`.' }),
        days: Type.Optional(
          Type.Array(Type.Integer({ minimum: 1, maximum: 7 }), {
            maxItems: 7,
            description: '1 (Monday) to 7; absent: every day.',
          }),
        ),
        start: Type.Optional(clock),
        end: Type.Optional(clock),
      },
      { description: 'Only at these times.' },
    ),
  ),
  from_prefix: Type.Optional(
    Type.String({ pattern: '^\\+?\\d{1,15}$', description: 'Only for callers whose number begins so.' }),
  ),
});

const routes = Type.Array(routeRule, {
  maxItems: 50,
  description: 'Rules in order; the first that fits a call decides, and without one `endpoint_id`.',
});

const phoneNumber = Type.Object(
  {
    id: uuid('The id of the number.'),
    organization_id: uuid('Whose it is.'),
    number: Type.String({ description: 'E.164.' }),
    name: Type.String({ description: 'A name for people.' }),
    endpoint_id: nullable<string>(uuid('Where its calls go; null: callers hear that the number is not in service.')),
    fallback_endpoint_id: nullable<string>(uuid('Where calls go when the endpoint fails.')),
    routes,
    status: activeStatus,
    created_at: time('When it was made.'),
    updated_at: time('When it last changed.'),
  },
  { $id: 'PhoneNumber', additionalProperties: false },
);
const phoneNumberList = Type.Object(listOf('PhoneNumber').properties, { $id: 'PhoneNumberList' });

export const phoneNumberSchemas = [phoneNumber, phoneNumberList];

const changeable = {
  name: Type.Optional(name),
  endpoint_id: Type.Optional(nullable<string>(uuid('Where its calls go.'))),
  fallback_endpoint_id: Type.Optional(nullable<string>(uuid('Where calls go when the endpoint fails.'))),
  routes: Type.Optional(routes),
  status: Type.Optional(activeStatus),
};

export const phoneNumbersQuery = body({
  endpoint_id: Type.Optional(uuid('Only numbers of this endpoint.')),
  status: Type.Optional(oneOf(['active', 'inactive'], { description: 'Only numbers of this status.' })),
  ...sliceQuery,
});

export const createPhoneNumberBody = body({
  number: Type.String({ maxLength: 64, description: 'E.164, like `+15551234567`; spaces and ` -.()` are stripped.' }),
  ...changeable,
});

export const updatePhoneNumberBody = body(changeable);
