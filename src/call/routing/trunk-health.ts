/** The health of trunks: computed from the state of their gateways and written to the trunks' records. */
import type { GatewayState } from '../../../sip/leg.js';
import type { Logger } from '../../log.js';
import type { Trunk } from '../../store/routing/trunks.js';
import { withTransport } from './trunk-gateways.js';

export interface TrunkHealthRecords {
  allForSip(): Promise<Trunk[]>;
  observe(trunkId: string, health: Trunk['health']): Promise<void>;
}

/** Writes the health of every trunk. A database that is busy is logged only: the next change of a gateway writes the health again. */
export async function saveTrunkHealth(
  trunks: TrunkHealthRecords,
  stateOf: (uri: string) => GatewayState,
  log: Logger,
): Promise<void> {
  try {
    for (const trunk of await trunks.allForSip()) await trunks.observe(trunk.id, healthOf(trunk, stateOf));
  } catch (error) {
    log.warn({ err: error }, 'the health of a trunk could not be written');
  }
}

/** The health of a trunk follows from its gateways: `degraded` when some of them do not answer, `down` when none does. */
export function healthOf(trunk: Trunk, stateOf: (uri: string) => GatewayState): Trunk['health'] {
  const states = trunk.gateways.map(({ uri }) => stateOf(withTransport(uri, trunk)));
  if (states.length === 0 || states.every((state) => state === 'unknown')) return 'unknown';
  if (!states.includes('down')) return 'healthy';
  return states.every((state) => state === 'down') ? 'down' : 'degraded';
}
