import { patterns } from './patterns.js';
import { activeStatus, body, listOf, name, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const directions = ['inbound', 'outbound', 'both'] as const;

const gateway = body({
  uri: Type.String({ minLength: 1, maxLength: 256, description: 'The `sip:` or `sips:` URI that calls are sent to.' }),
  priority: Type.Integer({
    minimum: 0,
    maximum: 65535,
    default: 0,
    description: 'The priority; lower values are tried first.',
  }),
  weight: Type.Integer({
    minimum: 0,
    maximum: 65535,
    default: 1,
    description: 'The share among gateways of the same priority.',
  }),
});

const gatewayInput = body({
  uri: gateway.properties.uri,
  priority: Type.Optional(gateway.properties.priority),
  weight: Type.Optional(gateway.properties.weight),
});

const template = (description: string) =>
  Type.String({ minLength: 1, maxLength: 256, pattern: patterns.token, description });

const outbound = {
  to_format: template(
    'The format of the called number that the carrier expects: `{e164}`, `{digits}`, `00{digits}`, `99#{digits}`.',
  ),
  from_format: template("The format of the caller's number in From, with the same placeholders."),
  from_domain: nullable<string>(
    Type.String({
      maxLength: 253,
      pattern: patterns.host,
      description: 'The host part of From; null for the address of this server.',
    }),
  ),
  asserted_identity: nullable<string>(
    template(
      'The P-Asserted-Identity header field, such as `sip:{e164}@carrier.example` or `tel:{e164}`; null for none.',
    ),
  ),
  diversion: nullable<string>(
    template('The Diversion header field, such as `sip:{e164}@carrier.example`; null for none.'),
  ),
  privacy: oneOf(['none', 'id'], { description: 'With `id`, the identity of the caller is withheld from the callee.' }),
  headers: Type.Record(Type.String({ pattern: patterns.sipHeader }), Type.String({ maxLength: 256 }), {
    maxProperties: 20,
    description: 'Additional header fields of each INVITE.',
  }),
};

const pem = (description: string) => nullable<string>(Type.String({ maxLength: 65_536, description }));

const tls = {
  ca: pem('The certification authorities of the gateways, as PEM; null for the public authorities.'),
  certificate: pem('The client certificate with its chain, sent when a gateway requests one, as PEM.'),
  key: pem(
    'The private key of the certificate, as PEM. Write-only: it is shown as `********`; sending `********` keeps it.',
  ),
};

const cap = (description: string) => nullable<number>(Type.Integer({ minimum: 1, maximum: 100_000, description }));

const settings = {
  direction: oneOf(directions, { description: 'The direction of calls over the trunk.' }),
  addresses: Type.Array(Type.String({ maxLength: 64 }), {
    maxItems: 100,
    description: 'The trusted source addresses, in CIDR notation; a single address is treated as a network of one.',
  }),
  username: nullable<string>(
    Type.String({
      minLength: 1,
      maxLength: 128,
      pattern: patterns.token,
      description: 'The user name for digest authentication, in both directions.',
    }),
  ),
  password: nullable<string>(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description:
        'The password for digest authentication. Write-only: it is shown as `********`; sending `********` keeps it.',
    }),
  ),
  transport: oneOf(['udp', 'tcp', 'tls'], {
    description:
      'The SIP transport to gateways whose URI does not name one. With `tls`, the certificate of the gateway must contain the host of the URI.',
  }),
  srtp: oneOf(['off', 'allow', 'require'], {
    description:
      'Whether audio is encrypted (SRTP with keys in SDP, RFC 4568): `off` never, `allow` if the peer supports it, `require` always; other calls are rejected with 488. Without TLS the keys can be read in transit.',
  }),
  register: Type.Boolean({ description: 'Whether this server registers with the gateways.' }),
  codecs: Type.Array(oneOf(['PCMU', 'PCMA', 'G722', 'OPUS']), {
    minItems: 1,
    maxItems: 8,
    uniqueItems: true,
    description:
      'The codecs in order of preference. G.722 and Opus are wideband: they carry audio above 3.4 kHz. Codecs that the setting `codecs` omits are not used.',
  }),
  max_calls: cap('Maximum concurrent calls; null for no limit.'),
  calls_per_second: cap('Maximum new outbound calls per second; null for no limit.'),
  status: activeStatus,
};

const trunk = Type.Object(
  {
    id: uuid('The id of the trunk.'),
    organization_id: nullable<string>(
      uuid('The organization that owns the trunk; null if all organizations share it.'),
    ),
    name,
    ...settings,
    gateways: Type.Array(gateway, { description: 'The gateways that calls are sent to.' }),
    tls: Type.Object(tls, {
      description: 'The TLS settings of connections to the gateways.',
      additionalProperties: false,
    }),
    outbound: Type.Object(outbound, {
      description: 'The number formats and identity of outbound calls.',
      additionalProperties: false,
    }),
    health: oneOf(['unknown', 'healthy', 'degraded', 'down'], { description: 'The observed health; read-only.' }),
    created_at: time('When the trunk was created.'),
    updated_at: time('When the trunk was last changed.'),
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
  gateways: Type.Optional(
    Type.Array(gatewayInput, { maxItems: 20, description: 'The gateways that calls are sent to.' }),
  ),
  transport: Type.Optional(settings.transport),
  srtp: Type.Optional(settings.srtp),
  tls: Type.Optional(
    Type.Partial(Type.Object(tls), {
      additionalProperties: false,
      description: 'The TLS settings of connections to the gateways; omitted fields keep their value.',
    }),
  ),
  register: Type.Optional(settings.register),
  codecs: Type.Optional(settings.codecs),
  max_calls: Type.Optional(settings.max_calls),
  calls_per_second: Type.Optional(settings.calls_per_second),
  outbound: Type.Optional(
    Type.Partial(Type.Object(outbound), {
      additionalProperties: false,
      description: 'The number formats and identity of outbound calls; omitted fields keep their value.',
    }),
  ),
  status: Type.Optional(settings.status),
};

export const trunksQuery = body({
  direction: Type.Optional(oneOf(directions, { description: 'Only trunks with this direction.' })),
  status: Type.Optional(oneOf(['active', 'inactive'], { description: 'Only trunks with this status.' })),
  ...sliceQuery,
});

export const createTrunkBody = body({
  name,
  organization_id: Type.Optional(
    Type.Null({ description: 'null creates a trunk that all organizations share; only the platform owner may do so.' }),
  ),
  ...changeable,
});

export const updateTrunkBody = body({ name: Type.Optional(name), ...changeable });
