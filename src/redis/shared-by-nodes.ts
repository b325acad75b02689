/** Everything that nodes share through Redis; without it this node counts alone and knows its own phones. */
import { CallPlaces } from './call-places.js';
import { CallRates } from './call-rates.js';
import { RedisConnection, type RedisLog } from './connection.js';
import { LivingNodes } from './living-nodes.js';
import { RateCounter } from './rate-counter.js';
import { SharedRegistrations } from './shared-registrations.js';

export class SharedByNodes {
  readonly nodes: LivingNodes | null;
  readonly registrations: SharedRegistrations | null;
  readonly counter: RateCounter | null;
  readonly places: CallPlaces | null;
  readonly callRates: CallRates;

  private constructor(readonly redis: RedisConnection | null) {
    this.nodes = redis && new LivingNodes(redis);
    this.registrations = redis && this.nodes && new SharedRegistrations(redis, this.nodes);
    this.counter = redis && new RateCounter(redis);
    this.places = redis && new CallPlaces(redis);
    this.callRates = new CallRates(this.counter);
  }

  /** `url` null: without Redis. Throws as `RedisConnection.connect` does. */
  static async open(url: string | null, log: RedisLog, onAnswered: (ms: number) => void): Promise<SharedByNodes> {
    return new SharedByNodes(url === null ? null : await RedisConnection.connect(url, log, onAnswered));
  }

  /** `nodes` is stopped by who started it, before the SIP side closes. */
  close(): void {
    this.places?.close();
    this.redis?.close();
  }
}
