import { activeStatus, body, listOf, name, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const directions = ['inbound', 'outbound', 'both'] as const;

const gateway = body({
  uri: Type.String({ minLength: 1, maxLength: 256, description: 'A `sip:` or `sips:` URI: where calls are sent.' }),
  priority: Type.Integer({ minimum: 0, maximum: 65535, default: 0, description: 'Lower is tried first.' }),
  weight: Type.Integer({
    minimum: 0,
    maximum: 65535,
    default: 1,
    description: 'Share among gateways of one priority.',
  }),
});

const gatewayInput = body({
  uri: gateway.properties.uri,
  priority: Type.Optional(gateway.properties.priority),
  weight: Type.Optional(gateway.properties.weight),
});

const template = (description: string) =>
  Type.String({ minLength: 1, maxLength: 256, pattern: '^[\\x21-\\x7e]+$', description });

const outbound = {
  to_format: template('The called number as the carrier wants it: `{e164}`, `{digits}`, `00{digits}`, `99#{digits}`.'),
  from_format: template("The caller's number in From, in the same words."),
  from_domain: nullable<string>(
    Type.String({
      maxLength: 253,
      pattern: '^[A-Za-z0-9.:\\[\\]-]+$',
      description: 'The host part of From; null: our address.',
    }),
  ),
  asserted_identity: nullable<string>(
    template('P-Asserted-Identity, like `sip:{e164}@carrier.example` or `tel:{e164}`; null: none.'),
  ),
  diversion: nullable<string>(template('Diversion, like `sip:{e164}@carrier.example`; null: none.')),
  privacy: oneOf(['none', 'id'], { description: '`id`: the callee does not learn who calls.' }),
  headers: Type.Record(Type.String({ pattern: '^X-[A-Za-z0-9-]{1,64}$' }), Type.String({ maxLength: 256 }), {
    maxProperties: 20,
    description: 'More header fields of each INVITE.',
  }),
};

const pem = (description: string) => nullable<string>(Type.String({ maxLength: 65_536, description }));

const tls = {
  ca: pem('The authorities that sign the certificates of its gateways, as PEM; null: the public ones.'),
  certificate: pem('The certificate with its chain that is shown when a gateway asks for one, as PEM.'),
  key: pem('Its private key, as PEM. Write-only: shown as `********`, and `********` sent back keeps it.'),
};

const cap = (description: string) => nullable<number>(Type.Integer({ minimum: 1, maximum: 100_000, description }));

const settings = {
  direction: oneOf(directions, { description: 'Which way calls pass.' }),
  addresses: Type.Array(Type.String({ maxLength: 64 }), {
    maxItems: 100,
    description: 'Source addresses that are trusted, in CIDR notation; a single address is taken as a network of one.',
  }),
  username: nullable<string>(
    Type.String({
      minLength: 1,
      maxLength: 128,
      pattern: '^[\\x21-\\x7e]+$',
      description: 'For digest authentication, both ways.',
    }),
  ),
  password: nullable<string>(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description: 'Write-only: shown as `********`, and `********` sent back keeps it.',
    }),
  ),
  transport: oneOf(['udp', 'tcp', 'tls'], {
    description:
      'How SIP reaches its gateways, where their URIs do not say. With `tls` their certificate must bear the host of the URI.',
  }),
  srtp: oneOf(['off', 'allow', 'require'], {
    description:
      'Whether audio is encrypted (SRTP with keys in SDP, RFC 4568): `off` never, `allow` where the other side does, `require` always: other calls are refused with 488. Without TLS the keys can be read on the way.',
  }),
  register: Type.Boolean({ description: 'Whether we register with its gateways.' }),
  codecs: Type.Array(oneOf(['PCMU', 'PCMA', 'G722', 'OPUS']), {
    minItems: 1,
    maxItems: 8,
    uniqueItems: true,
    description:
      'In order of preference. G.722 and Opus are wideband: the agent hears what lies above 3.4 kHz too. Those that the setting `codecs` leaves out are not used.',
  }),
  max_calls: cap('Calls at once; null: no cap.'),
  calls_per_second: cap('New outbound calls per second; null: no cap.'),
  status: activeStatus,
};

const trunk = Type.Object(
  {
    id: uuid('The id of the trunk.'),
    organization_id: nullable<string>(uuid('Whose it is; null: shared by all organizations.')),
    name,
    ...settings,
    gateways: Type.Array(gateway, { description: 'Where its calls are sent.' }),
    tls: Type.Object(tls, { description: 'TLS connections to its gateways.', additionalProperties: false }),
    outbound: Type.Object(outbound, { description: 'How its calls write numbers.', additionalProperties: false }),
    health: oneOf(['unknown', 'healthy', 'degraded', 'down'], { description: 'As observed; read-only.' }),
    created_at: time('When it was made.'),
    updated_at: time('When it last changed.'),
  },
  { $id: 'Trunk', additionalProperties: false },
);
const trunkList = Type.Object(listOf('Trunk').properties, { $id: 'TrunkList' });

export const trunkSchemas = [trunk, trunkList];

const changeable = {
  direction: Type.Optional(settings.direction),
  addresses: Type.Optional(settings.addresses),
  username: Type.Optional(settings.username),
  password: Type.Optional(settings.password),
  gateways: Type.Optional(Type.Array(gatewayInput, { maxItems: 20, description: 'Where its calls are sent.' })),
  transport: Type.Optional(settings.transport),
  srtp: Type.Optional(settings.srtp),
  tls: Type.Optional(
    Type.Partial(Type.Object(tls), {
      additionalProperties: false,
      description: 'TLS connections to its gateways; what is left out stays as it is.',
    }),
  ),
  register: Type.Optional(settings.register),
  codecs: Type.Optional(settings.codecs),
  max_calls: Type.Optional(settings.max_calls),
  calls_per_second: Type.Optional(settings.calls_per_second),
  outbound: Type.Optional(
    Type.Partial(Type.Object(outbound), {
      additionalProperties: false,
      description: 'How its calls write numbers; what is left out stays as it is.',
    }),
  ),
  status: Type.Optional(settings.status),
};

export const trunksQuery = body({
  direction: Type.Optional(oneOf(directions, { description: 'Only trunks of this direction.' })),
  status: Type.Optional(oneOf(['active', 'inactive'], { description: 'Only trunks of this status.' })),
  ...sliceQuery,
});

export const createTrunkBody = body({
  name,
  organization_id: Type.Optional(
    Type.Null({ description: 'Give null for a trunk that all organizations share; the platform owner only.' }),
  ),
  ...changeable,
});

export const updateTrunkBody = body({ name: Type.Optional(name), ...changeable });
