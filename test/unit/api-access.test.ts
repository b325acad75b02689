import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';
import {
  absentId,
  askFor,
  bodyFor,
  type DescribedOperation,
  describedOperations,
  sampleRecords,
} from '../support/api-operations.js';

/** Every operation of the API, from its own description, refused for every reason that does not depend on what it does. */

let api: TestApi;
let operations: DescribedOperation[];
/** A record of organization A for each path with an id. */
let ids: Record<string, string>;

beforeAll(async () => {
  api = await testApi();
  operations = await describedOperations(api);
  ids = await sampleRecords(api);
});
afterAll(() => api.close());

const guarded = () => operations.filter(({ isPublic }) => !isPublic);
const withId = () => guarded().filter(({ path }) => path.includes('{id}'));
const ask = (operation: DescribedOperation, options: object, id?: string) => askFor(api, operation, ids, options, id);

describe('every operation', () => {
  it('is described', () => {
    expect(operations.map(({ method, path }) => `${method} ${path}`).sort()).toEqual(
      [
        'GET /v1/calls',
        'GET /v1/calls/{id}',
        'DELETE /v1/calls/{id}',
        'POST /v1/calls/{id}/hangup',
        'POST /v1/calls/{id}/dtmf',
        'POST /v1/calls/{id}/redact',
        'POST /v1/calls/{id}/transfer',
        'POST /v1/calls/{id}/redirect',
        'GET /v1/calls/{id}/trace',
        'GET /v1/calls/{id}/quality',
        'GET /v1/calls/{id}/recording',
        'POST /v1/calls/{id}/recording/pause',
        'POST /v1/calls/{id}/recording/resume',
        'GET /v1/calls/{id}/capsule',
        'GET /v1/calls/insights',
        'POST /v1/simulator/calls',
        ...['endpoints', 'phone-numbers', 'trunks'].flatMap((name) => [
          `GET /v1/${name}`,
          `POST /v1/${name}`,
          `GET /v1/${name}/{id}`,
          `PATCH /v1/${name}/{id}`,
          `DELETE /v1/${name}/{id}`,
        ]),
        'POST /v1/endpoints/{id}/rotate-secret',
        'GET /v1/webhook-deliveries',
        'POST /v1/webhook-deliveries/{id}/retry',
        'GET /v1/api-keys',
        'POST /v1/api-keys',
        'DELETE /v1/api-keys/{id}',
        'GET /v1/me',
        'POST /v1/outbound-calls',
        'GET /v1/events',
        'POST /v1/events/token',
        'GET /v1/overview',
        'GET /v1/doctor',
        'POST /v1/endpoints/{id}/test',
        'POST /v1/trunks/{id}/test',
        'GET /v1/calls/search',
        'GET /v1/calls/export',
        'GET /v1/calls/{id}/explanation',
        'GET /sign-in',
        'POST /sign-in/link',
        'POST /sign-in/code',
        'POST /v1/routes/simulate',
        'GET /docs',
        'POST /api/v1/transcribe',
        'GET /v1/organizations',
        'POST /v1/organizations',
        'GET /v1/organizations/{id}',
        'PATCH /v1/organizations/{id}',
        'GET /v1/organizations/{id}/rates',
        'PUT /v1/organizations/{id}/rates',
        'GET /v1/organizations/{id}/ledger',
        'POST /v1/organizations/{id}/credits',
        'GET /v1/organizations/{id}/members',
        'POST /v1/organizations/{id}/members',
        'DELETE /v1/organizations/{id}/members/{member_id}',
        'GET /recordings/{id}/{token}',
        'GET /v1/rejected-invites',
        'GET /healthz',
        'GET /readyz',
        'GET /metrics',
        'GET /openapi.json',
      ].sort(),
    );
  });

  it('ignores a key in the query', async () => {
    const { status } = await api.request('GET', `/v1/calls?api_key=${api.a.key}`, { key: null });
    expect(status).toBe(401);
  });

  it('takes the key in either header', async () => {
    expect((await api.request('GET', '/v1/me', { key: null, headers: { 'x-api-key': api.a.key } })).status).toBe(200);
    expect(
      (await api.request('GET', '/v1/me', { key: null, headers: { authorization: `bearer ${api.a.key}` } })).status,
    ).toBe(200);
    const both = { authorization: `Bearer ${api.a.key}`, 'x-api-key': api.b.key };
    const me = await api.request('GET', '/v1/me', { key: null, headers: both });
    expect(me.body.organization.id).toBe(api.a.organizationId);
  });

  it('answers 400 for an organization that is no uuid', async () => {
    for (const operation of guarded()) {
      const malformed = await ask(operation, { headers: { 'x-organization-id': '7' } });
      expect([malformed.status, malformed.body.code], operation.path).toEqual([400, 'VALIDATION_ERROR']);
    }
  });

  it('answers 404 for an id that does not exist and for one of another organization or mode, in the same words', async () => {
    const test = await api.addKey({ organizationId: api.a.organizationId, mode: 'test' });
    for (const operation of withId()) {
      const absent = await ask(operation, {}, absentId);
      const foreign = await ask(operation, { key: api.b.key });
      // An organization is the same for live and test keys; what a test key may not do there has a test of its own.
      const otherMode = operation.path.startsWith('/v1/organizations') ? absent : await ask(operation, { key: test });
      const where = `${operation.method} ${operation.path}`;
      expect([absent.status, absent.body.code], where).toEqual([404, 'NOT_FOUND']);
      expect([foreign.status, foreign.body], where).toEqual([404, absent.body]);
      expect([otherMode.status, otherMode.body], where).toEqual([404, absent.body]);
    }
  });

  it('answers 400 for a malformed id, an unknown parameter, and an unknown field', async () => {
    for (const operation of guarded()) {
      const where = `${operation.method} ${operation.path}`;
      if (operation.path.includes('{id}')) {
        const malformed = await ask(operation, {}, 'not-a-uuid');
        expect([malformed.status, malformed.body.details.fields[0].path], where).toEqual([400, 'id']);
      }
      const query = await ask(
        { ...operation, path: `${operation.path}?colour=red` },
        { body: operation.takesBody ? bodyFor(operation) : undefined },
        absentId,
      );
      expect([query.status, query.body.code, query.body.details.fields[0].path], where).toEqual([
        400,
        'VALIDATION_ERROR',
        'colour',
      ]);
      if (!operation.takesBody) continue;
      const field = await ask(operation, { body: { ...bodyFor(operation), colour: 'red' } }, absentId);
      expect([field.status, field.body.code], where).toEqual([400, 'VALIDATION_ERROR']);
      expect(
        field.body.details.fields.map((problem: { path: string }) => problem.path),
        where,
      ).toContain('colour');
    }
  });

  it('answers 400 for bodies that are no JSON object, 415 for other types, 413 for too much', async () => {
    for (const operation of guarded().filter(({ takesBody }) => takesBody)) {
      const where = `${operation.method} ${operation.path}`;
      const deep = `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`;
      for (const payload of ['{"a":', 'null', '[]', '"x"', '7', '{"__proto__":{"x":1}}', '\u0000', deep]) {
        const answer = await ask(operation, { payload, body: undefined }, absentId);
        expect([answer.status, answer.body.code], `${where} ${payload.slice(0, 20)}`).toEqual([
          400,
          'VALIDATION_ERROR',
        ]);
      }
      const headers = { 'content-type': 'text/plain' };
      const text = await ask(operation, { payload: 'name=x', body: undefined, headers }, absentId);
      expect([text.status, text.body.code], where).toEqual([415, 'UNSUPPORTED_MEDIA_TYPE']);
      const payload = JSON.stringify({ name: 'x'.repeat(1_100_000) });
      const large = await ask(operation, { payload, body: undefined }, absentId);
      expect([large.status, large.body.code], where).toEqual([413, 'PAYLOAD_TOO_LARGE']);
    }
  });

  it('lets a member read and end calls, and an admin change things', async () => {
    const member = await api.addKey({ organizationId: api.a.organizationId, role: 'member' });
    const admin = await api.addKey({ organizationId: api.a.organizationId, role: 'admin' });
    for (const operation of guarded()) {
      const where = `${operation.method} ${operation.path}`;
      if (/^.v1.(organizations|rejected-invites|events|doctor)/.test(operation.path)) continue; // these have a test of their own
      const forAdmins = operation.description.includes('Requires the role `admin`');
      const reads = operation.method === 'GET' && operation.path !== '/v1/api-keys';
      const callsOnly =
        /\/(hangup|dtmf|redact|transfer|redirect|pause|resume|outbound-calls|transcribe|simulate)$/.test(
          operation.path,
        );
      expect(forAdmins, where).toBe(!reads && !callsOnly);
      const asMember = await ask(operation, { key: member }, absentId);
      expect(asMember.status === 403, where).toBe(forAdmins);
      const asAdmin = await ask(operation, { key: admin }, absentId);
      expect(asAdmin.status, where).not.toBe(403);
    }
  });
});

