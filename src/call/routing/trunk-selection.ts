/** Which trunks, and which of their gateways, carry an outbound call, and in which order. */
import type { MediaPolicy, PhoneCodec } from '../../../media/engine.js';
import type { Gateway } from '../../../sip/leg.js';
import type { CallPlaces } from '../../redis/call-places.js';
import { CallRates } from '../../redis/call-rates.js';
import type { Trunk, TrunkGateway } from '../../store/routing/trunks.js';
import { type Presentation, presentationOf } from './outbound-identity.js';
import { withTransport } from './trunk-gateways.js';
import { TrunkLoad } from './trunk-load.js';

/** What a trunk decides about the audio of its calls. */
export type TrunkMedia = Pick<MediaPolicy, 'codecs' | 'srtp'>;

/** A trunk as one call sees it. */
export interface Carrier {
  /** null: the carrier simulator. */
  trunkId: string | null;
  name: string;
  media: TrunkMedia;
  /** In the order in which they are tried. */
  gateways: Gateway[];
  /** Caller and callee in the format of this carrier. */
  present(call: { from: string; to: string }): Presentation;
  /** Takes a place in the trunk; the returned function gives it back. null when the trunk is full. */
  enter(): Promise<(() => void) | null>;
}

export interface CarrierRules {
  /** The codecs of the engine, preferred first. */
  codecs: readonly PhoneCodec[];
  /** A gateway that does not answer is tried last. */
  isDown(uri: string): boolean;
  /** 0 ≤ draw < 1; decides among equal gateways by weight. */
  draw?(): number;
  /** Counts calls per second. Default: those of this process alone. */
  rates?: CallRates;
  /** Counts calls at once, with those of other nodes. Default: those of this process alone. */
  places?: CallPlaces | null;
}

export class Carriers {
  #trunks: readonly Trunk[] = [];
  #media = new Map<string, TrunkMedia>();
  readonly #load: TrunkLoad;

  constructor(private readonly rules: CarrierRules) {
    this.#load = new TrunkLoad(rules.rates ?? new CallRates(null), rules.places);
  }

  /** Active trunks, oldest first. Running calls are not affected. */
  replace(trunks: readonly Trunk[]): void {
    this.#media = new Map(trunks.map((trunk) => [trunk.id, this.#mediaOf(trunk)]));
    this.#trunks = trunks.filter((trunk) => trunk.direction !== 'inbound' && trunk.gateways.length > 0);
  }

  /** Media settings of inbound calls over this trunk, and of calls to the phone that registers with it. */
  mediaOf(trunkId: string): TrunkMedia {
    return this.#media.get(trunkId) ?? { codecs: [...this.rules.codecs] };
  }

  #mediaOf({ codecs, srtp }: Trunk): TrunkMedia {
    const usable = codecs.flatMap((name) => this.rules.codecs.filter((codec) => codec === name));
    return { codecs: usable.length > 0 ? usable : [...this.rules.codecs], srtp };
  }

  /** The organization's own trunks first, then shared ones; each group by age. */
  of(organizationId: string): Carrier[] {
    const own = this.#trunks.filter((trunk) => trunk.organizationId === organizationId);
    const shared = this.#trunks.filter((trunk) => trunk.organizationId === null);
    return [...own, ...shared].map((trunk) => this.#carrier(trunk));
  }

  #carrier(trunk: Trunk): Carrier {
    const { rules } = this;
    const uris = inOrder(trunk.gateways, rules.draw ?? Math.random).map((gateway) => withTransport(gateway.uri, trunk));
    const { username, password } = trunk;
    const auth = username !== null && password !== null ? { auth: { username, password } } : {};
    return {
      trunkId: trunk.id,
      name: trunk.name,
      media: this.#mediaOf(trunk),
      gateways: [...uris.filter((uri) => !rules.isDown(uri)), ...uris.filter((uri) => rules.isDown(uri))].map(
        (uri) => ({ uri, trust: trunk.id, ...auth }),
      ),
      present: (call) => presentationOf(call, trunk.outbound),
      enter: () => this.#load.enter(trunk.id, trunk),
    };
  }
}

/** By priority, lowest first; gateways of equal priority are ordered by weighted random selection, weight 0 last (RFC 2782). */
export function inOrder(gateways: readonly TrunkGateway[], draw: () => number): TrunkGateway[] {
  const ordered: TrunkGateway[] = [];
  for (const priority of [...new Set(gateways.map((gateway) => gateway.priority))].sort((a, b) => a - b)) {
    const group = gateways.filter((gateway) => gateway.priority === priority);
    while (group.length > 0) {
      let mark = draw() * group.reduce((sum, gateway) => sum + gateway.weight, 0);
      const index = group.findIndex((gateway) => {
        mark -= gateway.weight;
        return mark < 0;
      });
      ordered.push(...group.splice(index < 0 ? 0 : index, 1));
    }
  }
  return ordered;
}
