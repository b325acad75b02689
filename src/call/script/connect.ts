import type { AgentEnd } from '../../../media/agents/agent.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { Action, Connect } from '../../webhook/actions.js';
import { connectedQuestion, streamStatusFields } from '../../webhook/request-bodies.js';
import { newStreamSid } from '../../webhook/twilio-parameters.js';
import { WebhookFailure } from '../../webhook/webhook-client.js';
import { converse } from '../agent/conversation.js';
import { connectAgent, type FailoverAgent } from '../agent/failover-agent.js';
import type { CallCommand, CommandResult } from '../core/command.js';
import { CallEnded } from '../core/outcome.js';
import type { Stage } from './context.js';
import { streamEndpoint } from './stream-endpoint.js';

export interface ConnectStage extends Stage {
  /** The endpoint that asked for it. */
  readonly webhook: Endpoint;
  /** The call is the agent's now, and comes back. */
  handOver(): void;
  takeBack(): void;
  redirect(command: CallCommand & { kind: 'redirect' }): CommandResult;
}

/** Whom a `connect` means. Throws `WebhookFailure`. */
export function connectTarget(
  action: Connect,
  webhook: Endpoint,
  getEndpoint: (id: string) => Endpoint | undefined,
): Endpoint {
  if (action.to.kind === 'stream') return streamEndpoint(webhook, { ...action.to, sid: newStreamSid() });
  const endpoint = getEndpoint(action.to.endpointId.toLowerCase());
  if (endpoint?.organizationId !== webhook.organizationId)
    throw new WebhookFailure('There is no such endpoint.', { where: 'connect.endpoint_id' });
  if (endpoint.status !== 'active')
    throw new WebhookFailure('The endpoint is inactive.', { where: 'connect.endpoint_id' });
  return endpoint;
}

/**
 * An agent of an endpoint, or a stream; the call is answered only when it is ready. `last`: nothing comes after it, so that the call ends
 * with it.
 */
export async function connectStep(
  stage: ConnectStage,
  action: Connect,
  endpoint: Endpoint,
  last: boolean,
  signal: AbortSignal,
): Promise<Action[] | null> {
  const { line, rules } = stage;
  const { call } = line;
  const startedMs = performance.now();
  const stream = action.to.kind === 'stream' ? action.to : null;
  const sid = String(endpoint.providerConfig.stream_sid ?? '');
  const tell = (event: 'stream-started' | 'stream-stopped' | 'stream-error', error = '') =>
    stage.status(stream?.status ?? null, event, streamStatusFields(sid, stream?.name ?? null, event, error));
  const facts = { ...line.facts, custom: stream?.custom ?? {} };
  let agent: FailoverAgent;
  try {
    agent = await connectAgent(call, facts, [endpoint], line.session, rules.agents);
  } catch (error) {
    if (error instanceof CallEnded && call.ending === null) tell('stream-error', error.message);
    if (!(error instanceof CallEnded) || call.ending !== null || (last && action.next === null)) throw error;
    if (action.next === null) return null;
    return stage.ask(action.next, connectedQuestion('failed', error.message, 0), signal);
  }
  let end: AgentEnd | null;
  let durationSec: number;
  try {
    const leg = await line.answer();
    stage.handOver();
    tell('stream-started');
    const visit = { leave: signal, redirect: stage.redirect };
    end = await converse(call, leg, line.session, agent, rules.limits, visit);
    durationSec = Math.round((performance.now() - startedMs) / 1000);
  } finally {
    await agent.close('the stream is over');
    // Before the webhook is asked what comes next: until it answers, keys and commands belong to the script.
    if (call.ending === null) stage.takeBack();
  }
  const by = end?.by === 'failed' ? 'failed' : 'hangup';
  tell(by === 'failed' ? 'stream-error' : 'stream-stopped', by === 'failed' ? (end?.detail ?? '') : '');
  const result = connectedQuestion(by, end?.detail ?? '', durationSec);
  if (call.ending !== null) stage.tell(action.next, result);
  signal.throwIfAborted();
  if (last && action.next === null)
    throw new CallEnded({
      cause: by === 'failed' ? 'agent_error' : 'agent_hangup',
      source: 'agent',
      ...(end === null ? {} : { detail: end.detail }),
    });
  return action.next === null ? null : stage.ask(action.next, result, signal);
}