describe('paths', () => {
  it('answers 404 and 405 with the error body', async () => {
    const nowhere = await api.request('GET', '/v1/nowhere', { key: null });
    expect([nowhere.status, nowhere.body.code]).toEqual([404, 'NOT_FOUND']);
    const put = await api.request('PUT', `/v1/calls/${absentId}`, { remoteAddress: '10.9.9.9' });
    expect([put.status, put.body.code, put.headers.allow]).toEqual([405, 'METHOD_NOT_ALLOWED', 'GET, DELETE, HEAD']);
    const post = await api.request('POST', '/healthz', { remoteAddress: '10.9.9.9', body: {} });
    expect([post.status, post.headers.allow]).toEqual([405, 'GET, HEAD']);
    for (const url of ['/%ZZ', '/v1/calls/%00', `/v1/calls/${'x'.repeat(5000)}`, '/v1/calls/..%2f..%2fetc']) {
      const { status, body } = await api.request('GET', url, { remoteAddress: '10.9.9.8' });
      expect([400, 404], url).toContain(status);
      expect(body.code, url).toBeTypeOf('string');
    }
  });
});

describe('organizations', () => {
  it('are chosen by the header, else the first the user joined', async () => {
    const { store } = api;
    const second = (await store.organizations.create({ name: 'Second', tier: 'free' })).id;
    api.clock.advance(1);
    await store.organizations.addMember(second, api.a.userId, 'member');
    const first = await api.request('GET', '/v1/me');
    expect(first.body).toMatchObject({ role: 'owner', organization: { name: 'A' } });
    expect(first.body.organizations.map(({ name }: { name: string }) => name)).toEqual(['A', 'Second']);
    const headers = { 'x-organization-id': second.toUpperCase() };
    const chosen = await api.request('GET', '/v1/me', { headers });
    expect(chosen.body).toMatchObject({ role: 'member', organization: { id: second, name: 'Second' } });
    expect((await api.request('GET', '/v1/calls', { headers })).body.total).toBe(0);
    expect((await api.request('POST', '/v1/endpoints', { headers, body: {} })).status).toBe(403);
  });

  it('a key limited to one acts in that one only', async () => {
    const limited = await store({ organizationId: api.a.organizationId });
    expect((await api.request('GET', '/v1/me', { key: limited })).body.organizations).toHaveLength(1);
    const own = { 'x-organization-id': api.a.organizationId };
    expect((await api.request('GET', '/v1/me', { key: limited, headers: own })).status).toBe(200);
    const other = (await api.store.organizations.create({ name: 'Third', tier: 'free' })).id;
    await api.store.organizations.addMember(other, api.a.userId, 'owner');
    const headers = { 'x-organization-id': other };
    expect((await api.request('GET', '/v1/me', { key: limited, headers })).body.code).toBe('FORBIDDEN');
    expect((await api.request('GET', '/v1/me', { headers })).status).toBe(200);
  });

  async function store(of: { organizationId: string }) {
    return (await api.store.apiKeys.create({ ...of, userId: api.a.userId, mode: 'live', name: 'limited' })).key;
  }
});
