import type { EndpointForCall } from '../../../store/routing/endpoints.js';
import type { Trunk } from '../../../store/routing/trunks.js';
import type { Store } from '../../../store/store.js';
import { requirePlatformOwner } from '../../auth/membership.js';
import { ApiError, notFound } from '../../errors.js';
import { type Route, route } from '../../route.js';
import { withoutPassword } from '../../rules/targets.js';
import { idParams, nullable, oneOf, ref, Type } from '../../schemas/types.js';

/** The result for one address of an endpoint or trunk. */
export interface TriedAddress {
  what: string;
  ok: boolean;
  message: string;
}

export interface ConnectionTester {
  endpoint(endpoint: EndpointForCall): Promise<TriedAddress[]>;
  trunk(trunk: Trunk): Promise<TriedAddress[]>;
}

/** What one check of the installation found, and how to mend it. */
export interface DoctorFinding {
  check: string;
  level: 'ok' | 'warning' | 'failure';
  says: string;
  fix?: string;
}

const result = Type.Object(
  {
    ok: Type.Boolean({ description: 'Whether every address answered.' }),
    duration_ms: Type.Integer({ description: 'The duration of the test in milliseconds.' }),
    addresses: Type.Array(
      Type.Object(
        {
          address: Type.String({ description: 'The URL or URI.' }),
          ok: Type.Boolean({ description: 'Whether it answered.' }),
          message: Type.String({ description: 'The answer, or the reason why there was none.' }),
        },
        { additionalProperties: false },
      ),
      { description: 'The result of each address.' },
    ),
  },
  { $id: 'ConnectionTest', additionalProperties: false },
);
const findings = Type.Object(
  {
    findings: Type.Array(
      Type.Object(
        {
          check: Type.String({ description: 'What was checked.' }),
          level: oneOf(['ok', 'warning', 'failure'], { description: 'How bad it is.' }),
          says: Type.String({ description: 'What was found.' }),
          fix: nullable<string>(Type.String({ description: 'How to mend it; null if nothing must be mended.' })),
        },
        { additionalProperties: false },
      ),
      { description: 'One finding for each check.' },
    ),
  },
  { $id: 'DoctorFindings', additionalProperties: false },
);

export const connectionTestSchemas = [result, findings];

export interface ConnectionTestOptions {
  store: Store;
  /** Absent if nothing can be reached from here. */
  connectionTests?: ConnectionTester;
  /** Checks the machine and the settings; absent if it cannot. */
  doctor?: () => Promise<DoctorFinding[]>;
}

export function connectionTestRoutes({ store, connectionTests, doctor }: ConnectionTestOptions): Route[] {
  const unavailable = () => new ApiError('SERVICE_UNAVAILABLE', 'Tests are not available here');
  return [
    route({
      method: 'POST',
      path: '/v1/endpoints/:id/test',
      operationId: 'testEndpoint',
      tag: 'Endpoints',
      summary: 'Test an endpoint',
      description:
        'Connects to the agent as a call would, until it is ready, and leaves; sends OPTIONS to an agent behind SIP; or sends a webhook a signed request of the type `endpoint.test`, which needs no actions. No call is made.',
      access: 'admin',
      params: idParams,
      answer: { status: 200, description: 'The result.', schema: ref('ConnectionTest') },
      handle: async ({ params, caller }) => {
        const id = params.id.toLowerCase();
        const endpoint = (await store.endpoints.get(caller.scope, id)) && store.endpoints.getForCall(id);
        if (!endpoint) throw notFound('Endpoint');
        if (!connectionTests) throw unavailable();
        return timed(() => connectionTests.endpoint(endpoint));
      },
    }),
    route({
      method: 'POST',
      path: '/v1/trunks/:id/test',
      operationId: 'testTrunk',
      tag: 'Trunks',
      summary: 'Test a trunk',
      description: 'Sends OPTIONS to each gateway of the trunk. A trunk without gateways has nothing to test.',
      access: 'admin',
      params: idParams,
      answer: { status: 200, description: 'The result.', schema: ref('ConnectionTest') },
      handle: async ({ params, caller }) => {
        const trunk = await store.trunks.get(
          { ...caller.scope, shared: caller.user.platformOwner },
          params.id.toLowerCase(),
        );
        if (!trunk) throw notFound('Trunk');
        if (!connectionTests) throw unavailable();
        return timed(() => connectionTests.trunk(trunk));
      },
    }),
    route({
      method: 'GET',
      path: '/v1/doctor',
      operationId: 'getDoctorFindings',
      tag: 'Operation',
      summary: 'Examine the installation',
      description:
        'What `trunkline doctor` finds about the machine, the settings and the trunks, with a fix for each problem. Only for the platform owner, with a live key.',
      access: 'owner',
      answer: { status: 200, description: 'The findings.', schema: ref('DoctorFindings') },
      handle: async ({ caller }) => {
        requirePlatformOwner(caller);
        if (!doctor) throw unavailable();
        return { findings: (await doctor()).map((finding) => ({ ...finding, fix: finding.fix ?? null })) };
      },
    }),
  ];
}

async function timed(work: () => Promise<TriedAddress[]>) {
  const beganMs = performance.now();
  const addresses = await work();
  return {
    ok: addresses.every(({ ok }) => ok),
    duration_ms: Math.round(performance.now() - beganMs),
    addresses: addresses.map(({ what, ok, message }) => ({ address: withoutPassword(what), ok, message })),
  };
}
