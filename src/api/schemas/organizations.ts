import { maxCentsPerMinute } from '../../billing/rate.js';
import { patterns } from './patterns.js';
import { body, listOf, name, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const tier = oneOf(['free', 'pro', 'business', 'enterprise'], {
  description: 'The tier, which sets the request limits.',
});
const role = oneOf(['owner', 'admin', 'member'], {
  description:
    'The role: `member` reads, starts and ends calls; `admin` also manages endpoints, numbers, trunks and keys; `owner` also manages members.',
});
const cents = (description: string) => Type.Number({ description });
const limit = (description: string, maximum: number) =>
  nullable<number>(
    Type.Integer({ minimum: 1, maximum, description: `${description} null for the limit of the tier, if it has one.` }),
  );

const limits = {
  requests_per_second: limit('Maximum API requests per second.', 1_000_000),
  requests_per_day: limit('Maximum API requests per UTC day.', 1_000_000_000),
  concurrent_calls: limit('Maximum concurrent calls.', 1_000_000),
  calls_per_second: limit('Maximum outbound calls started per second.', 100_000),
  daily_spend_cents: limit('Maximum cost in cents of outbound calls per UTC day.', 1_000_000_000),
  allowed_prefixes: Type.Unsafe<string[] | null>({
    type: ['array', 'null'],
    items: { type: 'string', pattern: patterns.dialPrefix },
    maxItems: 500,
    description: 'Number prefixes that outbound calls may go to, such as `+49`; null for all numbers.',
  }),
  call_retention_days: nullable<number>(
    Type.Integer({
      minimum: 1,
      maximum: 36_500,
      description:
        'Days for which calls are kept. Those that began earlier and have ended are deleted with their events and recordings; they leave statistics too. null keeps all.',
    }),
  ),
};

const organization = Type.Object(
  {
    id: uuid('The id of the organization.'),
    name: Type.String({ description: 'The name of the organization.' }),
    tier,
    limits: body(limits, {
      description: 'The limits set for the organization; null for the limit of the tier, if it has one.',
    }),
    balance_cents: nullable<number>(cents('The balance in cents; null if the organization is not metered.')),
    held_cents: cents('The part of the balance in cents that is reserved for running calls.'),
    created_at: time('When the organization was created.'),
  },
  { $id: 'Organization', additionalProperties: false },
);
const member = Type.Object(
  {
    id: uuid('The id of the user, or of the invitation while it is open.'),
    status: oneOf(['active', 'invited'], { description: '`invited` until the invitation is accepted.' }),
    user_id: nullable<string>(
      uuid('The id of the user; null while the invitation is open, whether or not such a user exists.'),
    ),
    name: Type.String({ description: 'The name of the member; that of the invitation while it is open.' }),
    subject: nullable<string>(
      Type.String({
        description:
          'The `sub` of the tokens of the member; null if the member has API keys only or is invited by email.',
      }),
    ),
    email: nullable<string>(Type.String({ description: 'The email address of an invitation by email.' })),
    role,
    joined_at: nullable<string>(
      time('When the member joined. The organization joined first is the default of the member.'),
    ),
    expires_at: nullable<string>(time('When the invitation expires.')),
  },
  { $id: 'Member', additionalProperties: false },
);
const rateFields = {
  direction: oneOf(['inbound', 'outbound'], { description: 'The direction of the call.' }),
  prefix: Type.String({
    pattern: patterns.digits,
    description:
      'The prefix of the called number, without `+`; empty for all numbers. The longest matching prefix applies.',
  }),
  rate_cents_per_minute: Type.Number({
    minimum: 0,
    maximum: maxCentsPerMinute,
    description: 'The rate in cents per minute, with at most six decimals.',
  }),
  initial_increment_s: Type.Integer({
    minimum: 1,
    maximum: 3_600,
    description: 'The minimum number of seconds charged.',
  }),
  increment_s: Type.Integer({
    minimum: 1,
    maximum: 3_600,
    description: 'The billing increment in seconds after that.',
  }),
};
const rateCard = Type.Object(
  { rates: Type.Array(body(rateFields), { description: 'The rates; if empty, calls are free.' }) },
  { $id: 'RateCard', additionalProperties: false },
);
const ledgerEntry = Type.Object(
  {
    id: uuid('The id of the entry.'),
    kind: oneOf(['credit', 'call'], { description: 'Why the balance changed.' }),
    amount_cents: cents('The change of the balance in cents; negative for calls.'),
    balance_cents: cents('The balance in cents after the change.'),
    call_id: nullable<string>(uuid('The call that was charged; null for a credit.')),
    note: Type.String({ description: 'The note given with the credit.' }),
    created_at: time('When the balance changed.'),
  },
  { $id: 'LedgerEntry', additionalProperties: false },
);
const rejectedInvite = Type.Object(
  {
    id: uuid('The id of the record.'),
    sip_call_id: Type.String({ description: 'The Call-ID of the INVITE.' }),
    from_number: Type.String({ description: 'The calling number as received.' }),
    to_number: Type.String({ description: 'The dialled number.' }),
    transport: Type.String({ description: 'The transport of the INVITE.' }),
    address: Type.String({ description: 'The source address.' }),
    port: Type.Integer({ description: 'The source port.' }),
    sip_status: Type.Integer({ description: 'The status of the SIP response.' }),
    cause: Type.String({ description: 'Why the INVITE was rejected.' }),
    created_at: time('When the INVITE was received.'),
  },
  { $id: 'RejectedInvite', additionalProperties: false },
);
const list = (record: string) => Type.Object(listOf(record).properties, { $id: `${record}List` });

export const organizationSchemas = [
  organization,
  member,
  rateCard,
  ledgerEntry,
  rejectedInvite,
  ...['Organization', 'Member', 'LedgerEntry', 'RejectedInvite'].map(list),
];

const optionalLimits = body(
  Object.fromEntries(Object.entries(limits).map(([field, schema]) => [field, Type.Optional(schema)])) as {
    [K in keyof typeof limits]: ReturnType<typeof Type.Optional<(typeof limits)[K]>>;
  },
  { description: 'The limits to change; omitted limits keep their value.' },
);

export const sliceOnlyQuery = body(sliceQuery);
export const createOrganizationBody = body({
  name,
  tier: Type.Optional(tier),
  limits: Type.Optional(optionalLimits),
});
export const updateOrganizationBody = body({
  name: Type.Optional(name),
  tier: Type.Optional(tier),
  limits: Type.Optional(optionalLimits),
});
export const rateCardBody = body({
  rates: Type.Array(body(rateFields), {
    maxItems: 2_000,
    description: 'The complete rate card; it replaces the previous one.',
  }),
});
export const creditBody = body({
  amount_cents: Type.Number({
    minimum: -1_000_000_000,
    maximum: 1_000_000_000,
    description: 'The amount in cents to add, with at most six decimals; a negative amount is deducted.',
  }),
  note: Type.String({ maxLength: 500, description: 'The reason, for the ledger.' }),
});
export const addMemberBody = body({
  subject: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'The `sub` of the tokens of the user. Give either `subject` or `email`.',
    }),
  ),
  email: Type.Optional(
    Type.String({
      maxLength: 254,
      pattern: patterns.email,
      description:
        'The email address of the user, which the token must contain as `email` with `email_verified: true`.',
    }),
  ),
  role,
  name: Type.Optional(name),
});
export const memberParams = body({
  id: uuid('The organization.'),
  member_id: uuid('The `id` of the member or of the invitation.'),
});
