/** An agent for one call: an endpoint and a number that exist for the duration of the call. */
import type { Api } from '../api.js';

export interface AdHocAgent {
  number: string;
  /** `ws:` or `wss:` URL. */
  url: string;
  /** `twilio`, `raw`, ... */
  protocol?: string;
}

/** Runs `whileAttached` while the number is routed to the agent, then always removes both. */
export async function withAgent<T>(api: Api, agent: AdHocAgent, whileAttached: () => Promise<T>): Promise<T> {
  const endpoint = await api.post<{ id: string }>('/endpoints', {
    name: `trunkline call ${agent.number}`,
    type: 'agent',
    target: agent.url,
    provider_config: { protocol: agent.protocol },
  });
  try {
    const number = await api.post<{ id: string }>('/phone-numbers', { number: agent.number, endpoint_id: endpoint.id });
    try {
      return await whileAttached();
    } finally {
      await api.remove(`/phone-numbers/${number.id}`);
    }
  } finally {
    await api.remove(`/endpoints/${endpoint.id}`);
  }
}
