import type { Store } from '../../../store/store.js';
import type { Caller } from '../../auth/caller.js';
import { membershipIn } from '../../auth/membership.js';
import { ApiError, invalid, notFound } from '../../errors.js';
import { presentList, presentMember } from '../../present/present.js';
import { type Route, route } from '../../route.js';
import { addMemberBody, memberParams, sliceOnlyQuery } from '../../schemas/organizations.js';
import { idParams, ref } from '../../schemas/types.js';

const tag = 'Organizations';

export function memberRoutes({ store }: { store: Store }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/organizations/:id/members',
      operationId: 'listMembers',
      tag,
      summary: 'List members',
      description: 'The members of the organization and its open invitations, newest first.',
      access: 'member',
      params: idParams,
      query: sliceOnlyQuery,
      answer: { status: 200, description: 'One page of the list.', schema: ref('MemberList') },
      handle: async ({ params, query, caller }) => {
        const { organization } = membershipIn(caller, params.id);
        return presentList(await store.organizations.members(organization.id, query), query, presentMember);
      },
    }),
    route({
      method: 'POST',
      path: '/v1/organizations/:id/members',
      operationId: 'addMember',
      tag,
      summary: 'Invite a member',
      description:
        'Creates an invitation by the `sub` of the tokens of a user or by email address. It is valid for 14 days; a later invitation of the same user replaces it. The user accepts it by signing in: with the first request of the token if the user has no organization yet, otherwise with a request that names this organization in `x-organization-id` (`GET /v1/me` lists open invitations). The response is the same whether or not such a user exists. A user who has API keys only, without tokens, cannot be invited.',
      access: 'owner',
      params: idParams,
      body: addMemberBody,
      answer: { status: 201, description: 'The invitation.', schema: ref('Member') },
      errors: ['MEMBER_EXISTS'],
      handle: ({ params, body, caller, within }) => {
        const { organization } = membershipIn(caller, params.id, 'owner');
        liveKey(caller);
        const { subject = null, email = null, role, name = null } = body;
        if ((subject === null) === (email === null))
          throw invalid({ path: 'subject', message: 'or email is required, but not both' });
        return store.transaction(async (transaction) => {
          const user = subject === null ? undefined : await store.organizations.userBySubject(subject, transaction);
          // An organization may learn about its own members, but not about other users.
          if (user && (await store.organizations.member(organization.id, user.id, transaction)))
            throw new ApiError('MEMBER_EXISTS', undefined, { user_id: user.id });
          const invited = { organizationId: organization.id, subject, email, role, name };
          const invitation = await store.invitations.create(invited, transaction);
          return presentMember({
            ...invitation,
            userId: null,
            name: name ?? invitation.email ?? invitation.subject ?? '',
            joinedAt: null,
          });
        }, within);
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/organizations/:id/members/:member_id',
      operationId: 'removeMember',
      tag,
      summary: 'Remove a member, or withdraw an invitation',
      description:
        'The keys and tokens of the member no longer give access to the organization, and open streams end. The last owner cannot be removed.',
      access: 'owner',
      params: memberParams,
      answer: { status: 204, description: 'The member was removed, or the invitation was withdrawn.', schema: null },
      errors: ['LAST_OWNER'],
      handle: async ({ params, caller }) => {
        const { organization } = membershipIn(caller, params.id, 'owner');
        liveKey(caller);
        const id = params.member_id.toLowerCase();
        if (await store.invitations.remove(organization.id, id)) return;
        const outcome = await store.organizations.removeMember(organization.id, id);
        if (outcome === 'not_found') throw notFound('Member');
        if (outcome === 'last_owner') throw new ApiError('LAST_OWNER');
      },
    }),
  ];
}

function liveKey({ mode }: Caller): void {
  if (mode !== 'live') throw new ApiError('FORBIDDEN', 'This operation requires a live key');
}
