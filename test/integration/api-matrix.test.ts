import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeApiKey } from '../../src/store/tenants/api-keys.js';
import { type TestApi, testApi } from '../support/api.js';
import { askFor, type DescribedOperation, describedOperations, sampleRecords } from '../support/api-operations.js';

/** Every operation of the served description × everything that can be shown instead of a good key. */

const issuer = 'https://idp.example.com/';
const audience = 'trunkline';
let api: TestApi;
let idp: Server;
let operations: DescribedOperation[];
let ids: Record<string, string>;
let columns: Record<string, Record<string, string>>;
let addresses = 0;

beforeAll(async () => {
  const kid = 'key-1';
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid, alg: 'ES256' };
  idp = createServer((_request, response) => response.end(JSON.stringify({ keys: [jwk] }))).listen(0, '127.0.0.1');
  await new Promise((resolve) => idp.once('listening', resolve));
  const jwksUrl = `http://127.0.0.1:${(idp.address() as AddressInfo).port}/`;
  api = await testApi({
    tokens: { issuers: [issuer], audience, jwksUrl },
    outboundCalls: { refusal: () => null, start: () => {} },
  });
  operations = await describedOperations(api);
  ids = await sampleRecords(api);

  const owner = await api.store.organizations.createUser({ name: 'Ada', subject: 'ada' });
  await api.store.organizations.addMember(api.a.organizationId, owner.id, 'owner');
  const nowSec = Math.floor(api.clock.now() / 1000);
  const claims = { iss: issuer, aud: audience, sub: 'ada', exp: nowSec + 60 };
  const sign = (over: JWTPayload = {}) =>
    new SignJWT({ ...claims, ...over }).setProtectedHeader({ alg: 'ES256', kid }).sign(privateKey);
  const spki = new TextEncoder().encode(await exportSPKI(publicKey));
  const good = (await api.request('GET', '/v1/me', { key: await sign() })).status;
  expect(good).toBe(200); // what is refused below is refused for what is wrong with it

  const revoked = makeApiKey('live');
  const { record } = await api.store.apiKeys.create({ ...api.a, mode: 'live', name: 'gone', key: revoked });
  await api.store.apiKeys.revoke({ ...api.a, mode: 'live' }, record.id);
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  columns = {
    'no key': {},
    'empty key': { authorization: '' },
    'key without scheme': { authorization: api.a.key },
    'key of another scheme': { authorization: `Basic ${api.a.key}` },
    'malformed key': bearer(`${api.a.key}x`),
    'unknown key': { 'x-api-key': makeApiKey('live') },
    'revoked key': bearer(revoked),
    'bad bearer, good x-api-key': { authorization: 'Bearer nonsense', 'x-api-key': api.a.key },
    'JWT none': bearer(new UnsecuredJWT(claims).encode()),
    'JWT HS256 with the public key': bearer(
      await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid }).sign(spki),
    ),
    'JWT expired': bearer(await sign({ exp: nowSec - 61 })),
    'JWT for another audience': bearer(await sign({ aud: 'another' })),
    'JWT of another issuer': bearer(await sign({ iss: 'https://evil.example.com/' })),
  };
});
afterAll(async () => {
  await api.close();
  idp.close();
});

const where = (operation: DescribedOperation) => `${operation.method} ${operation.path}`;
const guarded = () => operations.filter(({ isPublic }) => !isPublic);
/** Of organization A; each from an address of its own, as 20 bad credentials a second are allowed. */
const ask = (operation: DescribedOperation, headers: Record<string, string>, more: object = {}) => {
  addresses += 1;
  const remoteAddress = `10.3.${addresses >> 8}.${addresses & 255}`;
  return askFor(api, operation, ids, { key: null, headers, remoteAddress, ...more });
};
const countOf = async () =>
  (
    await api.rows(
      `select (select count(*) from calls) + (select count(*) from endpoints) * 100 + (select count(*) from phone_numbers) * 10000
      + (select count(*) from trunks) * 1000000 + (select count(*) from organizations) * 100000000 + (select count(*) from members) * 10 as n`,
    )
  )[0]?.n;

