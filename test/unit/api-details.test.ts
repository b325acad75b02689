import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { actionFields } from '../../src/api/schemas/actions.js';
import { eventTypes } from '../../src/api/schemas/events.js';
import { parseActionList } from '../../src/webhook/json-actions.js';
import { type TestApi, testApi } from '../support/api.js';

/** What the description says besides the operations, held against what the server does. */

let api: TestApi;
// biome-ignore lint/suspicious/noExplicitAny: a document of any shape
let document: any;
beforeAll(async () => {
  api = await testApi();
  document = (await api.request('GET', '/openapi.json', { key: null })).body;
});
afterAll(() => api.close());

describe('the actions', () => {
  /** The least that the parser takes, by the name of the form. */
  const least: Record<keyof typeof actionFields, Record<string, unknown>> = {
    answer: {},
    say: { text: 'x' },
    play: { url: 'https://example.com/a.wav' },
    pause: { seconds: 1 },
    gather: {},
    record: {},
    dtmf: { digits: '1' },
    connect_endpoint: { endpoint_id: '0198c0de-0000-7000-8000-000000000000' },
    connect_stream: { url: 'wss://example.com' },
    dial: { to: '+15551234567' },
    dial_queue: { queue: 'q' },
    enqueue: { queue: 'q' },
    leave: {},
    conference: { name: 'r' },
    relay: { url: 'wss://example.com' },
    redact: { on: true },
    transfer: { to: '+15551234567' },
    redirect: { url: 'https://example.com' },
    reject: {},
    hangup: {},
  };

  it.each(Object.entries(actionFields))('%s: have the fields that the parser reads, and no others', (form, fields) => {
    const name = form.split('_')[0];
    const read = new Set<string>();
    const spied = new Proxy({ action: name, ...least[form as keyof typeof actionFields] } as Record<string, unknown>, {
      get: (of, field) => {
        if (typeof field === 'string') read.add(field);
        return of[field as string];
      },
      getOwnPropertyDescriptor: (of, field) => {
        if (typeof field === 'string') read.add(field);
        return Object.getOwnPropertyDescriptor(of, field);
      },
    });
    expect(parseActionList([spied], 'about:blank')).toHaveLength(1);
    // A stream is told from an endpoint by this field.
    if (form === 'connect_stream') read.delete('endpoint_id');
    // A queue is told from other destinations by this field.
    if (form === 'dial') read.delete('queue');
    expect([...read].sort()).toEqual(Object.keys(fields).sort());
    const required = Object.entries(fields as Record<string, object>).filter(([, schema]) => !('~optional' in schema));
    for (const [field] of required) {
      const rest: Record<string, unknown> = { action: name, ...least[form as keyof typeof actionFields] };
      delete rest[field];
      expect(() => parseActionList([rest], 'about:blank'), `${form} without ${field}`).toThrow();
    }
  });

  it('are what a redirect and the answer of a webhook are made of', () => {
    const item = { $ref: '#/components/schemas/Action' };
    const redirect = document.paths['/v1/calls/{id}/redirect'].post.requestBody.content['application/json'].schema;
    expect(redirect.properties.actions.items).toEqual(item);
    const answer = document.webhooks.callStart.post.responses[200].content['application/json'].schema;
    expect(answer.properties.actions.items).toEqual(item);
    expect(document.components.schemas.Action.anyOf).toHaveLength(Object.keys(actionFields).length);
  });
});

it('the configuration of each provider is typed with what requests are checked with', async () => {
  const { anyOf } = document.components.schemas.Endpoint.properties.provider_config;
  expect(anyOf).toHaveLength(18);
  for (const { $ref } of anyOf) {
    const schema = document.components.schemas[$ref.split('/').at(-1)];
    expect(schema.additionalProperties).toBe(false);
  }
  const { properties } = document.components.schemas.ProviderConfig_custom;
  const named = Object.keys(properties).join(' ');
  expect(named).toContain('api_key');
  const config = Object.fromEntries([['nonsense', 1]]);
  const body = { name: 'A', type: 'agent', target: 'wss://a.example.com', provider_config: config };
  expect((await api.request('POST', '/v1/endpoints', { body })).status).toBe(400);
});

it('every event is listed with its data, in the description and on the page', async () => {
  const page = await api.request('GET', '/docs', { key: null });
  for (const type of Object.keys(eventTypes)) {
    expect(document.info.description).toContain(`| \`${type}\` |`);
    expect(page.text).toContain(`<td><code>${type}</code></td>`);
  }
  expect(page.text).toMatch(
    /const response = await fetch\(`\$\{process\.env\.TRUNKLINE_URL\}\/v1\/calls\/\$\{id\}\/transfer`, \{/,
  );
  expect(page.text).toContain('href="/#/reference/transferCall"');
  expect(page.text).toContain('id="receiveCall"');
  for (const word of ['X-RateLimit-Remaining', 'RFC 3339', 'business 200 and 500,000', 'Idempotency-Key'])
    expect(page.text).toContain(word);
});

it('the data of every event is typed, in records and in requests', () => {
  const { schemas } = document.components;
  const { anyOf } = schemas.CallEvent.properties.event_data;
  expect(anyOf.map(({ $ref }: { $ref: string }) => $ref.replace('#/components/schemas/EventData_', ''))).toEqual(
    Object.keys(eventTypes),
  );
  for (const { $ref } of anyOf) {
    const schema = schemas[$ref.split('/').at(-1) ?? ''];
    expect(schema.type, $ref).toBe('object');
    for (const [name, field] of Object.entries<{ description?: string }>(schema.properties))
      expect(field.description, `${$ref} ${name}`).toMatch(/^[A-Z`]/);
  }
  expect(schemas['EventData_turn.completed'].required).toContain('response_ms');
  const { schema } = document.webhooks.callEvent.post.requestBody.content['application/json'];
  expect(schema.oneOf.length).toBe(Object.keys(eventTypes).filter((type) => !type.startsWith('webhook.')).length);
  // Generated clients tell the types apart only by fields that are there.
  for (const event of schema.oneOf) expect(event.required).toEqual(['type', 'data']);
});

it('the headers of answers are described, and the server sends them', async () => {
  const { responses } = document.paths['/v1/me'].get;
  expect(Object.keys(responses[401].headers)).toEqual(['X-Request-Id', 'WWW-Authenticate']);
  expect(Object.keys(responses[429].headers)).toContain('Retry-After');
  const answer = await api.request('GET', '/v1/me');
  for (const name of Object.keys(responses[200].headers)) expect(answer.headers).toHaveProperty(name.toLowerCase());
  const created = document.paths['/v1/trunks'].post.responses[201].headers;
  expect(created['Idempotent-Replayed']).toEqual({ $ref: '#/components/headers/Idempotent-Replayed' });
  for (const name of Object.keys(created)) expect(document.components.headers).toHaveProperty(name);
});

it('a command without fields needs no body', async () => {
  expect(document.paths['/v1/calls/{id}/hangup'].post.requestBody.required).toBe(false);
  expect(document.paths['/v1/calls/{id}/dtmf'].post.requestBody.required).toBe(true);
  expect((await api.request('POST', '/v1/events/token')).status).toBe(200);
});

it('the requests that we send are described', () => {
  expect(Object.keys(document.webhooks)).toEqual(['callStart', 'actionResult', 'callEvent']);
  const { schema } = document.webhooks.callStart.post.requestBody.content['application/json'];
  expect(schema.properties.type.enum).toEqual(['call.incoming', 'call.outgoing']);
});
