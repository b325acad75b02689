/** Tries whether an endpoint or a trunk can be reached, without a call. */
import type { Settings } from '../config/settings.js';
import { AgentFailure } from '../media/agents/agent.js';
import { reachAgent } from '../media/agents/reach.js';
import type { SafeHttp } from '../net/http.js';
import type { ConnectionTester, DoctorFinding } from './api/routes/routing/connection-tests.js';
import { type AgentTargetRules, agentTarget } from './call/agent/agent-target.js';
import { examineCarrierCertificates, examineTrunks } from './cli/doctor/carrier-checks.js';
import { examine } from './cli/doctor/checks.js';
import { newId } from './store/database/ids.js';
import type { EndpointForCall } from './store/routing/endpoints.js';
import type { Trunk } from './store/routing/trunks.js';
import { standardHeaders } from './webhook/signature.js';
import { firstRequestOf } from './webhook/webhook-client.js';

export interface TestPaths {
  http: SafeHttp;
  agents: AgentTargetRules & { connectTimeoutMs: number };
  /** Sends OPTIONS; null or the reason. `trust`: the trunk whose certificates are used. */
  options(uri: string, trust?: string): Promise<string | null>;
}

const pingLimitMs = 10_000;
const maxAnswerBytes = 262_144;

export function connectionTests(paths: TestPaths): ConnectionTester {
  return {
    async endpoint(endpoint) {
      if (endpoint.type === 'webhook') return ping(endpoint, paths);
      const isSip = /^sips?:/i.test(endpoint.target);
      const why = await (isSip ? paths.options(endpoint.target) : tryAgent(endpoint, paths.agents));
      return [
        {
          what: endpoint.target,
          message: why ?? (isSip ? 'It answers OPTIONS.' : 'It is ready for a call.'),
          ok: why === null,
        },
      ];
    },
    trunk: (trunk: Trunk) =>
      Promise.all(
        trunk.gateways.map(async ({ uri }) => {
          const why = await paths.options(uri, trunk.id);
          return { what: uri, ok: why === null, message: why ?? 'It answers OPTIONS.' };
        }),
      ),
  };
}

/** A signed request like that of a call, of a type that no call has: the server must not act on it. */
async function ping(endpoint: EndpointForCall, paths: TestPaths) {
  const { id, organizationId, target, providerConfig, signingSecrets } = endpoint;
  const eventsUrl = providerConfig.events_url;
  const urls = [target, ...(typeof eventsUrl === 'string' ? [eventsUrl] : [])];
  return Promise.all(
    urls.map(async (url) => {
      const method = url === target ? firstRequestOf(endpoint).method : 'POST';
      const requestId = newId();
      const atMs = Date.now();
      const body = JSON.stringify({
        ...{ id: requestId, type: 'endpoint.test', created_at: new Date(atMs).toISOString() },
        ...{ organization_id: organizationId, endpoint_id: id, data: {} },
      });
      const headers = { 'content-type': 'application/json', ...standardHeaders(signingSecrets, requestId, atMs, body) };
      try {
        const limits = { timeoutMs: pingLimitMs, maxBodyBytes: maxAnswerBytes };
        const content = method === 'GET' ? {} : { headers, body };
        const { status } = await paths.http.request({ method, url, ...content, ...limits });
        return { what: url, ok: status < 400, message: `It answered ${status}.` };
      } catch (error) {
        return { what: url, ok: false, message: (error as Error).message };
      }
    }),
  );
}

/** Null, or the reason why the agent is not ready for a call. */
async function tryAgent(endpoint: EndpointForCall, rules: TestPaths['agents']): Promise<string | null> {
  const call = { callId: newId(), organizationId: endpoint.organizationId, from: 'test', to: 'test', custom: {} };
  try {
    return await reachAgent(agentTarget(endpoint, { ...call, direction: 'inbound' }, rules, rules.connectTimeoutMs));
  } catch (error) {
    if (error instanceof AgentFailure) return error.message;
    throw error;
  }
}

/** The findings of `trunkline doctor` for this process. */
export async function examineInstallation(settings: Settings, trunks: readonly Trunk[]): Promise<DoctorFinding[]> {
  const { thisMachine } = await import('./cli/doctor/machine.js');
  return [
    ...(await examine(thisMachine, settings, true)),
    ...examineTrunks(trunks, settings.sipHost),
    ...(await examineCarrierCertificates(thisMachine, trunks)),
  ];
}
