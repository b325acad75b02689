/** Puts the trunks of the database into force: trusted sources, gateways for outbound calls, keepalive, registrations, certificates. */
import type { MonitoredGateway } from '../../../sip/leg.js';
import type { Logger } from '../../log.js';
import type { Trunk } from '../../store/routing/trunks.js';
import { monitoredGateways, tlsTrust } from './trunk-gateways.js';

/** The parts of the SIP side that depend on trunks. */
export interface TrunkUsers<Tls extends object> {
  /** Networks whose packets are exempt from the limits for strangers. */
  trust(nets: readonly string[]): void;
  secure(tls: Tls & { trust: ReturnType<typeof tlsTrust> }): void;
  keepalive: { replace(gateways: readonly MonitoredGateway[]): void };
}

export interface TrunkReloadParts<Tls extends object> {
  /** Reads all trunks, oldest first. */
  records(): Promise<Trunk[]>;
  /** Sources and users that may call in; returns one sentence for each address that it could not read. */
  table: { replace(trunks: readonly Trunk[]): string[] };
  /** The choice of trunks for outbound calls. */
  selection: { replace(trunks: readonly Trunk[]): void };
  /** The server's own certificates. */
  tls(): Tls;
  /** Whether this node registers with carriers: one node does, or a carrier would ring several. */
  registers(): boolean;
  log: Logger;
}

export class TrunkReload<Tls extends object> {
  #sip: TrunkUsers<Tls> | null = null;
  #reads = 0;

  private constructor(private readonly parts: TrunkReloadParts<Tls>) {}

  /** Fills the table of sources at once: the SIP side needs it before its first INVITE. */
  static async open<Tls extends object>(parts: TrunkReloadParts<Tls>): Promise<TrunkReload<Tls>> {
    const reload = new TrunkReload(parts);
    await reload.run();
    return reload;
  }

  /** From now on `sip` follows the trunks as well. */
  async follow(sip: TrunkUsers<Tls>): Promise<void> {
    this.#sip = sip;
    await this.run();
  }

  /** `run` for those who cannot wait; a failure is logged. */
  readonly begin = (): void => {
    this.run().catch((error: Error) => this.parts.log.error({ err: error }, 'the trunks could not be read'));
  };

  /** Reads the trunks again. Calls in progress keep the gateways that they have. */
  readonly run = async (): Promise<void> => {
    const { records, table, selection, tls, registers, log } = this.parts;
    this.#reads += 1;
    const read = this.#reads;
    const trunks = await records();
    if (read !== this.#reads) return; // a later read has begun, whose list is newer
    for (const problem of table.replace(trunks)) log.warn({ problem }, 'a trunk address was left out');
    selection.replace(trunks);
    this.#sip?.trust(trunks.flatMap((trunk) => (trunk.status === 'active' ? trunk.addresses : [])));
    this.#sip?.secure({ ...tls(), trust: tlsTrust(trunks) });
    const gateways = monitoredGateways(trunks);
    const isRegistrant = registers();
    this.#sip?.keepalive.replace(isRegistrant ? gateways : gateways.map((each) => ({ ...each, register: null })));
  };
}
