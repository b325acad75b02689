/** Retell AI: it has no WebSocket for audio. A request before each INVITE creates the call, whose id is the user part of the address. */
import { textField } from '../../config-schema.js';
import type { ProviderDescriptor } from '../../descriptor.js';
import { below } from '../../provider.js';

export const retell: ProviderDescriptor = {
  provider: 'retell',
  title: 'Retell AI',
  page: 'sip.md',
  selectedBy: 'provider',
  config: { agent_id: textField(256) },
  example: { api_key: 'k', agent_id: 'a' },
  sip: {
    knownTarget: 'sip:sip.retellai.com;transport=tcp',
    needs: ['api_key', 'agent_id'],
    register: (config, call) => ({
      url: below(String(config.base_url ?? 'https://api.retellai.com'), '/v2/register-phone-call'),
      headers: { Authorization: `Bearer ${String(config.api_key)}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({
        agent_id: config.agent_id,
        direction: call.direction,
        from_number: call.from,
        to_number: call.to,
        metadata: { ...call.custom, trunkline_call_id: call.callId },
        ...(call.variables !== undefined && { retell_llm_dynamic_variables: call.variables }),
        ...(config.override as object | undefined),
      }),
    }),
    registered: (answer) => (answer as { call_id?: unknown } | null)?.call_id,
  },
};
