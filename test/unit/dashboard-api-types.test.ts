import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiDescriptionDocument, apiTypes } from '../../dashboard/api-types.js';
import { type TestApi, testApi } from '../support/api.js';

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api.close());

describe('the types of the dashboard', () => {
  it('are those of the OpenAPI description; if not: npm run dashboard:types', async () => {
    const { body } = await api.request('GET', '/openapi.json', { key: null });
    const file = path.resolve(import.meta.dirname, '../../dashboard/src/api/description.d.ts');
    await expect(apiTypes(body as ApiDescriptionDocument)).toMatchFileSnapshot(file);
  });

  it('write what schemas mean', () => {
    const text = apiTypes({
      paths: {
        '/v1/x/{id}': {
          get: {
            parameters: [
              { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
              { name: 'x-organization-id', in: 'header', schema: { type: 'string' } },
            ],
            responses: { 200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/X' } } } } },
          },
        },
      },
      components: {
        schemas: {
          X: {
            type: 'object',
            required: ['a'],
            properties: {
              a: { type: ['string', 'null'], enum: ['b', null] },
              'c-d': { type: 'array', items: { type: 'integer' } },
            },
          },
        },
      },
    });
    expect(text).toContain('"/v1/x/{id}"');
    expect(text).toContain('path: { id: string }');
    expect(text).not.toContain('x-organization-id');
    expect(text).toContain('content: { "application/json": Schemas["X"] }');
    expect(text).toContain('X: { a: "b" | null; "c-d"?: Array<number> };');
  });
});
