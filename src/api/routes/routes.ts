import { route as decide, type RouteLookup } from '../../call/router.js';
import type { Store } from '../../store/store.js';
import { phoneNumberOf } from '../phone-number.js';
import { type Route, route } from '../route.js';
import { body, nullable, oneOf, ref, Type, uuid } from '../schemas/words.js';

const simulateBody = body({
  from: Type.String({ minLength: 1, maxLength: 64, description: 'Who calls: a number, or `anonymous`.' }),
  to: Type.String({ maxLength: 64, description: 'The number that is dialled.' }),
  at: Type.Optional(Type.String({ format: 'date-time', description: 'When; now when absent.' })),
});

const simulation = Type.Object(
  {
    decision: oneOf(['connect', 'refuse', 'unknown'], { description: 'What would become of the call.' }),
    phone_number_id: nullable<string>(uuid('The number, if it is one of the organization.')),
    endpoint_ids: Type.Array(uuid('An endpoint.'), { description: 'In the order in which they are tried.' }),
    hangup_cause: nullable<string>(Type.String({ description: 'Why the call would be refused.' })),
    rules: Type.Array(
      Type.Object({
        rule: Type.String({ description: 'Such as `routes[0]`.' }),
        verdict: oneOf(['matched', 'skipped', 'refused']),
        detail: Type.String({ description: 'Why.' }),
      }),
      { description: 'Every rule that was looked at, in order.' },
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
      summary: 'Ask where a call would go',
      description:
        'Decides as for a real call, with the same rules, and says what it thought of each. Where rules share calls by weight, the draw is made anew each time. Nothing is called and nothing is recorded.',
      access: 'member',
      body: simulateBody,
      answer: { status: 200, description: 'The decision.', schema: ref('RouteSimulation') },
      errors: ['INVALID_PHONE_NUMBER'],
      handle: ({ body: asked, caller }) => {
        const { organizationId, mode } = caller.scope;
        const lookup: RouteLookup = {
          findDialled: (number, inMode) => store.phoneNumbers.findDialled(number, inMode),
          getForCall: (id) => store.endpoints.getForCall(id),
        };
        const question = {
          dialled: phoneNumberOf(asked.to, 'to'),
          from: asked.from,
          // As from a trunk of the organization: numbers of others are unknown there.
          trunkOrganizations: [organizationId],
          mode,
          at: asked.at === undefined ? new Date(now()) : new Date(asked.at),
        };
        const decision = decide(question, lookup);
        return {
          decision: decision.kind,
          phone_number_id: decision.kind === 'unknown' ? null : decision.number.id,
          endpoint_ids: decision.kind === 'connect' ? decision.endpoints.map(({ id }) => id) : [],
          hangup_cause: decision.kind === 'refuse' ? decision.ending.cause : null,
          rules: decision.trace,
        };
      },
    }),
  ];
}
