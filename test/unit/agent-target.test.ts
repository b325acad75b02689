import { expect, it } from 'vitest';
import type { AgentTarget } from '../../media/agents/agent.js';
import { agentTarget } from '../../src/call/agent/agent-target.js';
import type { EndpointForCall } from '../../src/store/routing/endpoints.js';

const rules = { allowPrivateTargets: false, protocols: new Set(['raw']), builtInAgents: new Map() };
const call: AgentTarget['call'] = {
  ...{ callId: 'c1', organizationId: 'o1', from: '+12025550001', to: '+12025550002' },
  direction: 'inbound',
  custom: {},
};

const target = (config: object) => {
  const endpoint: Partial<EndpointForCall> = {
    ...{ type: 'agent', provider: 'custom', target: 'wss://agent.example.com/', record: false },
    providerConfig: { protocol: 'raw', ...config },
  };
  return agentTarget(endpoint as EndpointForCall, call, rules, 1000);
};

it.each([
  ['its frames', { frame_ms: 40 }, { frameMs: 40 }],
  ['its jitter buffer', { jitter_buffer_ms: 120 }, { jitterBufferMs: 120 }],
  ['that it wants no echo', { remove_echo: true }, { removeEcho: true }],
])('an endpoint says %s', (_what, config, wanted) => {
  expect(target(config)).toMatchObject(wanted);
});

it('without settings an agent hears what arrived, as it comes', () => {
  for (const config of [{}, { remove_echo: false }])
    for (const field of ['removeEcho', 'jitterBufferMs']) expect(target(config)).not.toHaveProperty(field);
});
