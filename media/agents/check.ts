/** Checks of agent configurations for the main thread, which stores them and opens no connection. */
import { AgentConfigError, type Plain } from './agent.js';
import { agentProtocols } from './providers/registry.js';

/** The problem of a configuration; null when there is none, or the protocol is unknown. */
export function agentConfigProblem(
  protocol: string,
  config: Readonly<Record<string, unknown>>,
): { field: string; message: string } | null {
  try {
    agentProtocols.get(protocol)?.parseConfig(config as Plain); // it comes out of JSON
    return null;
  } catch (error) {
    if (error instanceof AgentConfigError) return { field: error.field, message: error.message };
    throw error;
  }
}

/** The provider's address, when it does not depend on the account. */
export function knownAgentUrl(provider: string): string | undefined {
  return agentProtocols.get(provider)?.knownUrl;
}
