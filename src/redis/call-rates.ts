import { LastSecond } from './last-second.js';
import type { RateCounter } from './rate-counter.js';

/** Counts the calls that begin within a second: those of all nodes together, and while Redis does not answer, those of this node. */
export class CallRates {
  private readonly seconds = new Map<string, LastSecond>();

  constructor(
    private readonly shared: RateCounter | null,
    /** Milliseconds, never backwards. */
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Counts one more call of an organization or a trunk; false, and it is not counted, when the limit is used up. Never rejects. */
  async begin(what: 'organization' | 'trunk', id: string, perSecond: number): Promise<boolean> {
    const key = `calls:${what}:${id}`;
    const counted = await this.shared?.count(key, perSecond, null).catch(() => null);
    if (counted) return counted.isLetThrough;
    const second = this.seconds.get(key) ?? new LastSecond(perSecond);
    this.seconds.set(key, second);
    return second.add(this.now(), perSecond);
  }
}
