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
      summary: 'Get the caller',
      description:
        'The user of the key or token, the organization this request acts in, and all organizations the caller may act in; for the user of a token, also the open invitations.',
      access: 'member',
      answer: { status: 200, description: 'The caller.', schema: ref('Me') },
      handle: async ({ caller }) => {
        const invitations = caller.person ? await store.invitations.forPerson(caller.person) : [];
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
        "The keys that are limited to this organization and the caller's own keys that are not limited to one, newest first. A test key sees test keys only. The secret keys are not shown again.",
      access: 'admin',
      query: apiKeysQuery,
      answer: { status: 200, description: 'One page of the list.', schema: ref('ApiKeyList') },
      handle: async ({ query, caller }) =>
        presentList(await store.apiKeys.list(scopeOf(caller), query), query, presentApiKey),
    }),
    route({
      method: 'POST',
      path: '/v1/api-keys',
      operationId: 'createApiKey',
      tag,
      summary: 'Create an API key',
      description:
        'Creates a key of the calling user. To rotate a key, create a new one, deploy it, then delete the old one. A key has at most the reach of the key that created it; a test key creates test keys only.',
      access: 'admin',
      body: createApiKeyBody,
      answer: {
        status: 201,
        description: 'The key; the secret is shown only in this response.',
        schema: ref('NewApiKey'),
        shownOnce: ['key'],
      },
      errors: ['NOT_FOUND'],
      handle: async ({ body, caller, within }) => {
        if (body.mode === 'live' && caller.mode === 'test') {
          throw new ApiError('FORBIDDEN', 'A test key can create test keys only');
        }
        const organizationId = reach(caller, body.organization_id?.toLowerCase() ?? null);
        const wanted = { userId: caller.user.id, organizationId, mode: body.mode, name: body.name };
        const { record, key } = await store.apiKeys.create(wanted, within);
        return { ...presentApiKey(record), key };
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/api-keys/:id',
      operationId: 'deleteApiKey',
      tag,
      summary: 'Revoke an API key',
      description: 'The key is rejected from the next request on. A key may revoke itself.',
      access: 'admin',
      params: idParams,
      answer: { status: 204, description: 'The key was revoked.', schema: null },
      handle: async ({ params, caller }) => {
        if (!(await store.apiKeys.revoke(scopeOf(caller), params.id.toLowerCase()))) throw notFound('API key');
      },
    }),
  ];
}

/** Returns the organization that a new key is limited to. */
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
