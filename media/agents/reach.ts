/** Connects to an agent as a call would, and leaves before any call begins: shows whether an endpoint works. */
import { AgentFailure, type AgentTarget } from './agent.js';
import type { AgentSocket } from './connection/agent-socket.js';
import { openAgentSocket } from './connection/socket.js';

const silent = { heardMs: 0, droppedMs: 0 };
const hooks = {
  audio: () => undefined,
  clear: () => silent,
  silence: () => silent,
  mark: () => undefined,
  event: () => undefined,
  guard: (work: () => void) => work(),
};

/** Resolves to null when the agent was ready, else to the reason in one sentence. Takes at most `connectTimeoutMs` of the target. */
export async function reachAgent(target: AgentTarget): Promise<string | null> {
  let socket: AgentSocket;
  try {
    socket = openAgentSocket(target, hooks, new AbortController().signal);
  } catch (error) {
    if (error instanceof AgentFailure) return error.message;
    throw error;
  }
  try {
    await socket.ready;
    return null;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await socket.close('test');
  }
}
