import { maxCentsPerMinute } from '../../billing/rate.js';
import { body, listOf, name, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const tier = oneOf(['free', 'pro', 'business', 'enterprise'], { description: 'Decides the request limits.' });
const role = oneOf(['owner', 'admin', 'member'], {
  description:
    '`member` reads, starts and ends calls; `admin` also changes endpoints, numbers, trunks and keys; `owner` also members.',
});
const cents = (description: string) => Type.Number({ description });
const limit = (description: string, maximum: number) =>
  nullable<number>(
    Type.Integer({ minimum: 1, maximum, description: `${description} null: as the tier says, or none.` }),
  );

const limits = {
  requests_per_second: limit('API requests in a second.', 1_000_000),
  requests_per_day: limit('API requests in a UTC day.', 1_000_000_000),
  concurrent_calls: limit('Calls at once.', 1_000_000),
  calls_per_second: limit('Outbound calls started in a second.', 100_000),
  daily_spend_cents: limit('What outbound calls may cost in a UTC day.', 1_000_000_000),
  allowed_prefixes: Type.Unsafe<string[] | null>({
    type: ['array', 'null'],
    items: { type: 'string', pattern: '^\\+\\d{1,15}$' },
    maxItems: 500,
    description: 'Outbound calls may go to numbers that begin so, like `+49`; null: anywhere.',
  }),
};

const organization = Type.Object(
  {
    id: uuid('The id of the organization.'),
    name: Type.String({ description: 'Its name.' }),
    tier,
    limits: body(limits, { description: 'Its own limits; null: as the tier says, or none.' }),
    balance_cents: nullable<number>(cents('What it has; null: it is not metered.')),
    held_cents: cents('How much of it is held for running calls.'),
    created_at: time('When it was made.'),
  },
  { $id: 'Organization', additionalProperties: false },
);
const member = Type.Object(
  {
    id: uuid('Of the user, or of the invitation while it is open.'),
    status: oneOf(['active', 'invited'], { description: '`invited`: they have not accepted yet.' }),
    user_id: nullable<string>(uuid('The user; null while they are invited, whether there is such a user or not.')),
    name: Type.String({ description: 'Their name; while they are invited, as the invitation says.' }),
    subject: nullable<string>(
      Type.String({ description: 'The `sub` of their tokens; null: they have keys only, or are invited by email.' }),
    ),
    email: nullable<string>(Type.String({ description: 'Of an invitation by email.' })),
    role,
    joined_at: nullable<string>(time('When they joined: decides which organization is their first.')),
    expires_at: nullable<string>(time('Until when the invitation can be accepted.')),
  },
  { $id: 'Member', additionalProperties: false },
);
const rateFields = {
  direction: oneOf(['inbound', 'outbound'], { description: 'Of the call.' }),
  prefix: Type.String({
    pattern: '^\\d{0,15}$',
    description: 'How the called number begins, without `+`; empty for all. The longest that fits decides.',
  }),
  rate_cents_per_minute: Type.Number({
    minimum: 0,
    maximum: maxCentsPerMinute,
    description: 'Cents, with six decimals at most.',
  }),
  initial_increment_s: Type.Integer({ minimum: 1, maximum: 3_600, description: 'Seconds charged at least.' }),
  increment_s: Type.Integer({ minimum: 1, maximum: 3_600, description: 'Steps of seconds after that.' }),
};
const rateCard = Type.Object(
  { rates: Type.Array(body(rateFields), { description: 'Empty: calls cost nothing.' }) },
  { $id: 'RateCard', additionalProperties: false },
);
const ledgerEntry = Type.Object(
  {
    id: uuid('The id of the entry.'),
    kind: oneOf(['credit', 'call'], { description: 'Why the balance changed.' }),
    amount_cents: cents('What it added; negative for calls.'),
    balance_cents: cents('The balance after it.'),
    call_id: nullable<string>(uuid('The call it paid for.')),
    note: Type.String({ description: 'As given with the credit.' }),
    created_at: time('When it happened.'),
  },
  { $id: 'LedgerEntry', additionalProperties: false },
);
const rejectedInvite = Type.Object(
  {
    id: uuid('The id of the record.'),
    sip_call_id: Type.String({ description: 'Its Call-ID.' }),
    from_number: Type.String({ description: 'Who called, as they said.' }),
    to_number: Type.String({ description: 'What was dialled.' }),
    transport: Type.String({ description: 'How it came.' }),
    address: Type.String({ description: 'From where.' }),
    port: Type.Integer({ description: 'From which port.' }),
    sip_status: Type.Integer({ description: 'Our answer.' }),
    cause: Type.String({ description: 'Why it was refused.' }),
    created_at: time('When it came.'),
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
  { description: 'Limits that are left out stay as they are.' },
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
  rates: Type.Array(body(rateFields), { maxItems: 2_000, description: 'The whole card; it replaces the one before.' }),
});
export const creditBody = body({
  amount_cents: Type.Number({
    minimum: -1_000_000_000,
    maximum: 1_000_000_000,
    description: 'Cents to add, with six decimals at most; negative takes away.',
  }),
  note: Type.String({ maxLength: 500, description: 'Why; for the ledger.' }),
});
export const addMemberBody = body({
  subject: Type.Optional(
    Type.String({ minLength: 1, maxLength: 255, description: 'The `sub` of their tokens. Either this or `email`.' }),
  ),
  email: Type.Optional(
    Type.String({
      maxLength: 254,
      pattern: '^[^@\\s]+@[^@\\s]+$',
      description: 'Their address, which their token must carry as `email` with `email_verified: true`.',
    }),
  ),
  role,
  name: Type.Optional(name),
});
export const memberParams = body({
  id: uuid('The organization.'),
  member_id: uuid('The `id` of the member or of the invitation.'),
});
