/** The one client for all agents. Runs on the media thread. */
import { AgentFailure, type AgentProtocol, type AgentTarget } from '../agent.js';
import { agentProtocols } from '../providers/registry.js';
import { AgentConnection } from './agent-connection.js';
import type { AgentSocket, AgentSocketHooks, AgentSocketLimits } from './agent-socket.js';
import { givenUp, unusable } from './connect-failure.js';

const LIMITS: AgentSocketLimits = {
  maxMessageBytes: 1024 * 1024,
  closeLimitMs: 1000,
  pingIntervalMs: 2000,
  silenceLimitMs: 15_000,
  acceptLimitMs: 1000,
  pendingMarks: 1000,
  sendQueueMs: 500,
  unreadLimitMs: 1500,
  sendQueueBytes: 1024 * 1024,
  windowMs: 100,
  messagesPerWindow: 500,
  bytesPerWindow: 1024 * 1024,
  garbagePerSec: 100,
  digitPauseMs: 1500,
  goodbyeLimitMs: 15_000,
  renewBeforeMs: 60_000,
  renewLatestMs: 2000,
  renewAtMost: 3,
  renewWindowMs: 10_000,
  renewTimeoutMs: 5000,
  renewPauseMs: 250,
  backlogMs: 5000,
};

/** For tests. */
export interface AgentSocketOptions {
  limits?: Partial<AgentSocketLimits>;
  protocols?: ReadonlyMap<string, AgentProtocol>;
}

/**
 * Starts connecting. `signal` holds until ready; after that the socket ends by `close()` or by the agent.
 *
 * @throws AgentFailure when nothing was opened: aborted before, unknown protocol, unusable config or URL (`protocol`), or a literal address
 * that is not allowed (`blocked_address`).
 */
export function openAgentSocket(
  target: AgentTarget,
  hooks: AgentSocketHooks,
  signal: AbortSignal,
  options: AgentSocketOptions = {},
): AgentSocket {
  if (signal.aborted) throw givenUp();
  const protocol = (options.protocols ?? agentProtocols).get(target.protocol);
  if (protocol === undefined) throw new AgentFailure('protocol', 'There is no such agent protocol.', false);
  try {
    const conversation = protocol.converse(protocol.parseConfig(target.config), target);
    return new AgentConnection(protocol, conversation, target, hooks, signal, { ...LIMITS, ...options.limits });
  } catch (error) {
    throw unusable(error);
  }
}
