import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorCatalogue } from '../../src/api/errors.js';
import { type TestApi, testApi } from '../support/api.js';
import { ApiDescription, type ApiDocument } from '../support/api-description.js';

/** The served description against an independent validator, and its examples against its own schemas. */

interface Media {
  schema: object;
  example?: unknown;
  examples?: Record<string, { value: unknown }>;
}
interface OperationObject {
  operationId: string;
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { content?: Record<string, Media> }>;
}

let api: TestApi;
let document: ApiDocument & { paths: Record<string, Record<string, OperationObject>> };
let judge: ApiDescription;
beforeAll(async () => {
  api = await testApi();
  document = (await api.request('GET', '/openapi.json', { key: null })).body;
  judge = new ApiDescription(document);
});
afterAll(() => api.close());

const operations = () =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation: operation as OperationObject })),
  );
const escaped = (...parts: string[]) =>
  `#/${parts.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;

describe('the served description', () => {
  it('is valid OpenAPI 3.1 for a validator that is not ours', async () => {
    const validator = new Validator();
    const result = await validator.validate(structuredClone(document) as object as Record<string, unknown>);
    expect(result.errors ?? []).toEqual([]);
    expect([result.valid, validator.version]).toEqual([true, '3.1']);
    const broken = structuredClone(document) as object as Record<string, unknown> & {
      paths: Record<string, { get: { responses?: object } }>;
    };
    broken.paths['/v1/me']!.get.responses = { 200: {} };
    expect((await new Validator().validate(broken)).valid).toBe(false);
  });

  it('has an example of every request and every answer, each as its schema says', () => {
    const problems: string[] = [];
    const check = (where: string, pointer: string, value: unknown) => {
      try {
        judge.check(where, pointer, value);
      } catch (error) {
        problems.push((error as Error).message);
      }
    };
    for (const { path, method, operation } of operations()) {
      for (const [type, media] of Object.entries(operation.requestBody?.content ?? {})) {
        const where = `${method} ${path}: the example of the request`;
        expect(media.example, where).toBeDefined();
        check(where, escaped('paths', path, method, 'requestBody', 'content', type, 'schema'), media.example);
      }
      for (const [status, { content }] of Object.entries(operation.responses)) {
        const [[type, media] = []] = Object.entries(content ?? {});
        if (!type || !media) continue;
        const where = `${method} ${path}: the example of ${status}`;
        const values = media.examples ? Object.values(media.examples).map(({ value }) => value) : [media.example];
        expect(values.length, where).toBeGreaterThan(0);
        if (operation.operationId === 'getReadiness' && status === '503') continue; // the same body as 200
        for (const value of values) {
          expect(value, where).toBeDefined();
          check(where, escaped('paths', path, method, 'responses', status, 'content', type, 'schema'), value);
        }
      }
    }
    expect(problems).toEqual([]);
  });

  it('shows every error with its code, where it can happen', () => {
    const shown = new Set<string>();
    for (const { operation } of operations()) {
      for (const [status, { content }] of Object.entries(operation.responses)) {
        for (const [code, { value }] of Object.entries(content?.['application/json']?.examples ?? {})) {
          expect((value as { code: string }).code).toBe(code);
          expect(errorCatalogue[code as keyof typeof errorCatalogue].status).toBe(Number(status));
          shown.add(code);
        }
      }
    }
    // Of paths that do not exist, there is no operation.
    expect([...shown, 'METHOD_NOT_ALLOWED'].sort()).toEqual(Object.keys(errorCatalogue).sort());
  });

  it('gives transcription a server entry of its own', () => {
    const { post } = document.paths['/api/v1/transcribe'] as unknown as { post: { servers: object[] } };
    expect(post.servers).toEqual([{ url: '/', description: expect.any(String) }]);
  });
});

describe('the judge of answers', () => {
  const call = (body: object, status = 200) => ({
    status,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    body,
    text: JSON.stringify(body),
  });

  it('finds what deviates', () => {
    const stats = { completed: 1, failed: 0, in_progress: 0, no_answer: 0, busy: 0 };
    judge.expectDescribed('GET', '/v1/calls?action=stats', call(stats));
    const wrong = [
      call({ ...stats, busy: '0' }),
      call({ ...stats, ringing: 1 }),
      call({ completed: 1 }),
      call({ error: 'x', code: 'NOT_FOUND' }, 418),
      { ...call(stats), headers: { 'content-type': 'text/plain' } },
    ];
    for (const each of wrong) expect(() => judge.expectDescribed('GET', '/v1/calls', each)).toThrow('GET /v1/calls');
    expect(() => judge.expectDescribed('GET', '/v1/nowhere', call({ error: 'x', code: 'WRONG' }, 404))).toThrow();
    const me = { user: {}, mode: 'live' };
    expect(() => judge.expectDescribed('GET', '/v1/me', call(me))).toThrow();
  });
});
