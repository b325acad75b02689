/** Every protocol an agent may speak. A new provider is one file and one line here. */
import type { AgentProtocol } from './agent.js';
import { raw } from './raw.js';
import { twilio } from './twilio.js';

const ALL: readonly AgentProtocol[] = [raw, twilio];

export const agentProtocols: ReadonlyMap<string, AgentProtocol> = new Map(ALL.map((each) => [each.provider, each]));
