/** Chooses the transport by the scheme of the URL. */
import { AgentConfigError, type Upgrade } from '../../agent.js';
import { AgentWebSocket } from '../websocket-transport.js';
import { AgentHttp2Stream } from './http2-transport.js';
import { AgentTcpSocket } from './tcp-transport.js';
import type { AgentTransport, TransportHooks, TransportLimits } from './transport.js';

/** Begins to connect. Throws `AgentConfigError` for a URL of another scheme, `BlockedAddressError`, or the errors of Node for bad text. */
export function connectTransport(
  upgrade: Upgrade,
  schemes: readonly string[],
  allowPrivateAddress: boolean,
  limits: TransportLimits,
  hooks: TransportHooks,
): AgentTransport {
  const scheme = new URL(upgrade.url).protocol.slice(0, -1);
  if (!schemes.includes(scheme))
    throw new AgentConfigError('target', `The target must be a ${schemes.map((each) => `${each}:`).join(' or ')} URL.`);
  if (scheme === 'tcp') return new AgentTcpSocket(upgrade, allowPrivateAddress, limits, hooks);
  if (scheme === 'https' || scheme === 'http') return new AgentHttp2Stream(upgrade, allowPrivateAddress, limits, hooks);
  return new AgentWebSocket(upgrade, allowPrivateAddress, limits, hooks);
}
