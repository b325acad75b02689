import { providersSelectedBy } from '../../../media/agents/providers/registry.js';
import {
  activeStatus,
  body,
  freeObject,
  listOf,
  name,
  nullable,
  oneOf,
  sliceQuery,
  Type,
  time,
  uuid,
} from './types.js';

export const endpointTypes = ['agent', 'webhook'] as const;
const providers = [...providersSelectedBy('provider').map(({ provider }) => provider), 'custom'];

const targetText =
  'For an agent, a `ws:`/`wss:` URL or a `sip:`/`sips:` URI (`tcp://host:port` with the protocol `audiosocket`, an `https:` URL for `amazon_nova_sonic`); for a webhook, an `http:`/`https:` URL. May be omitted for a provider whose address is known.';
const configText =
  'The settings of the provider. Secrets (`api_key`, `api_secret`, `auth_token`, `secret_access_key`, `session_token`, `pre_connect_secret` and the values of `headers`) are write-only: they are shown as `********`; sending `********` keeps the stored secret.';

const fields = {
  id: uuid('The id of the endpoint.'),
  organization_id: uuid('The organization that owns the endpoint.'),
  name,
  type: oneOf(endpointTypes, {
    description: 'The type: a voice agent, or your own HTTP server. It cannot be changed after creation.',
  }),
  target: Type.String({ description: targetText }),
  provider: nullable<string>(
    oneOf(providers, {
      description: 'The provider of the agent; null for webhooks. It cannot be changed after creation.',
    }),
  ),
  provider_config: freeObject(configText),
  record: Type.Boolean({ description: 'Whether calls of this endpoint are recorded.' }),
  status: activeStatus,
  health: oneOf(['unknown', 'healthy', 'degraded', 'down'], {
    description: 'The health observed in calls; read-only.',
  }),
  fallback_endpoint_id: nullable<string>(uuid('The endpoint that takes the calls when this one fails.')),
  webhook_public_key: Type.Optional(
    Type.String({
      description:
        'Webhook endpoints with the format `texml` only, not in lists: the Ed25519 public key (base64) that verifies `telnyx-signature-ed25519`. It changes with the secret.',
    }),
  ),
  events_disabled_at: nullable<string>(
    time('When `events_url` answered 410 Gone; no events are sent until a PATCH changes the endpoint.'),
  ),
  created_at: time('When the endpoint was created.'),
  updated_at: time('When the endpoint was last changed.'),
};

const endpoint = Type.Object(fields, { $id: 'Endpoint', additionalProperties: false });
const newEndpoint = Type.Object(
  {
    ...fields,
    webhook_secret: Type.Optional(
      Type.String({
        description:
          'Webhook endpoints only: the secret that signs the requests sent to you. It is shown once: a response with `Idempotent-Replayed: true` does not contain it. If the first response was lost, rotate the secret.',
      }),
    ),
  },
  { $id: 'NewEndpoint', additionalProperties: false },
);
const endpointList = Type.Object(listOf('Endpoint').properties, { $id: 'EndpointList' });

export const endpointSchemas = [endpoint, newEndpoint, endpointList];

const changeable = {
  target: Type.Optional(Type.String({ minLength: 1, maxLength: 2048, description: targetText })),
  record: Type.Optional(Type.Boolean({ description: 'Whether calls of the endpoint are recorded.' })),
  status: Type.Optional(activeStatus),
  fallback_endpoint_id: Type.Optional(nullable<string>(uuid('The endpoint that takes the calls when this one fails.'))),
};

export const endpointsQuery = body({
  type: Type.Optional(oneOf(endpointTypes, { description: 'Only endpoints of this type.' })),
  status: Type.Optional(oneOf(['active', 'inactive'], { description: 'Only endpoints with this status.' })),
  ...sliceQuery,
});

export const createEndpointBody = body({
  name,
  type: oneOf(endpointTypes, { description: 'The type: a voice agent, or your own HTTP server.' }),
  provider: Type.Optional(
    oneOf(providers, { description: 'The provider of the agent; not for webhooks. Default `custom`.' }),
  ),
  provider_config: Type.Optional(freeObject(`Required for agents. ${configText}`)),
  ...changeable,
});

export const updateEndpointBody = body({
  name: Type.Optional(name),
  provider_config: Type.Optional(freeObject(`A JSON Merge Patch (RFC 7396); null removes a field. ${configText}`)),
  ...changeable,
});
