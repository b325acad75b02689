import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

let api: TestApi;
beforeEach(async () => {
  api = await testApi();
});
afterEach(() => api.close());

const noLimits = {
  requests_per_second: null,
  requests_per_day: null,
  concurrent_calls: null,
  calls_per_second: null,
  daily_spend_cents: null,
  allowed_prefixes: null,
  call_retention_days: null,
};
const make = async (body: object = { name: 'New' }) => (await api.request('POST', '/v1/organizations', { body })).body;

describe('organizations', () => {
  it('are made, shown and changed by the platform owner', async () => {
    const made = await api.request('POST', '/v1/organizations', {
      body: { name: 'New', limits: { concurrent_calls: 3 } },
    });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      id: made.body.id,
      name: 'New',
      tier: 'free',
      limits: { ...noLimits, concurrent_calls: 3 },
      balance_cents: 0,
      held_cents: 0,
      created_at: '2026-01-15T12:00:00.000Z',
    });
    const changed = await api.request('PATCH', `/v1/organizations/${made.body.id}`, {
      body: { tier: 'pro', limits: { allowed_prefixes: ['+49'] } },
    });
    expect(changed.body).toMatchObject({
      name: 'New',
      tier: 'pro',
      limits: { concurrent_calls: 3, allowed_prefixes: ['+49'] },
    });
    const list = await api.request('GET', '/v1/organizations?limit=1');
    expect(list.body).toMatchObject({ total: 2, limit: 1, offset: 0, data: [changed.body] });
    expect((await api.request('GET', `/v1/organizations/${made.body.id}`, { key: api.b.key })).status).toBe(404);
    // The platform owner is its owner, but their first organization stays the first.
    expect((await api.request('GET', '/v1/me')).body.organization.id).toBe(api.a.organizationId);
  });

  it('nobody else makes or changes them, and no test key', async () => {
    const test = (
      await api.store.apiKeys.create({ userId: api.a.userId, organizationId: null, mode: 'test', name: 'T' })
    ).key;
    const own = `/v1/organizations/${api.b.organizationId}`;
    const asked: [string, string, object | undefined, string][] = [
      ['POST', '/v1/organizations', { name: 'X' }, api.b.key],
      ['PATCH', own, { tier: 'enterprise' }, api.b.key],
      ['PUT', `${own}/rates`, { rates: [] }, api.b.key],
      ['POST', `${own}/credits`, { amount_cents: 1, note: '' }, api.b.key],
      ['GET', '/v1/rejected-invites', undefined, api.b.key],
      ['POST', '/v1/organizations', { name: 'X' }, test],
      ['GET', '/v1/rejected-invites', undefined, test],
      ['POST', `/v1/organizations/${api.a.organizationId}/members`, { subject: 's', role: 'member' }, test],
    ];
    for (const [method, url, body, key] of asked) {
      const answer = await api.request(method, url, { body, key });
      expect([answer.status, answer.body.code], `${method} ${url}`).toEqual([403, 'FORBIDDEN']);
    }
  });

  it('have a rate card and credits', async () => {
    const { id } = await make();
    const rate = {
      direction: 'outbound',
      prefix: '49',
      rate_cents_per_minute: 1.25,
      initial_increment_s: 60,
      increment_s: 1,
    };
    const put = await api.request('PUT', `/v1/organizations/${id}/rates`, { body: { rates: [rate] } });
    expect([put.status, put.body]).toEqual([200, { rates: [rate] }]);
    expect((await api.request('GET', `/v1/organizations/${id}/rates`)).body).toEqual({ rates: [rate] });
    for (const wrong of [
      [rate, rate],
      [{ ...rate, rate_cents_per_minute: 0.0000001 }],
      [{ ...rate, rate_cents_per_minute: 1e300 }],
      [{ ...rate, prefix: '+49' }],
    ])
      expect((await api.request('PUT', `/v1/organizations/${id}/rates`, { body: { rates: wrong } })).status).toBe(400);
    const added = await api.request('POST', `/v1/organizations/${id}/credits`, {
      body: { amount_cents: 500.5, note: 'n' },
    });
    expect([added.status, added.body]).toMatchObject([
      201,
      { kind: 'credit', amount_cents: 500.5, balance_cents: 500.5 },
    ]);
    expect((await api.request('GET', `/v1/organizations/${id}`)).body.balance_cents).toBe(500.5);
    expect((await api.request('GET', `/v1/organizations/${id}/ledger`)).body).toMatchObject({
      total: 1,
      data: [added.body],
    });
  });

  it('have members with roles, and keep an owner', async () => {
    const { id } = await make();
    const members = `/v1/organizations/${id}/members`;
    const ada = await api.store.organizations.createUser({ name: 'Ada', subject: 'idp|7' });
    await api.store.organizations.addMember(id, ada.id, 'admin');
    const again = await api.request('POST', members, { body: { subject: 'idp|7', role: 'member' } });
    expect([again.status, again.body.code, again.body.details]).toEqual([409, 'MEMBER_EXISTS', { user_id: ada.id }]);
    for (const wrong of [{}, { subject: 'a', email: 'a@example.com' }, { email: 'nowhere' }, { user_id: ada.id }])
      expect((await api.request('POST', members, { body: { role: 'member', ...wrong } })).status).toBe(400);
    const { key } = await api.store.apiKeys.create({ userId: ada.id, organizationId: id, mode: 'live', name: 'K' });
    expect((await api.request('POST', members, { key, body: { subject: 'x', role: 'member' } })).status).toBe(403);
    expect((await api.request('GET', members, { key })).body.data.map((m: { role: string }) => m.role).sort()).toEqual([
      'admin',
      'owner',
    ]);
    expect((await api.request('DELETE', `${members}/${ada.id}`)).status).toBe(204);
    expect((await api.request('GET', '/v1/me', { key })).status).toBe(401);
    const last = await api.request('DELETE', `${members}/${api.a.userId}`);
    expect([last.status, last.body.code]).toEqual([409, 'LAST_OWNER']);
  });

  it('do not see the INVITEs of strangers; the platform owner does', async () => {
    for (let n = 0; n < 3; n += 1)
      api.store.rejectedInvites.add({
        sip_call_id: `c${n}`,
        from_number: '100',
        to_number: '900',
        transport: 'udp',
        address: '192.0.2.7',
        port: 5060,
        sip_status: 403,
        cause: 'blocked_source',
      });
    const newest = () => api.request('GET', '/v1/rejected-invites?limit=2');
    // they are queued, not waited for
    await expect.poll(async () => (await newest()).body).toMatchObject({ total: 3, limit: 2, offset: 0 });
    const list = await newest();
    expect(list.body.data.map((invite: { sip_call_id: string }) => invite.sip_call_id)).toEqual(['c2', 'c1']);
  });
});
