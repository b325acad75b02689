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
export const providers = [
  'openai',
  'elevenlabs',
  'deepgram',
  'gemini',
  'ultravox',
  'hume',
  'vapi',
  'retell',
  'livekit',
  'custom',
] as const;
export type Provider = (typeof providers)[number];

const targetText =
  'For an agent a `ws:`/`wss:` URL or a `sip:`/`sips:` URI; for a webhook an `http:`/`https:` URL. A named provider whose address is known may leave it out.';
const configText =
  'What the provider needs; secrets (`api_key`, `api_secret`, `auth_token` and the values of `headers`) are write-only: they are shown as `********`, and `********` sent back keeps the stored secret.';

const fields = {
  id: uuid('The id of the endpoint.'),
  organization_id: uuid('Whose it is.'),
  name,
  type: oneOf(endpointTypes, { description: 'A voice agent, or your own HTTP server. Fixed after creation.' }),
  target: Type.String({ description: targetText }),
  provider: nullable<string>(
    oneOf(providers, { description: 'Who provides the agent; null for webhooks. Fixed after creation.' }),
  ),
  provider_config: freeObject(configText),
  record: Type.Boolean({ description: 'Whether calls of this endpoint are recorded.' }),
  status: activeStatus,
  health: oneOf(['unknown', 'healthy', 'degraded', 'down'], { description: 'As observed in calls; read-only.' }),
  fallback_endpoint_id: nullable<string>(uuid('Where calls go when this endpoint fails.')),
  events_disabled_at: nullable<string>(
    time('When `events_url` answered 410 Gone: no events are sent until the endpoint is changed by a PATCH.'),
  ),
  created_at: time('When it was made.'),
  updated_at: time('When it last changed.'),
};

const endpoint = Type.Object(fields, { $id: 'Endpoint', additionalProperties: false });
const newEndpoint = Type.Object(
  {
    ...fields,
    webhook_secret: Type.Optional(
      Type.String({
        description:
          'Webhook endpoints only: signs what we send you. Shown once: an answer with `Idempotent-Replayed: true` lacks it. If the first answer was lost, rotate the secret.',
      }),
    ),
  },
  { $id: 'NewEndpoint', additionalProperties: false },
);
const endpointList = Type.Object(listOf('Endpoint').properties, { $id: 'EndpointList' });

export const endpointSchemas = [endpoint, newEndpoint, endpointList];

const changeable = {
  target: Type.Optional(Type.String({ minLength: 1, maxLength: 2048, description: targetText })),
  record: Type.Optional(Type.Boolean({ description: 'Whether its calls are recorded.' })),
  status: Type.Optional(activeStatus),
  fallback_endpoint_id: Type.Optional(nullable<string>(uuid('Where calls go when this endpoint fails.'))),
};

export const endpointsQuery = body({
  type: Type.Optional(oneOf(endpointTypes, { description: 'Only endpoints of this type.' })),
  status: Type.Optional(oneOf(['active', 'inactive'], { description: 'Only endpoints of this status.' })),
  ...sliceQuery,
});

export const createEndpointBody = body({
  name,
  type: oneOf(endpointTypes, { description: 'A voice agent, or your own HTTP server.' }),
  provider: Type.Optional(oneOf(providers, { description: 'Agents only; `custom` when absent.' })),
  provider_config: Type.Optional(freeObject(`Required for agents. ${configText}`)),
  ...changeable,
});

export const updateEndpointBody = body({
  name: Type.Optional(name),
  provider_config: Type.Optional(freeObject(`A JSON Merge Patch (RFC 7396): null removes a field. ${configText}`)),
  ...changeable,
});
