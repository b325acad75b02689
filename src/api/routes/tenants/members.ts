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
      description: 'Who belongs to the organization, and who is invited; the latest first.',
      access: 'member',
      params: idParams,
      query: sliceOnlyQuery,
      answer: { status: 200, description: 'A part of the list.', schema: ref('MemberList') },
      handle: ({ params, query, caller }) => {
        const { organization } = membershipIn(caller, params.id);
        return presentList(store.organizations.members(organization.id, query), query, presentMember);
      },
    }),
    route({
      method: 'POST',
      path: '/v1/organizations/:id/members',
      operationId: 'addMember',
      tag,
      summary: 'Invite a member',
      description:
        'An invitation, by the `sub` of their tokens or by their email address, good for 14 days; a later one for the same person takes its place. They accept it by signing in: with the first request of their token if they belong to no organization yet, else with a request that names this one in `x-organization-id` (`GET /v1/me` shows them what waits). The answer is the same whether there is such a user or not. A user who has keys only, and no token, cannot be invited.',
      access: 'owner',
      params: idParams,
      body: addMemberBody,
      answer: { status: 201, description: 'The invitation.', schema: ref('Member') },
      errors: ['MEMBER_EXISTS'],
      handle: ({ params, body, caller }) => {
        const { organization } = membershipIn(caller, params.id, 'owner');
        liveKey(caller);
        const { subject = null, email = null, role, name = null } = body;
        if ((subject === null) === (email === null))
          throw invalid({ path: 'subject', message: 'or email must be given, and not both' });
        return store.transaction(() => {
          const user = subject === null ? undefined : store.organizations.userBySubject(subject);
          // Of their own members an organization may know; of others it learns nothing.
          if (user && store.organizations.member(organization.id, user.id))
            throw new ApiError('MEMBER_EXISTS', undefined, { user_id: user.id });
          const invitation = store.invitations.create({ organizationId: organization.id, subject, email, role, name });
          return presentMember({
            ...invitation,
            userId: null,
            name: name ?? invitation.email ?? invitation.subject ?? '',
            joinedAt: null,
          });
        });
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/organizations/:id/members/:member_id',
      operationId: 'removeMember',
      tag,
      summary: 'Remove a member, or withdraw an invitation',
      description:
        'Their keys and tokens no longer act in the organization, and their open streams end. The last owner stays.',
      access: 'owner',
      params: memberParams,
      answer: { status: 204, description: 'They are no longer a member, or no longer invited.', schema: null },
      errors: ['LAST_OWNER'],
      handle: ({ params, caller }) => {
        const { organization } = membershipIn(caller, params.id, 'owner');
        liveKey(caller);
        const id = params.member_id.toLowerCase();
        if (store.invitations.remove(organization.id, id)) return;
        const outcome = store.organizations.removeMember(organization.id, id);
        if (outcome === 'not_found') throw notFound('Member');
        if (outcome === 'last_owner') throw new ApiError('LAST_OWNER');
      },
    }),
  ];
}

function liveKey({ mode }: Caller): void {
  if (mode !== 'live') throw new ApiError('FORBIDDEN', 'This needs a live key');
}
