import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorCatalogue } from '../../src/api/errors.js';
import { type TestApi, testApi } from '../support/api.js';

interface Schema {
  $ref?: string;
  type?: string | string[];
  properties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: Schema[];
  description?: string;
  [other: string]: unknown;
}
interface OperationObject {
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  security?: object[];
  parameters?: { name: string; in: string; required: boolean; description?: string; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }> }>;
}
interface Description {
  openapi: string;
  info: { title: string; version: string; description: string };
  tags: { name: string }[];
  components: { schemas: Record<string, Schema>; securitySchemes: Record<string, object> };
  paths: Record<string, Record<string, OperationObject>>;
}

let api: TestApi;
let description: Description;
const all = () =>
  Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation, where: `${method} ${path}` })),
  );

beforeAll(async () => {
  api = await testApi();
  description = (await api.request('GET', '/openapi.json', { key: null })).body;
});
afterAll(() => api.close());

/** Every schema in the tree, with its path. */
function* schemas(schema: Schema, path: string): Generator<[string, Schema]> {
  yield [path, schema];
  for (const [name, property] of Object.entries(schema.properties ?? {})) yield* schemas(property, `${path}.${name}`);
  if (schema.items) yield* schemas(schema.items, `${path}[]`);
  for (const [index, each] of (schema.anyOf ?? []).entries()) yield* schemas(each, `${path}|${index}`);
}

describe('the OpenAPI description', () => {
  it('is 3.1, and numbered as the API', () => {
    expect(description.openapi).toBe('3.1.0');
    expect(description.info.version).toMatch(/^1\.3\.0/);
    expect(description.info.title).toBe('Trunkline');
  });

  it('has both key schemes, and asks for a key wherever one is needed', () => {
    expect(Object.values(description.components.securitySchemes)).toEqual([
      expect.objectContaining({ type: 'http', scheme: 'bearer' }),
      expect.objectContaining({ type: 'apiKey', in: 'header', name: 'x-api-key' }),
    ]);
    for (const { path, operation, where } of all()) {
      if (/^(\/api)?\/v1\//.test(path) && operation.operationId !== 'getRecording') {
        expect(operation.security, where).toBeUndefined(); // the common one holds
        expect(operation.parameters?.find(({ name }) => name === 'x-organization-id')?.in, where).toBe('header');
        expect(Object.keys(operation.responses), where).toEqual(
          expect.arrayContaining(['400', '401', '403', '429', '500', '503']),
        );
      } else expect(operation.security, where).toEqual([]);
    }
  });

  it('describes every operation, parameter and field', () => {
    const operationIds = all().map(({ operation }) => operation.operationId);
    expect(new Set(operationIds).size).toBe(operationIds.length);
    const tags = description.tags.map(({ name }) => name);
    for (const { operation, where } of all()) {
      expect(operation.summary, where).toMatch(/^[A-Z]/);
      expect(operation.description.length, where).toBeGreaterThan(10);
      expect(tags, where).toContain(operation.tags[0]);
      for (const parameter of operation.parameters ?? []) {
        expect(parameter.description, `${where} ${parameter.name}`).toBeTruthy();
      }
      for (const { schema } of Object.values(operation.requestBody?.content ?? {})) {
        for (const [path, field] of Object.entries(schema.properties ?? {})) {
          expect(field.description, `${where} ${path}`).toBeTruthy();
        }
      }
      for (const [status, response] of Object.entries(operation.responses)) {
        expect(response.description, `${where} ${status}`).toBeTruthy();
        if (Number(status) < 400 || operation.operationId === 'getReadiness') continue; // that tells what works, always
        expect(response.content?.['application/json']?.schema, `${where} ${status}`).toEqual({
          $ref: '#/components/schemas/Error',
        });
      }
    }
    for (const [name, schema] of Object.entries(description.components.schemas)) {
      for (const [field, property] of Object.entries(schema.properties ?? {})) {
        if (!property.$ref) expect(property.description ?? name, `${name}.${field}`).toBeTruthy();
      }
    }
  });

  it('leaves no reference open', () => {
    const roots = [
      ...Object.entries(description.components.schemas),
      ...all().flatMap(({ operation, where }) =>
        Object.values(operation.responses).flatMap(({ content }) =>
          Object.values(content ?? {}).map(({ schema }) => [where, schema] as [string, Schema]),
        ),
      ),
    ];
    for (const [name, root] of roots) {
      for (const [path, { $ref }] of schemas(root, name)) {
        if ($ref) expect(description.components.schemas[$ref.replace('#/components/schemas/', '')], path).toBeDefined();
      }
    }
  });

  it('gives every path parameter', () => {
    for (const { path, operation, where } of all()) {
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const given = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path').map(({ name }) => name);
      expect(given, where).toEqual(named);
    }
  });

  it('lists every error of the catalogue', () => {
    for (const code of Object.keys(errorCatalogue)) expect(description.info.description).toContain(`\`${code}\``);
    expect(description.components.schemas.Error?.properties?.code?.enum).toEqual(Object.keys(errorCatalogue));
  });

  it("has the seed's fields, filters and limits", () => {
    const parameters = description.paths['/v1/calls']?.get?.parameters ?? [];
    const schemaOf = (name: string) => parameters.find((parameter) => parameter.name === name)?.schema;
    expect(parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name)).toEqual([
      'page',
      'limit',
      'action',
      'status',
      'direction',
      'phone_number_id',
      'start_date',
      'end_date',
    ]);
    expect(parameters.filter(({ required }) => required)).toEqual([]);
    expect(schemaOf('page')).toMatchObject({ type: 'integer', minimum: 1, default: 1 });
    expect(schemaOf('limit')).toMatchObject({ type: 'integer', minimum: 1, maximum: 100, default: 20 });
    expect(Object.keys(description.components.schemas.Call?.properties ?? {})).toHaveLength(16);
  });
});
