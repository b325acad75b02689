import type { TrunkScope } from '../../../store/routing/trunks.js';
import type { Store } from '../../../store/store.js';
import type { Caller } from '../../auth/caller.js';
import { ApiError, notFound } from '../../errors.js';
import { presentList, presentTrunk } from '../../present/present.js';
import { type Route, route } from '../../route.js';
import { newTrunk, trunkChange } from '../../rules/trunk-rules.js';
import { createTrunkBody, trunksQuery, updateTrunkBody } from '../../schemas/trunks.js';
import { idParams, ref } from '../../schemas/types.js';

const tag = 'Trunks';

/** `onTrunksChanged` makes the SIP server reload its trunks. */
export function trunkRoutes({
  store,
  onTrunksChanged,
}: {
  store: Store;
  onTrunksChanged: () => void | Promise<void>;
}): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/trunks',
      operationId: 'listTrunks',
      tag,
      summary: 'List trunks',
      description: 'The trunks of the organization, newest first; for the platform owner, shared trunks as well.',
      access: 'member',
      query: trunksQuery,
      answer: { status: 200, description: 'One page of the list.', schema: ref('TrunkList') },
      handle: async ({ query, caller }) =>
        presentList(await store.trunks.list(scopeOf(caller), query, query), query, presentTrunk),
    }),
    route({
      method: 'POST',
      path: '/v1/trunks',
      operationId: 'createTrunk',
      tag,
      summary: 'Add a trunk',
      description:
        'Adds the trunk of a carrier: the source addresses or user that are trusted to send calls, and the gateways that calls are sent to.',
      access: 'admin',
      body: createTrunkBody,
      answer: { status: 201, description: 'The trunk.', schema: ref('Trunk') },
      handle: async ({ body, caller, within, afterwards }) => {
        const { organization_id: organizationId, ...input } = body;
        const shared = organizationId === null;
        const settings = newTrunk(input);
        const scope = scopeOf(caller);
        if (shared && !(scope.shared && scope.mode === 'live')) {
          throw new ApiError('FORBIDDEN', 'Only the platform owner, with a live key, may create a shared trunk');
        }
        const trunk = await store.trunks.create(scope, { ...settings, shared }, within);
        afterwards(onTrunksChanged);
        return presentTrunk(trunk);
      },
    }),
    route({
      method: 'GET',
      path: '/v1/trunks/:id',
      operationId: 'getTrunk',
      tag,
      summary: 'Get a trunk',
      description: 'One trunk, with its password masked.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The trunk.', schema: ref('Trunk') },
      handle: async ({ params, caller }) => {
        const trunk = await store.trunks.get(scopeOf(caller), params.id.toLowerCase());
        if (!trunk) throw notFound('Trunk');
        return presentTrunk(trunk);
      },
    }),
    route({
      method: 'PATCH',
      path: '/v1/trunks/:id',
      operationId: 'updateTrunk',
      tag,
      summary: 'Update a trunk',
      description:
        'Changes the given fields; omitted fields keep their value, and lists are replaced as a whole. Running calls are not affected.',
      access: 'admin',
      params: idParams,
      body: updateTrunkBody,
      answer: { status: 200, description: 'The complete trunk.', schema: ref('Trunk') },
      handle: async ({ params, body, caller }) => {
        const id = params.id.toLowerCase();
        const scope = scopeOf(caller);
        const changed = await store.trunks.update(scope, id, (current) => trunkChange(current, body));
        if (!changed) throw notFound('Trunk');
        await onTrunksChanged();
        return presentTrunk(changed);
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/trunks/:id',
      operationId: 'deleteTrunk',
      tag,
      summary: 'Remove a trunk',
      description: 'The trunk is no longer trusted and no longer used for outbound calls; running calls continue.',
      access: 'admin',
      params: idParams,
      answer: { status: 204, description: 'The trunk was removed.', schema: null },
      handle: async ({ params, caller }) => {
        if (!(await store.trunks.delete(scopeOf(caller), params.id.toLowerCase()))) throw notFound('Trunk');
        await onTrunksChanged();
      },
    }),
  ];
}

function scopeOf(caller: Caller): TrunkScope {
  return { ...caller.scope, shared: caller.user.platformOwner };
}