describe('every operation with a key or token that is no good', () => {
  it('answers 401 in the same words, before it looks at anything else, and changes nothing', async () => {
    const before = await countOf();
    const deviations: string[] = [];
    for (const operation of guarded()) {
      for (const [column, headers] of Object.entries(columns)) {
        // Also a body and an id that are no good do not change the answer.
        const spoilt = { ...(operation.takesBody && { payload: '{"bad', body: undefined }) };
        const { status, text, headers: answered } = await ask(operation, headers, addresses % 2 ? spoilt : {});
        const right =
          status === 401 &&
          text === '{"error":"A valid API key is required","code":"UNAUTHORIZED"}' &&
          answered['www-authenticate'] === 'Bearer' &&
          answered['x-ratelimit-limit'] === undefined &&
          /^[0-9a-f-]{36}$/.test(String(answered['x-request-id']));
        if (!right) deviations.push(`${where(operation)}, ${column}: ${status} ${text.slice(0, 100)}`);
      }
    }
    expect(deviations).toEqual([]);
    expect(guarded().length * Object.keys(columns).length).toBeGreaterThan(500);
    expect(await countOf()).toBe(before);
  });

  it('answers as without one where no key is needed', async () => {
    for (const operation of operations.filter(({ isPublic }) => isPublic)) {
      const { status } = await ask(operation, {});
      for (const [column, headers] of Object.entries(columns)) {
        if (operation.operationId === 'getMetrics' && headers.authorization !== undefined) continue; // it has a token of its own
        expect((await ask(operation, headers)).status, `${where(operation)}, ${column}`).toBe(status);
      }
    }
  });
});

describe('every operation with a good key for another organization', () => {
  it('answers 403, tells nothing, changes nothing, and counts it', async () => {
    const before = await countOf();
    for (const operation of guarded()) {
      for (const [key, foreign] of [
        [api.b.key, api.a.organizationId],
        [api.a.key, api.b.organizationId],
        [api.b.key, '0198aaaa-0000-7000-8000-00000000dead'],
      ] as const) {
        const headers = { authorization: `Bearer ${key}`, 'x-organization-id': foreign };
        const { status, text, headers: answered } = await ask(operation, headers);
        expect([status, text], where(operation)).toEqual([
          403,
          '{"error":"The caller is not a member of this organization","code":"FORBIDDEN"}',
        ]);
        expect(answered['x-ratelimit-limit']).toBe('1000');
      }
    }
    expect(await countOf()).toBe(before);
  });
});

/**
 * What an owner's test key of organization A is answered, where A has live records only; all others have an id of these in their path and are
 * answered 404. Money, tenants and real calls are for live keys.
 */
const forbidden = '403 FORBIDDEN';
const withTestKey: Record<string, string> = {
  ...{ listCalls: '200', getCallInsights: '200', listEndpoints: '200', listPhoneNumbers: '200', listTrunks: '200' },
  ...{ listWebhookDeliveries: '200', listApiKeys: '200', getMe: '200', simulateRoute: '200', listOrganizations: '200' },
  ...{ getOrganization: '200', getRates: '200', listLedger: '200', listMembers: '200' },
  ...{ createEndpoint: '201', createPhoneNumber: '201', createTrunk: '201', createApiKey: '201' },
  ...{ createOrganization: forbidden, updateOrganization: forbidden, replaceRates: forbidden, addCredits: forbidden },
  ...{ addMember: forbidden, removeMember: forbidden, listRejectedInvites: forbidden, simulateCall: forbidden },
  ...{ getOverview: '200', searchCalls: '200', exportCalls: '200', createEventToken: '200' },
  getDoctorFindings: forbidden,
  transcribe: '415 UNSUPPORTED_MEDIA_TYPE', // without a form
};

describe('every operation with a test key', () => {
  it('answers of test records alone', async () => {
    const key = await api.addKey({ organizationId: api.a.organizationId, mode: 'test' });
    const live = new Set(Object.entries(ids).flatMap(([kind, id]) => (kind === 'organizations' ? [] : [id])));
    const table: Record<string, string> = {};
    for (const operation of guarded()) {
      if (operation.operationId === 'streamEvents') continue; // has no end
      const { status, body, text } = await ask(operation, { authorization: `Bearer ${key}` });
      table[operation.operationId] = status < 300 ? String(status) : `${status} ${body.code}`;
      for (const id of live) expect(text, where(operation)).not.toContain(id);
    }
    const expected = Object.fromEntries(
      guarded()
        .filter(({ operationId }) => operationId !== 'streamEvents')
        .map(({ operationId }) => [operationId, withTestKey[operationId] ?? '404 NOT_FOUND']),
    );
    expect(table).toEqual(expected);
  });
});
