import type { Store } from '../../../store/store.js';
import type { KeyScope } from '../../../store/tenants/api-keys.js';
import { type Caller, mayDo } from '../../auth/caller.js';
import { ApiError, notFound } from '../../errors.js';
import { presentApiKey, presentList, presentMe } from '../../present/present.js';
import { type Route, route } from '../../route.js';
import { apiKeysQuery, createApiKeyBody } from '../../schemas/account.js';
import { idParams, ref } from '../../schemas/types.js';

const tag = 'Account';

export function accountRoutes({ store }: { store: Store }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/me',
      operationId: 'getMe',
      tag,
      summary: 'Who am I',
      description:
        'The user of the key, the organization this request acts in, and all the key may act in; for the user of a token also the invitations that wait for them.',
      access: 'member',
      answer: { status: 200, description: 'The caller.', schema: ref('Me') },
      handle: ({ caller }) => {
        const invitations = caller.person ? store.invitations.forPerson(caller.person) : [];
        return presentMe(
          caller,
          invitations.flatMap((invitation) => {
            const organization = store.organizations.get(invitation.organizationId);
            return organization ? [{ invitation, organization }] : [];
          }),
        );
      },
    }),
    route({
      method: 'GET',
      path: '/v1/api-keys',
      operationId: 'listApiKeys',
      tag,
      summary: 'List API keys',
      description:
        "The keys limited to this organization and the caller's own that are limited to none, newest first. A test key sees test keys only. The keys themselves are never shown again.",
      access: 'admin',
      query: apiKeysQuery,
      answer: { status: 200, description: 'A part of the list.', schema: ref('ApiKeyList') },
      handle: ({ query, caller }) => presentList(store.apiKeys.list(scopeOf(caller), query), query, presentApiKey),
    }),
    route({
      method: 'POST',
      path: '/v1/api-keys',
      operationId: 'createApiKey',
      tag,
      summary: 'Make an API key',
      description:
        "A key of the caller's own user. To rotate: make the new key, use it everywhere, then delete the old one. A key never reaches further than the one that made it; a test key makes test keys only.",
      access: 'admin',
      body: createApiKeyBody,
      answer: {
        status: 201,
        description: 'The key, shown this once.',
        schema: ref('NewApiKey'),
        shownOnce: ['key'],
      },
      errors: ['NOT_FOUND'],
      handle: ({ body, caller }) => {
        if (body.mode === 'live' && caller.mode === 'test') {
          throw new ApiError('FORBIDDEN', 'A test key makes test keys only');
        }
        const { record, key } = store.apiKeys.create({
          userId: caller.user.id,
          organizationId: reach(caller, body.organization_id?.toLowerCase() ?? null),
          mode: body.mode,
          name: body.name,
        });
        return { ...presentApiKey(record), key };
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/api-keys/:id',
      operationId: 'deleteApiKey',
      tag,
      summary: 'Revoke an API key',
      description: 'The key is refused from the next request on; also the one that asks for it.',
      access: 'admin',
      params: idParams,
      answer: { status: 204, description: 'The key is revoked.', schema: null },
      handle: ({ params, caller }) => {
        if (!store.apiKeys.revoke(scopeOf(caller), params.id.toLowerCase())) throw notFound('API key');
      },
    }),
  ];
}

/** The organization a new key is limited to. */
function reach(caller: Caller, asked: string | null): string | null {
  if (asked === null) return caller.key?.organizationId ?? null;
  const membership = caller.memberships.find(({ organization }) => organization.id === asked);
  if (!membership) throw notFound('Organization');
  if (!mayDo(membership.role, 'admin')) throw new ApiError('FORBIDDEN');
  return asked;
}

function scopeOf({ user, scope, key }: Caller): KeyScope {
  // A key limited to one organization must not manage the user's wider keys.
  return { ...scope, userId: key?.organizationId ? '' : user.id };
}
