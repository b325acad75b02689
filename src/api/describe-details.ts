/** The parts of the OpenAPI description beside the operations: provider configurations, actions, the data of events, response headers, and webhook requests. */
import { providersSelectedBy } from '../../media/agents/providers/registry.js';
import { configSchemas } from './rules/provider-config.js';
import { actionSchema } from './schemas/actions.js';
import { eventDataName, eventDataSchemas, eventTypes } from './schemas/events.js';

interface Answer {
  headers?: Record<string, object>;
}
interface Operation {
  operationId: string;
  security?: object[];
  parameters?: { name: string }[];
  requestBody?: { content: Record<string, { schema: { properties?: Record<string, object> } }> };
  responses: Record<string, Answer>;
}
export interface DetailedDocument {
  paths: Record<string, Record<string, Operation>>;
  components: {
    schemas: Record<string, { title?: string; properties?: Record<string, object> }>;
    headers?: Record<string, object>;
  };
  webhooks?: Record<string, object>;
}

const integer = (description: string) => ({ description, schema: { type: 'integer' } });
const string = (description: string) => ({ description, schema: { type: 'string' } });

const headers = {
  'X-Request-Id': string('The id of the request, as in the log of the server.'),
  'X-RateLimit-Limit': integer(
    'The number of requests allowed per second, or per day if the daily limit rejected the request.',
  ),
  'X-RateLimit-Remaining': integer('The number of requests remaining in that limit.'),
  'X-RateLimit-Reset': integer('When the next request is allowed, in Unix seconds.'),
  RateLimit: string('The remaining requests of both limits: `"second";r=…;t=…, "day";r=…;t=…`.'),
  'RateLimit-Policy': string('Both limits: `"second";q=…;w=1, "day";q=…;w=86400`.'),
  'Retry-After': integer('Seconds until the request may be retried. Not present with every 503.'),
  'Idempotent-Replayed': string(
    '`true` if this is the response of the first request with this `Idempotency-Key`, without its secrets; absent otherwise.',
  ),
  Location: string('The path of the call.'),
  'WWW-Authenticate': string('`Bearer`'),
};
type Header = keyof typeof headers;
const limitHeaders: Header[] = [
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'RateLimit',
  'RateLimit-Policy',
];

/** The names that people know. */
const titles: Record<string, string> = {
  ...Object.fromEntries(providersSelectedBy('provider').map(({ provider, title }) => [provider, title])),
  custom: 'Your own agent',
  webhook: 'Webhook',
};
const schemaRef = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const configName = (provider: string) => `ProviderConfig_${provider}`;

/** Completes a document in place. */
export function describeDetails(document: DetailedDocument): void {
  document.components.headers = headers;
  const { schemas } = document.components;
  for (const [provider, schema] of Object.entries(configSchemas))
    schemas[configName(provider)] = { title: titles[provider] ?? provider, ...plain(schema) };
  schemas.Action = plain(actionSchema);
  Object.assign(schemas, eventDataSchemas());
  const event = schemas.CallEvent?.properties;
  if (event?.event_data)
    event.event_data = {
      description: 'The data of the event; its fields depend on the type.',
      anyOf: Object.keys(eventTypes).map((type) => schemaRef(eventDataName(type))),
    };
  for (const methods of Object.values(document.paths))
    for (const operation of Object.values(methods))
      for (const [status, answer] of Object.entries(operation.responses))
        answer.headers = headersOf(operation, Number(status));
  const create = bodyOf(document, '/v1/endpoints', 'post');
  for (const properties of [schemas.Endpoint?.properties, schemas.NewEndpoint?.properties, create])
    if (properties?.provider_config)
      properties.provider_config = {
        description: (properties.provider_config as { description?: string }).description,
        anyOf: Object.keys(configSchemas).map((provider) => schemaRef(configName(provider))),
      };
  const redirect = bodyOf(document, '/v1/calls/{id}/redirect', 'post');
  if (redirect?.actions) redirect.actions = { ...redirect.actions, items: schemaRef('Action') };
  document.webhooks = webhooks();
}

