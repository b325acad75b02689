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

/** `onTrunksChanged`: the SIP side reads its trunks again. */
export function trunkRoutes({ store, onTrunksChanged }: { store: Store; onTrunksChanged: () => void }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/trunks',
      operationId: 'listTrunks',
      tag,
      summary: 'List trunks',
      description: 'The carriers of the organization, newest first; for the platform owner also those that all share.',
      access: 'member',
      query: trunksQuery,
      answer: { status: 200, description: 'A part of the list.', schema: ref('TrunkList') },
      handle: ({ query, caller }) => presentList(store.trunks.list(scopeOf(caller), query, query), query, presentTrunk),
    }),
    route({
      method: 'POST',
      path: '/v1/trunks',
      operationId: 'createTrunk',
      tag,
      summary: 'Add a trunk',
      description:
        'A carrier: which addresses or user are trusted to send calls, and which gateways calls are sent to.',
      access: 'admin',
      body: createTrunkBody,
      answer: { status: 201, description: 'The trunk.', schema: ref('Trunk') },
      handle: ({ body, caller }) => {
        const { organization_id: organizationId, ...input } = body;
        const shared = organizationId === null;
        const settings = newTrunk(input);
        const scope = scopeOf(caller);
        if (shared && !(scope.shared && scope.mode === 'live')) {
          throw new ApiError('FORBIDDEN', 'Only the platform owner, with a live key, makes trunks that all share');
        }
        const trunk = store.trunks.create(scope, { ...settings, shared });
        onTrunksChanged();
        return presentTrunk(trunk);
      },
    }),
    route({
      method: 'GET',
      path: '/v1/trunks/:id',
      operationId: 'getTrunk',
      tag,
      summary: 'Get a trunk',
      description: 'One trunk, its password masked.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The trunk.', schema: ref('Trunk') },
      handle: ({ params, caller }) => {
        const trunk = store.trunks.get(scopeOf(caller), params.id.toLowerCase());
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
        'Fields that are left out stay as they are; lists are replaced as a whole. Calls that run are not disturbed.',
      access: 'admin',
      params: idParams,
      body: updateTrunkBody,
      answer: { status: 200, description: 'The whole trunk.', schema: ref('Trunk') },
      handle: ({ params, body, caller }) => {
        const id = params.id.toLowerCase();
        const scope = scopeOf(caller);
        const changed = store.transaction(() => {
          const current = store.trunks.get(scope, id);
          return current && store.trunks.update(scope, id, trunkChange(current, body));
        });
        if (!changed) throw notFound('Trunk');
        onTrunksChanged();
        return presentTrunk(changed);
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/trunks/:id',
      operationId: 'deleteTrunk',
      tag,
      summary: 'Remove a trunk',
      description: 'It is no longer trusted and no longer dialled; calls that run go on.',
      access: 'admin',
      params: idParams,
      answer: { status: 204, description: 'The trunk is gone.', schema: null },
      handle: ({ params, caller }) => {
        if (!store.trunks.delete(scopeOf(caller), params.id.toLowerCase())) throw notFound('Trunk');
        onTrunksChanged();
      },
    }),
  ];
}

function scopeOf(caller: Caller): TrunkScope {
  return { ...caller.scope, shared: caller.user.platformOwner };
}
