import type { PhoneNumberChange } from '../../../store/routing/phone-numbers.js';
import type { RouteRule } from '../../../store/routing/route-rule.js';
import type { Store } from '../../../store/store.js';
import { invalid, notFound } from '../../errors.js';
import { presentList, presentPhoneNumber } from '../../present/present.js';
import { phoneNumberOf } from '../../request/phone-number.js';
import { type Route, route } from '../../route.js';
import { targetProblem } from '../../rules/targets.js';
import { createPhoneNumberBody, phoneNumbersQuery, updatePhoneNumberBody } from '../../schemas/phone-numbers.js';
import { idParams, lowerCase, ref } from '../../schemas/types.js';

const tag = 'Phone numbers';

export interface PhoneNumberRoutesOptions {
  store: Store;
  allowPrivateTargets: boolean;
}

export function phoneNumberRoutes({ store, allowPrivateTargets }: PhoneNumberRoutesOptions): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/phone-numbers',
      operationId: 'listPhoneNumbers',
      tag,
      summary: 'List phone numbers',
      description: 'The phone numbers of the organization, newest first.',
      access: 'member',
      query: phoneNumbersQuery,
      answer: { status: 200, description: 'One page of the list.', schema: ref('PhoneNumberList') },
      handle: async ({ query, caller }) => {
        const filter = { endpointId: query.endpoint_id?.toLowerCase(), status: query.status };
        return presentList(await store.phoneNumbers.list(caller.scope, filter, query), query, presentPhoneNumber);
      },
    }),
    route({
      method: 'POST',
      path: '/v1/phone-numbers',
      operationId: 'createPhoneNumber',
      tag,
      summary: 'Add a phone number',
      description:
        'Adds a number that a carrier routes to this server. A number is unique among all organizations, separately for live and test keys.',
      access: 'admin',
      body: createPhoneNumberBody,
      answer: { status: 201, description: 'The phone number.', schema: ref('PhoneNumber') },
      errors: ['INVALID_PHONE_NUMBER', 'NOT_FOUND', 'NUMBER_TAKEN'],
      handle: async ({ body, caller, within }) => {
        const change = changeOf(body, allowPrivateTargets);
        const number = phoneNumberOf(body.number, 'number');
        return presentPhoneNumber(await store.phoneNumbers.create(caller.scope, { ...change, number }, within));
      },
    }),
    route({
      method: 'GET',
      path: '/v1/phone-numbers/:id',
      operationId: 'getPhoneNumber',
      tag,
      summary: 'Get a phone number',
      description: 'One phone number.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The phone number.', schema: ref('PhoneNumber') },
      handle: async ({ params, caller }) => {
        const number = await store.phoneNumbers.get(caller.scope, params.id.toLowerCase());
        if (!number) throw notFound('Phone number');
        return presentPhoneNumber(number);
      },
    }),
    route({
      method: 'PATCH',
      path: '/v1/phone-numbers/:id',
      operationId: 'updatePhoneNumber',
      tag,
      summary: 'Update a phone number',
      description:
        'Changes the given fields; omitted fields keep their value. `routes` is replaced as a whole. The number itself cannot be changed.',
      access: 'admin',
      params: idParams,
      body: updatePhoneNumberBody,
      answer: { status: 200, description: 'The complete record.', schema: ref('PhoneNumber') },
      handle: async ({ params, body, caller }) => {
        const number = await store.phoneNumbers.update(
          caller.scope,
          params.id.toLowerCase(),
          changeOf(body, allowPrivateTargets),
        );
        if (!number) throw notFound('Phone number');
        return presentPhoneNumber(number);
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/phone-numbers/:id',
      operationId: 'deletePhoneNumber',
      tag,
      summary: 'Remove a phone number',
      description:
        'New calls to the number are rejected; running calls continue, and past calls keep the id of the number.',
      access: 'admin',
      params: idParams,
      answer: { status: 204, description: 'The number was removed.', schema: null },
      handle: async ({ params, caller }) => {
        if (!(await store.phoneNumbers.delete(caller.scope, params.id.toLowerCase()))) throw notFound('Phone number');
      },
    }),
  ];
}

interface ChangeBody {
  name?: string;
  endpoint_id?: string | null;
  fallback_endpoint_id?: string | null;
  routes?: RouteRule[];
  status?: 'active' | 'inactive';
  status_callback_url?: string | null;
  status_callback_method?: 'GET' | 'POST';
}

function changeOf(body: ChangeBody, allowPrivate: boolean): PhoneNumberChange {
  body.routes?.forEach((rule, index) => {
    if (rule.schedule && !isTimeZone(rule.schedule.timezone)) {
      throw invalid({ path: `routes.${index}.schedule.timezone`, message: 'must be an IANA time zone' });
    }
  });
  const url = body.status_callback_url;
  const credentialsGo = 'requests are signed with the webhook_secret instead';
  const problem = url ? targetProblem(url, { schemes: ['http', 'https'], allowPrivate, credentialsGo }) : null;
  if (problem !== null) throw invalid({ path: 'status_callback_url', message: problem });
  return {
    name: body.name,
    endpointId: lowerCase(body.endpoint_id),
    fallbackEndpointId: lowerCase(body.fallback_endpoint_id),
    routes: body.routes?.map((rule) => ({ ...rule, endpoint_id: rule.endpoint_id.toLowerCase() })),
    status: body.status,
    statusCallbackUrl: url,
    statusCallbackMethod: body.status_callback_method,
  };
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
