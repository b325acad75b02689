import type { JWTPayload } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';
import { type IdentityProvider, identityProvider } from '../support/identity-provider.js';

/** Nobody becomes a member but by accepting an invitation, and an invitation tells nothing of users elsewhere. */

let api: TestApi;
let provider: IdentityProvider;
beforeEach(async () => {
  provider = await identityProvider();
  api = await testApi({ tokens: provider.settings });
});
afterEach(async () => {
  provider.close();
  await api.close();
});

const members = () => `/v1/organizations/${api.a.organizationId}/members`;
const invite = (body: object) => api.request('POST', members(), { body: { role: 'admin', ...body } });
const me = async (claims: JWTPayload & { sub: string }, organizationId?: string) =>
  api.request('GET', '/v1/me', {
    key: await provider.token(claims, api.clock.now()),
    headers: organizationId === undefined ? {} : { 'x-organization-id': organizationId },
  });
/** A user of organization B, with a token of their own. */
const userOfB = async (subject: string) => {
  const user = await api.store.organizations.createUser({ name: 'Eve of B', subject });
  await api.store.organizations.addMember(api.b.organizationId, user.id, 'member');
  return user;
};

describe('an invitation', () => {
  it('answers the same for a user of another tenant as for one that does not exist', async () => {
    const eve = await userOfB('eve');
    const [known, unknown] = [await invite({ subject: 'eve' }), await invite({ subject: 'nil' })];
    const plain = ({ status, body, text }: typeof known) => {
      expect(text).not.toContain(eve.id);
      expect(text).not.toContain('Eve of B');
      return { status, ...body, id: '', name: '', subject: '' };
    };
    expect(plain(known)).toEqual(plain(unknown));
    expect(known.body).toMatchObject({ status: 'invited', user_id: null, name: 'eve', role: 'admin', joined_at: null });
    expect(known.body.expires_at).toBe('2026-01-29T12:00:00.000Z');
    const { body: list } = await api.request('GET', members());
    expect(list).toMatchObject({
      total: 3,
      data: [{ status: 'invited' }, { status: 'invited' }, { status: 'active' }],
    });
    expect(JSON.stringify(list)).not.toContain('Eve of B');
    // Not by the id of a user either.
    expect((await invite({ user_id: eve.id })).status).toBe(400);
    expect(await api.store.organizations.memberships(eve.id)).toHaveLength(1);
  });

  it('of a user of another tenant is accepted only by naming the organization', async () => {
    const eve = await userOfB('eve');
    await invite({ subject: 'eve' });
    const before = await me({ sub: 'eve' });
    expect(before.body.organizations).toHaveLength(1);
    expect(before.body.invitations).toEqual([
      { organization: { id: api.a.organizationId, name: 'A' }, role: 'admin', expires_at: '2026-01-29T12:00:00.000Z' },
    ]);
    expect((await api.request('GET', members())).body.data[0]).toMatchObject({ status: 'invited', user_id: null });
    api.clock.advance(1); // the order of joining is told by milliseconds
    const accepted = await me({ sub: 'eve' }, api.a.organizationId);
    expect([accepted.status, accepted.body.role, accepted.body.organization.id]).toEqual([
      200,
      'admin',
      api.a.organizationId,
    ]);
    expect(accepted.body.invitations).toEqual([]);
    expect((await api.request('GET', members())).body.data.map((each: { id: string }) => each.id)).toContain(eve.id);
    // The first organization stays the first.
    expect((await me({ sub: 'eve' })).body.organization.id).toBe(api.b.organizationId);
  });

  it('of a new user is accepted by signing in', async () => {
    expect((await me({ sub: 'ada' })).status).toBe(403);
    await invite({ subject: 'ada', name: 'Ada' });
    const answer = await me({ sub: 'ada' });
    expect([answer.status, answer.body.user.name, answer.body.role]).toEqual([200, 'Ada', 'admin']);
    expect((await api.request('GET', members())).body.data).toMatchObject([
      { name: 'Ada', subject: 'ada', status: 'active', role: 'admin' },
      { role: 'owner' },
    ]);
  });

  it('by email needs an address that the identity provider has verified', async () => {
    await invite({ email: 'Ada@Example.com' });
    expect((await me({ sub: 'ada', email: 'ada@example.com' })).status).toBe(403);
    expect((await me({ sub: 'ada', email: 'ada@example.com', email_verified: false })).status).toBe(403);
    expect((await me({ sub: 'ada', email: 'eve@example.com', email_verified: true })).status).toBe(403);
    expect((await me({ sub: 'ada', email: 'ada@example.COM', email_verified: true })).status).toBe(200);
    expect((await me({ sub: 'eve', email: 'ada@example.com', email_verified: true })).status).toBe(403); // used up
  });

  it('ends after 14 days, when it is withdrawn, and when a later one takes its place', async () => {
    await invite({ subject: 'late' });
    api.clock.set(api.clock.now() + 14 * 86_400_000);
    expect((await me({ sub: 'late' })).status).toBe(403);
    const { body } = await invite({ subject: 'ada' });
    expect((await api.request('DELETE', `${members()}/${body.id}`, { key: api.b.key })).status).toBe(404);
    expect((await api.request('DELETE', `${members()}/${body.id}`)).status).toBe(204);
    expect((await me({ sub: 'ada' })).status).toBe(403);
    await invite({ subject: 'ada', role: 'owner' });
    await invite({ subject: 'ada', role: 'member' });
    expect((await me({ sub: 'ada' })).body.role).toBe('member');
  });

  it('is for its own organization alone, and a key accepts none', async () => {
    const eve = await userOfB('eve');
    await invite({ subject: 'eve' });
    const { key } = await api.store.apiKeys.create({ userId: eve.id, organizationId: null, mode: 'live', name: 'K' });
    const headers = { 'x-organization-id': api.a.organizationId };
    expect((await api.request('GET', '/v1/me', { key, headers })).status).toBe(403);
    expect((await api.request('GET', '/v1/me', { key })).body.invitations).toEqual([]);
    const other = await api.store.organizations.create({ name: 'Other', tier: 'free' });
    expect((await me({ sub: 'eve' }, other.id)).status).toBe(403);
    expect(await api.store.organizations.memberships(eve.id)).toHaveLength(1);
  });
});
