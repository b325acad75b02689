/** The gateways of trunks between calls: where they are, how Trunkline registers there, and which TLS certificates count. */
import type { MonitoredGateway } from '../../../sip/leg.js';
import type { Trunk } from '../../store/routing/trunks.js';

/** The transport of the trunk, unless the gateway's URI has its own. */
export function withTransport(uri: string, trunk: Pick<Trunk, 'transport'>): string {
  if (trunk.transport === 'udp' || /;transport=/i.test(uri) || /^sips:/i.test(uri)) return uri;
  return `${uri};transport=${trunk.transport}`;
}

/** What is done for the gateways of these trunks between calls. */
export function monitoredGateways(trunks: readonly Trunk[]): MonitoredGateway[] {
  return trunks.flatMap((trunk) => {
    const { username, password, outbound } = trunk;
    const domain = outbound.from_domain === null ? {} : { domain: outbound.from_domain };
    const isRegistered = trunk.register && username !== null && password !== null;
    const register = isRegistered ? { username, password, ...domain } : null;
    const isUsed = trunk.direction !== 'inbound' || isRegistered;
    const { id: trust } = trunk;
    return isUsed ? trunk.gateways.map(({ uri }) => ({ uri: withTransport(uri, trunk), register, trust })) : [];
  });
}

/** The authorities and client certificates of the trunks that have their own, by the name that their gateways carry in `trust`. */
export function tlsTrust(
  trunks: readonly Trunk[],
): Record<string, { ca?: string; certificate?: string; key?: string }> {
  const own = trunks.filter(({ tls }) => tls.ca !== null || tls.certificate !== null);
  return Object.fromEntries(
    own.map(({ id, tls: { ca, certificate, key } }) => [
      id,
      {
        ...(ca === null ? {} : { ca }),
        ...(certificate === null || key === null ? {} : { certificate, key }),
      },
    ]),
  );
}
