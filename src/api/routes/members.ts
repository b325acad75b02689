import type { Store } from '../../store/store.js';
import type { Caller } from '../caller.js';
import { ApiError, invalid, notFound } from '../errors.js';
import { membershipIn } from '../membership.js';
import { presentList, presentMember } from '../present.js';
import { type Route, route } from '../route.js';
import { addMemberBody, memberParams, sliceOnlyQuery } from '../schemas/organizations.js';
import { idParams, ref } from '../schemas/words.js';

const tag = 'Organizations';

export function memberRoutes({ store }: { store: Store }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/organizations/:id/members',
      operationId: 'listMembers',
      tag,
      summary: 'List members',
      description: 'Who belongs to the organization, who joined last first.',
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
      summary: 'Add a member',
      description:
        'By the `sub` of their tokens, which makes the user when there is none, or by the id of a user that exists.',
      access: 'owner',
      params: idParams,
      body: addMemberBody,
      answer: { status: 201, description: 'The member.', schema: ref('Member') },
      errors: ['MEMBER_EXISTS'],
      handle: ({ params, body, caller }) => {
        const { organization } = membershipIn(caller, params.id, 'owner');
        liveKey(caller);
        if ((body.subject === undefined) === (body.user_id === undefined))
          throw invalid({ path: 'subject', message: 'or user_id must be given, and not both' });
        return store.transaction(() => {
          const user =
            body.subject === undefined
              ? store.organizations.user(body.user_id?.toLowerCase() ?? '')
              : (store.organizations.userBySubject(body.subject) ??
                store.organizations.createUser({ name: body.name ?? body.subject, subject: body.subject }));
          if (!user) throw notFound('User');
          if (store.organizations.member(organization.id, user.id))
            throw new ApiError('MEMBER_EXISTS', undefined, { user_id: user.id });
          store.organizations.addMember(organization.id, user.id, body.role);
          const member = store.organizations.member(organization.id, user.id);
          if (!member) throw new Error('a member that was added is not there');
          return presentMember(member);
        });
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/organizations/:id/members/:user_id',
      operationId: 'removeMember',
      tag,
      summary: 'Remove a member',
      description: 'Their keys and tokens no longer act in the organization. The last owner stays.',
      access: 'owner',
      params: memberParams,
      answer: { status: 204, description: 'They are no longer a member.', schema: null },
      errors: ['LAST_OWNER'],
      handle: ({ params, caller }) => {
        const { organization } = membershipIn(caller, params.id, 'owner');
        liveKey(caller);
        const outcome = store.organizations.removeMember(organization.id, params.user_id.toLowerCase());
        if (outcome === 'not_found') throw notFound('Member');
        if (outcome === 'last_owner') throw new ApiError('LAST_OWNER');
      },
    }),
  ];
}

function liveKey({ mode }: Caller): void {
  if (mode !== 'live') throw new ApiError('FORBIDDEN', 'This needs a live key');
}
