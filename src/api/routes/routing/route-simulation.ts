import ipaddr from 'ipaddr.js';
import { route as decide, type RouteLookup } from '../../../call/routing/router.js';
import type { Store } from '../../../store/store.js';
import { invalid } from '../../errors.js';
import { phoneNumberOf } from '../../request/phone-number.js';
import { type Route, route } from '../../route.js';
import { body, nullable, oneOf, ref, Type, uuid } from '../../schemas/types.js';

const simulateBody = body({
  from: Type.String({ minLength: 1, maxLength: 64, description: 'The calling number, or `anonymous`.' }),
  to: Type.String({ maxLength: 64, description: 'The dialled number.' }),
  source_ip: Type.Optional(
    Type.String({
      maxLength: 45,
      description: 'The source address of the call. Default: the address of a trusted trunk.',
    }),
  ),
  at: Type.Optional(Type.String({ format: 'date-time', description: 'The time of the call. Default: now.' })),
});

const simulation = Type.Object(
  {
    decision: oneOf(['connect', 'refuse', 'unknown'], { description: 'The routing decision.' }),
    phone_number_id: nullable<string>(uuid('The called number, if it belongs to the organization.')),
    endpoint_ids: Type.Array(uuid('An endpoint.'), {
      description: 'The endpoints in the order in which they are tried.',
    }),
    hangup_cause: nullable<string>(Type.String({ description: 'Why the call would be rejected.' })),
    rules: Type.Array(
      Type.Object({
        rule: Type.String({ description: 'The rule, such as `routes[0]`.' }),
        verdict: oneOf(['matched', 'skipped', 'refused']),
        detail: Type.String({ description: 'Why.' }),
      }),
      { description: 'Every rule that was evaluated, in order.' },
    ),
  },
  { $id: 'RouteSimulation', additionalProperties: false },
);
export const routeSchemas = [simulation];

export function simulateRoutes({ store, now }: { store: Store; now: () => number }): Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/routes/simulate',
      operationId: 'simulateRoute',
      tag: 'Phone numbers',
      summary: 'Simulate the routing of a call',
      description:
        'Evaluates the routing rules as for a real call and returns the result of each. Where rules share calls by weight, each request draws anew. No call is placed and no record is created.',
      access: 'member',
      body: simulateBody,
      answer: { status: 200, description: 'The decision.', schema: ref('RouteSimulation') },
      errors: ['INVALID_PHONE_NUMBER'],
      handle: async ({ body: asked, caller }) => {
        const { organizationId, mode } = caller.scope;
        const source = asked.source_ip === undefined ? null : await sourceRule(store, organizationId, asked.source_ip);
        const lookup: RouteLookup = {
          findDialled: (number, inMode) => store.phoneNumbers.findDialled(number, inMode),
          getForCall: (id) => store.endpoints.getForCall(id),
        };
        const question = {
          dialled: phoneNumberOf(asked.to, 'to'),
          from: asked.from,
          // As from a trunk of the organization, which does not reach numbers of other organizations.
          trunkOrganizations: [organizationId],
          mode,
          at: asked.at === undefined ? new Date(now()) : new Date(asked.at),
        };
        if (source?.verdict === 'refused')
          return {
            ...{ decision: 'refuse', phone_number_id: null, endpoint_ids: [], hangup_cause: 'blocked_source' },
            rules: [source],
          };
        const decision = decide(question, lookup);
        return {
          decision: decision.kind,
          phone_number_id: decision.kind === 'unknown' ? null : decision.number.id,
          endpoint_ids: decision.kind === 'connect' ? decision.endpoints.map(({ id }) => id) : [],
          hangup_cause: decision.kind === 'refuse' ? decision.ending.cause : null,
          rules: source ? [source, ...decision.trace] : decision.trace,
        };
      },
    }),
  ];
}

/** Whether a trunk of the organization, or a shared one, trusts the address. Throws 400. */
async function sourceRule(store: Store, organizationId: string, address: string) {
  if (!ipaddr.isValid(address)) throw invalid({ path: 'source_ip', message: 'must be an IP address' });
  const ip = ipaddr.process(address);
  const trunk = (await store.trunks.allForSip())
    .filter((each) => each.organizationId === null || each.organizationId === organizationId)
    .find((each) => each.direction !== 'outbound' && each.addresses.some((net) => isIn(ip, net)));
  const verdict = trunk ? 'matched' : 'refused';
  return {
    rule: 'source',
    verdict,
    detail: trunk ? `trusted by the trunk ${trunk.name}` : 'no trunk trusts the address',
  };
}

function isIn(ip: ipaddr.IPv4 | ipaddr.IPv6, net: string): boolean {
  const [address, bits] = ipaddr.parseCIDR(net);
  return address.kind() === ip.kind() && ip.match([address, bits] as never);
}
