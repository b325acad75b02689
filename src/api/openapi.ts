import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { type DetailedDocument, describeDetails } from './describe-details.js';
import { errorCatalogue } from './errors.js';
import { examples } from './examples.js';
import { route } from './route.js';
import { overviewSchemas } from './routes/calls/overview.js';
import { searchSchemas } from './routes/calls/search.js';
import { transcriptionSchemas } from './routes/calls/transcribe.js';
import { connectionTestSchemas } from './routes/routing/connection-tests.js';
import { routeSchemas } from './routes/routing/route-simulation.js';
import { signInSchemas } from './routes/tenants/sign-in.js';
import { accountSchemas } from './schemas/account.js';
import { callSchemas } from './schemas/calls.js';
import { capsuleSchemas } from './schemas/capsule.js';
import { endpointSchemas } from './schemas/endpoints.js';
import { eventTable } from './schemas/events.js';
import { insightSchemas } from './schemas/insights.js';
import { organizationSchemas } from './schemas/organizations.js';
import { phoneNumberSchemas } from './schemas/phone-numbers.js';
import { simulatorSchemas } from './schemas/simulator.js';
import { trunkSchemas } from './schemas/trunks.js';
import { Type } from './schemas/types.js';
import { webhookDeliverySchemas } from './schemas/webhook-deliveries.js';

const errorSchema = Type.Object(
  {
    error: Type.String({ description: 'The error as a sentence.' }),
    code: Type.Unsafe<string>({
      type: 'string',
      enum: Object.keys(errorCatalogue),
      description: 'The error code.',
    }),
    details: Type.Optional(
      Type.Object({}, { additionalProperties: true, description: 'Details that depend on the code.' }),
    ),
  },
  { $id: 'Error' },
);

const schemas = [
  errorSchema,
  ...callSchemas,
  ...insightSchemas,
  ...overviewSchemas,
  ...searchSchemas,
  ...capsuleSchemas,
  ...simulatorSchemas,
  ...endpointSchemas,
  ...phoneNumberSchemas,
  ...trunkSchemas,
  ...accountSchemas,
  ...signInSchemas,
  ...organizationSchemas,
  ...transcriptionSchemas,
  ...routeSchemas,
  ...connectionTestSchemas,
  ...webhookDeliverySchemas,
];

/** Prepares the OpenAPI description, which contains the operations registered afterwards. */
export async function describeApi(app: FastifyInstance): Promise<void> {
  for (const schema of schemas) app.addSchema(schema);
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Trunkline', version: '1.3.0', description, license: { name: 'MIT', identifier: 'MIT' } },
      servers: [{ url: '/', description: 'This server.' }],
      tags: [
        { name: 'Calls', description: 'Call records, and commands for running calls.' },
        { name: 'Endpoints', description: 'The destinations of calls: voice agents and your own servers.' },
        { name: 'Phone numbers', description: 'The phone numbers and the routing of their calls.' },
        { name: 'Trunks', description: 'The SIP trunks of carriers, for inbound and outbound calls.' },
        { name: 'Organizations', description: 'Tenants with their members, limits, prices and balance.' },
        { name: 'Webhooks', description: 'Deliveries of events to your servers, and recordings of webhook actions.' },
        { name: 'Transcription', description: 'Transcription of audio files.' },
        { name: 'Account', description: 'The caller and the API keys.' },
        { name: 'Operation', description: 'Health, metrics and documentation of the server.' },
      ],
      components: {
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            description: 'An API key, or a token of the identity provider. Takes precedence over `x-api-key`.',
          },
          apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'An API key.' },
        },
      },
      security: [{ bearer: [] }, { apiKey: [] }],
    },
    refResolver: { buildLocalReference: (json, _base, _fragment, i) => String(json.$id ?? `schema${i}`) },
  });
}

export function openapiRoute(app: FastifyInstance) {
  return route({
    method: 'GET',
    path: '/openapi.json',
    operationId: 'getOpenapi',
    tag: 'Operation',
    summary: 'Get the OpenAPI description',
    description: 'The OpenAPI 3.1 description of the API.',
    access: 'public',
    answer: {
      status: 200,
      description: 'The OpenAPI description.',
      schema: Type.Object({}, { additionalProperties: true }),
    },
    handle: () => describedApi(app),
  });
}

