import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import type { Store } from '../../../store/store.js';
import { invalid, notFound } from '../../errors.js';
import { presentEndpoint, presentList, presentSigned } from '../../present/present.js';
import { type Route, route } from '../../route.js';
import { endpointChange, newEndpoint } from '../../rules/endpoint-rules.js';
import type { EndpointRules } from '../../rules/provider-config.js';
import { createEndpointBody, endpointsQuery, updateEndpointBody } from '../../schemas/endpoints.js';
import { idParams, lowerCase, ref } from '../../schemas/types.js';

const tag = 'Endpoints';

export function endpointRoutes({
  store,
  allowPrivateTargets,
}: {
  store: Store;
  allowPrivateTargets: boolean;
}): Route[] {
  const rules: EndpointRules = { allowPrivate: allowPrivateTargets };
  return [
    route({
      method: 'GET',
      path: '/v1/endpoints',
      operationId: 'listEndpoints',
      tag,
      summary: 'List endpoints',
      description: 'The routing targets of the organization, newest first.',
      access: 'member',
      query: endpointsQuery,
      answer: { status: 200, description: 'One page of the list.', schema: ref('EndpointList') },
      handle: async ({ query, caller }) =>
        presentList(await store.endpoints.list(caller.scope, query, query), query, presentEndpoint),
    }),
    route({
      method: 'POST',
      path: '/v1/endpoints',
      operationId: 'createEndpoint',
      tag,
      summary: 'Create an endpoint',
      description:
        'Creates a voice agent that is reached over WebSocket or SIP, or a webhook on your own HTTP server. `type` and `provider` cannot be changed later.',
      access: 'admin',
      body: createEndpointBody,
      answer: {
        status: 201,
        description: 'The endpoint. For a webhook it contains the secret, which is shown once.',
        schema: ref('NewEndpoint'),
        shownOnce: ['webhook_secret'],
      },
      errors: ['NOT_FOUND'],
      handle: async ({ body, caller, within }) => {
        const input = { ...body, fallback_endpoint_id: lowerCase(body.fallback_endpoint_id) };
        const { record, webhookSecret } = await store.endpoints.create(caller.scope, newEndpoint(input, rules), within);
        return {
          ...presentSigned(record, webhookSecret),
          ...(webhookSecret !== null && { webhook_secret: webhookSecret }),
        };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/endpoints/:id',
      operationId: 'getEndpoint',
      tag,
      summary: 'Get an endpoint',
      description: 'One endpoint, with its secrets masked.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The endpoint.', schema: ref('Endpoint') },
      handle: async ({ params, caller }) => {
        const endpoint = await store.endpoints.get(caller.scope, params.id.toLowerCase());
        if (!endpoint) throw notFound('Endpoint');
        return presentSigned(endpoint, store.endpoints.getForCall(endpoint.id)?.webhookSecret);
      },
    }),
    route({
      method: 'PATCH',
      path: '/v1/endpoints/:id',
      operationId: 'updateEndpoint',
      tag,
      summary: 'Update an endpoint',
      description:
        'Changes the given fields; omitted fields keep their value. `provider_config` is a JSON Merge Patch (RFC 7396). Running calls are not affected.',
      access: 'admin',
      params: idParams,
      body: updateEndpointBody,
      answer: { status: 200, description: 'The complete endpoint.', schema: ref('Endpoint') },
      handle: async ({ params, body, caller }) => {
        const input = { ...body, fallback_endpoint_id: lowerCase(body.fallback_endpoint_id) };
        const endpoint = await store.endpoints.update(caller.scope, params.id.toLowerCase(), (current) =>
          endpointChange(current, input, rules),
        );
        if (!endpoint) throw notFound('Endpoint');
        return presentSigned(endpoint, store.endpoints.getForCall(endpoint.id)?.webhookSecret);
      },
    }),
    route({
      method: 'POST',
      path: '/v1/endpoints/:id/rotate-secret',
      operationId: 'rotateEndpointSecret',
      tag,
      summary: 'Rotate the secret of a webhook',
      description:
        'Creates a new secret for a webhook endpoint and returns it once. For 24 hours requests are signed with both secrets (`webhook-signature` carries both signatures); `X-Twilio-Signature` uses the new secret at once.',
      access: 'admin',
      params: idParams,
      answer: { status: 200, description: 'The endpoint with its new secret.', schema: ref('NewEndpoint') },
      handle: async ({ params, caller }) => {
        const id = params.id.toLowerCase();
        const rotated = await store.endpoints.rotateSecret(caller.scope, id);
        if (rotated)
          return { ...presentSigned(rotated.record, rotated.webhookSecret), webhook_secret: rotated.webhookSecret };
        if (!(await store.endpoints.get(caller.scope, id))) throw notFound('Endpoint');
        throw invalid({ path: 'id', message: 'is not a webhook endpoint' });
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/endpoints/:id',
      operationId: 'deleteEndpoint',
      tag,
      summary: 'Delete an endpoint',
      description:
        'Phone numbers of the endpoint receive no calls until they get another endpoint. Running calls continue; past calls keep the id of the endpoint.',
      access: 'admin',
      params: idParams,
      answer: { status: 204, description: 'The endpoint was deleted.', schema: null },
      handle: async ({ params, caller }) => {
        const id = params.id.toLowerCase();
        while (await store.webhookDeliveries.forgetSome(caller.scope, id)) await turnOfTheLoop();
        if (!(await store.endpoints.delete(caller.scope, id))) throw notFound('Endpoint');
      },
    }),
  ];
}
