/** Checks of agent configurations for the main thread, which stores them and opens no connection. */
import { AgentConfigError, type Plain } from './agent.js';
import { WEBSOCKET_SCHEMES } from './descriptor.js';
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
export function knownAgentUrl(provider: string, config: Readonly<Record<string, unknown>> = {}): string | undefined {
  const protocol = agentProtocols.get(provider);
  return protocol?.urlFor?.(config) ?? protocol?.knownUrl;
}

/** The schemes that the URL of an agent with this protocol may have; for an unknown one those of a WebSocket. */
export function agentSchemes(protocol: string): readonly string[] {
  return agentProtocols.get(protocol)?.schemes ?? WEBSOCKET_SCHEMES;
}