const described = new WeakMap<FastifyInstance, object>();

/** The OpenAPI description as served: generated once from the operations, with their examples. */
export function describedApi(app: FastifyInstance): object {
  let document = described.get(app);
  if (!document) {
    const made = app.swagger() as unknown as DescribedPaths & DetailedDocument;
    describeDetails(made);
    document = withExamples(made);
    described.set(app, document);
  }
  return document;
}

interface DescribedPaths {
  paths: Record<string, Record<string, DescribedOperation>>;
}
interface DescribedOperation {
  operationId: string;
  servers?: object[];
  parameters?: { required?: boolean; schema: { default?: unknown } }[];
  requestBody?: { required?: boolean; content: Record<string, { schema: BodySchema; example?: unknown }> };
  responses: Record<string, { content?: Record<string, { example?: unknown; examples?: object }> }>;
}

interface BodySchema {
  required?: string[];
  properties?: Record<string, { default?: unknown }>;
}

/** Removes fields with a default from `required`: clients may omit them, handlers always get them. */
function leaveOutDefaults(schema: BodySchema): void {
  const required = schema.required?.filter((name) => schema.properties?.[name]?.default === undefined);
  if (required && required.length > 0) schema.required = required;
  else delete schema.required;
}

/** The body of a command without parameters, which may be absent. */
function hasNoFields(schema: BodySchema | undefined): boolean {
  return schema?.properties !== undefined && Object.keys(schema.properties).length === 0;
}

function withExamples(document: DescribedPaths): DescribedPaths {
  for (const methods of Object.values(document.paths)) {
    for (const { operationId, parameters = [], requestBody, responses } of Object.values(methods)) {
      for (const parameter of parameters) if (parameter.schema.default !== undefined) delete parameter.required;
      const { request, answer } = examples[operationId] ?? {};
      const [body] = Object.values(requestBody?.content ?? {});
      if (body && request !== undefined) body.example = request;
      if (body) leaveOutDefaults(body.schema);
      if (requestBody && hasNoFields(body?.schema)) requestBody.required = false;
      for (const [status, { content }] of Object.entries(responses)) {
        const [success] = Object.values(content ?? {});
        if (success && success.examples === undefined && Number(status) < 400 && answer !== undefined)
          success.example = answer;
      }
    }
  }
  // This path is not below `/v1`.
  const transcribe = document.paths['/api/v1/transcribe']?.post;
  if (transcribe) transcribe.servers = [{ url: '/', description: 'The server without `/v1`.' }];
  return document;
}

const description = `Trunkline connects phone calls to voice agents and keeps records of the calls.

## Authentication
Send an API key as \`Authorization: Bearer trunkline_live_…\` or as \`x-api-key\`. A \`trunkline_test_…\` key reads and creates test records only. \`x-organization-id\` selects the organization; by default it is the one the key is limited to, else the caller's first organization.

## Conventions
Bodies are JSON in snake_case; fields and parameters that are not known are refused, so that a typo is not lost. Times are RFC 3339 in UTC with milliseconds, ids are UUIDs, money is cents. Every answer carries \`X-Request-Id\`.

## Limits
Requests are limited per organization, by second and by day (UTC): free 10 and 1,000, pro 50 and 50,000, business 200 and 500,000, enterprise by agreement (default 1,000 and 10,000,000). The limit per second applies to every interval of one second; rejected requests do not count. Requests without a valid key are limited to 20 per second and address. \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\` (Unix seconds) describe the limit per second, or the limit per day (UTC) if that rejected the request.

## Repeating a request
A POST that creates a record accepts \`Idempotency-Key\`: for 24 hours, requests of the same caller to the same path with the same key and body are executed once and get the same response, with \`Idempotent-Replayed: true\`; a different body gets 409. A secret that is shown once is in the first response only.

## Events
The events of a call are in its detail, in the stream of \`GET /v1/events\`, and are sent to the \`events_url\` of its endpoint.

${eventTable}

## Errors
Every error has the body \`{error, code, details?}\`.

| code | status | when |
|---|---|---|
${Object.entries(errorCatalogue)
  .map(([code, { status, when }]) => `| \`${code}\` | ${status} | ${when} |`)
  .join('\n')}`;
