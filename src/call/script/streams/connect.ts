import type { AgentEnd } from '../../../../media/agents/agent.js';
import type { EndpointForCall as Endpoint } from '../../../store/routing/endpoints.js';
import type { Action, Connect } from '../../../webhook/actions.js';
import { connectedQuestion, streamStatusFields } from '../../../webhook/request-bodies.js';
import { newStreamSid } from '../../../webhook/twilio-parameters.js';
import { WebhookFailure } from '../../../webhook/webhook-client.js';
import { AgentConversation } from '../../agent/conversation.js';
import { connectAgent, type FailoverAgent } from '../../agent/failover-agent.js';
import { CallEnded } from '../../core/outcome.js';
import type { ScriptContext } from '../context.js';
import { streamEndpoint } from './stream-endpoint.js';

/** The endpoint of a `connect`. Throws `WebhookFailure`. */
export function connectTarget(
  action: Connect,
  webhook: Endpoint,
  getEndpoint: (id: string) => Endpoint | undefined,
): Endpoint {
  if (action.to.kind === 'stream') return streamEndpoint(webhook, action.to, newStreamSid());
  const endpoint = getEndpoint(action.to.endpointId.toLowerCase());
  if (endpoint?.organizationId !== webhook.organizationId)
    throw new WebhookFailure('There is no such endpoint.', { where: 'connect.endpoint_id' });
  if (endpoint.status !== 'active')
    throw new WebhookFailure('The endpoint is inactive.', { where: 'connect.endpoint_id' });
  return endpoint;
}

/**
 * Lends the party to an agent of an endpoint, or to a stream; the call is answered only when the agent is ready. `last`: no action follows,
 * so the call ends with the agent.
 */
export async function connectStep(
  { party, webhook, deps }: ScriptContext,
  action: Connect,
  endpoint: Endpoint,
  last: boolean,
  signal: AbortSignal,
): Promise<Action[] | null> {
  const { call } = party;
  const startedMs = performance.now();
  const stream = action.to.kind === 'stream' ? action.to : null;
  const sid = String(endpoint.providerConfig.stream_sid ?? '');
  const tell = (event: 'stream-started' | 'stream-stopped' | 'stream-error', error = '') =>
    webhook.status(stream?.status ?? null, event, streamStatusFields(sid, stream?.name ?? null, event, error));
  const facts = { ...party.facts, custom: stream?.custom ?? {}, metadata: party.facts.custom ?? {} };
  let agent: FailoverAgent;
  try {
    agent = await connectAgent(party, facts, [endpoint], deps.agents);
  } catch (error) {
    if (error instanceof CallEnded && call.ending === null) tell('stream-error', error.message);
    if (!(error instanceof CallEnded) || call.ending !== null || (last && action.next === null)) throw error;
    if (action.next === null) return null;
    return webhook.ask(action.next, connectedQuestion('failed', error.message, 0), signal);
  }
  const conversation = new AgentConversation(party, agent, deps.limits);
  const left = new AbortController();
  const until = AbortSignal.any([signal, left.signal]);
  let end: AgentEnd | null = null;
  let durationSec = 0;
  until.addEventListener('abort', () => {
    durationSec = Math.round((performance.now() - startedMs) / 1000);
  });
  try {
    await party.answer();
    void conversation.ended.then((ended) => {
      if (!until.aborted) end = ended;
      left.abort();
    });
    tell('stream-started');
    await party.control.lend(conversation, until);
  } finally {
    await conversation.detach('finished');
  }
  const { by: endedBy, detail } = (end as AgentEnd | null) ?? { by: 'closed', detail: '' };
  const by = endedBy === 'failed' ? 'failed' : 'hangup';
  tell(by === 'failed' ? 'stream-error' : 'stream-stopped', by === 'failed' ? detail : '');
  const result = connectedQuestion(by, detail, durationSec);
  if (call.ending !== null) webhook.tell(action.next, result);
  signal.throwIfAborted();
  if (last && action.next === null)
    throw new CallEnded({ cause: by === 'failed' ? 'agent_error' : 'agent_hangup', source: 'agent', detail });
  return action.next === null ? null : webhook.ask(action.next, result, signal);
}