function headersOf({ operationId, security, parameters = [] }: Operation, status: number): Record<string, object> {
  const names: Header[] = ['X-Request-Id'];
  const isPublic = security?.length === 0;
  if (!isPublic && status !== 401) names.push(...limitHeaders);
  if (status === 401) names.push('WWW-Authenticate');
  if (status === 429 || status === 503) names.push('Retry-After');
  if (status === 201 && parameters.some(({ name }) => name === 'idempotency-key')) names.push('Idempotent-Replayed');
  if (status === 201 && operationId === 'createOutboundCall') names.push('Location');
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

function bodyOf(document: DetailedDocument, path: string, method: string): Record<string, object> | undefined {
  return document.paths[path]?.[method]?.requestBody?.content['application/json']?.schema.properties;
}

/** The schema as plain JSON, without the symbols of TypeBox. */
function plain(schema: object): object {
  return JSON.parse(JSON.stringify(schema)) as object;
}

const envelope = (type: string[], data: object, more: object = {}) => ({
  type: 'object',
  required: ['id', 'type', 'created_at', 'organization_id', 'call_id', 'data'],
  properties: {
    id: {
      type: 'string',
      format: 'uuid',
      description: 'The id of the request; the same as `webhook-id` and in each attempt.',
    },
    type: { type: 'string', ...(type.length > 0 && { enum: type }), description: 'The type of the request.' },
    created_at: { type: 'string', format: 'date-time', description: 'When the event happened.' },
    organization_id: { type: 'string', format: 'uuid', description: 'The organization that owns the call.' },
    call_id: { type: 'string', format: 'uuid', description: 'The call.' },
    ...more,
    data,
  },
});
const free = (description: string) => ({ type: 'object', additionalProperties: true, description });

/** The request after each action and the fields of its `data`; `docs/webhooks.md` has the details. */
const results: Record<string, string> = {
  'call.gathered': 'After `gather`: `digits`, `speech?`, `reason`.',
  'call.recorded': 'After `record`: `recording_id`, `recording_url`, `duration`, `digits`, `reason`.',
  'call.transcribed':
    'To `transcribe_url` of `record`: `recording_id`, `recording_url`, `status` (`completed`, `failed`), `text?`.',
  'call.screening': 'For `screen_url` of `dial`, about the dialled call: `from_number`, `to_number`, `parent_call_id`.',
  'call.dialed': 'After `dial`: `status`, `to`, `duration`, `dialed_call_id`, and `recording_*` if recorded.',
  'call.referred': 'To `refer_url`: `refer_to`.',
  'call.dequeued':
    'After `enqueue`: `result` (`bridged`, `leave`, `hangup`, `redirected`, `redirected-from-bridged`, `bridging-in-process`, `queue-full`, `error`), `queue_id`, `name`, `waited_s`.',
  'call.conferenced': 'After `conference`: `status`, `conference_id`, `name`, `duration`.',
  'call.disconnected': 'After `connect`: `status`, `detail`, `duration`, and of ConversationRelay `handoff_data`.',
  'call.redirected': 'After `redirect`: empty.',
};

function webhooks(): Record<string, object> {
  const sentTypes = Object.keys(eventTypes).filter((type) => !type.startsWith('webhook.')); // these tell of the requests themselves
  const start = {
    type: 'object',
    properties: {
      from_number: { type: 'string', description: 'The calling number.' },
      to_number: { type: 'string', description: 'The called number.' },
      direction: { type: 'string', enum: ['inbound', 'outbound'], description: 'The direction of the call.' },
      headers: {
        type: 'object',
        additionalProperties: { type: 'string' },
        description: 'The `X-` header fields of the INVITE.',
      },
    },
  };
  const asked = (operationId: string, summary: string, description: string, schema: object) => ({
    post: {
      operationId,
      tags: ['Webhooks'],
      summary,
      description: `${description}\n\nSigned according to Standard Webhooks: \`webhook-id\`, \`webhook-timestamp\`, \`webhook-signature\`.`,
      security: [],
      requestBody: { required: true, content: { 'application/json': { schema } } },
      responses: {
        200: {
          description: 'The next actions of the call. TwiML (`application/xml`) is also accepted.',
          content: {
            'application/json': {
              schema: {
                type: 'object',
                required: ['actions'],
                additionalProperties: false,
                properties: {
                  actions: { type: 'array', items: schemaRef('Action'), description: 'The actions, in order.' },
                },
              },
            },
          },
        },
      },
    },
  });
  const event = asked(
    'receiveEvent',
    'An event of a call',
    'Sent to `provider_config.events_url`, at least once and in order within a call, until it is answered with 2xx; "Events" lists the types.',
    {
      ...envelope(sentTypes, free('The `event_data` of the event.'), {
        sequence: { type: 'integer', description: 'The number of the event within its call.' },
      }),
      oneOf: sentTypes.map((type) => ({
        required: ['type', 'data'],
        properties: { type: { const: type }, data: schemaRef(eventDataName(type)) },
      })),
    },
  );
  return {
    callStart: asked(
      'receiveCall',
      'A call needs its first actions',
      'Sent to the `target` of a webhook endpoint when a call is received (`call.incoming`) or an outbound call is answered (`call.outgoing`). It must be answered within 10 s.',
      envelope(['call.incoming', 'call.outgoing'], start),
    ),
    actionResult: asked(
      'receiveResult',
      'An action has ended',
      `Sent to the \`url\` of the action, for the next actions.\n\n${Object.entries(results)
        .map(([type, text]) => `\`${type}\`: ${text}`)
        .join('\n\n')}`,
      envelope(Object.keys(results), free('The result of the action.')),
    ),
    callEvent: {
      post: { ...event.post, responses: { '2XX': { description: 'The event was received. The body is ignored.' } } },
    },
  };
}
