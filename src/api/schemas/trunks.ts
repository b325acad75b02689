import { activeStatus, body, listOf, name, nullable, oneOf, sliceQuery, Type, time, uuid } from './words.js';

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
  transport: oneOf(['udp', 'tcp', 'tls'], { description: 'How SIP reaches its gateways.' }),
  srtp: oneOf(['off', 'allow', 'require'], { description: 'Whether audio is encrypted.' }),
  register: Type.Boolean({ description: 'Whether we register with its gateways.' }),
  codecs: Type.Array(oneOf(['PCMU', 'PCMA']), {
    minItems: 1,
    maxItems: 8,
    uniqueItems: true,
    description: 'In order of preference.',
  }),
  status: activeStatus,
};

const trunk = Type.Object(
  {
    id: uuid('The id of the trunk.'),
    organization_id: nullable<string>(uuid('Whose it is; null: shared by all organizations.')),
    name,
    ...settings,
    gateways: Type.Array(gateway, { description: 'Where its calls are sent.' }),
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
  register: Type.Optional(settings.register),
  codecs: Type.Optional(settings.codecs),
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
