/** What may be asked about protocols without speaking one: for those who store configurations. */
import { AgentConfigError, type Plain } from './agent.js';
import { agentProtocols } from './providers/registry.js';

/** What is wrong with a configuration; null: nothing, or nobody here speaks this protocol. */
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

/** Where a provider is, when that does not depend on the account. */
export function knownAgentUrl(provider: string): string | undefined {
  return agentProtocols.get(provider)?.knownUrl;
}
