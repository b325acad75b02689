import { LastSecond } from '../../redis/last-second.js';
import type { Counted, RateCounter } from '../../redis/rate-counter.js';
import type { RequestDays } from '../../store/tenants/request-days.js';

/** Where counts live besides memory. */
export interface CountSources {
  /** Outlives the process: counts of days. */
  days: RequestDays;
  /** Counts of several processes together; while it does not answer, this process counts for itself. */
  redis: RateCounter | null;
}

/** Keys that are counted at the same time; the one that was counted first is forgotten. */
const countedAtOnce = 50_000;

/**
 * Counts requests over the last second, and over the UTC day where the key is an organization's. The second slides: in no second-long interval
 * more than the limit are let through. Waits only where Redis counts.
 */
export class RequestCounts {
  private readonly seconds = new Map<string, LastSecond>();

  constructor(
    private readonly sources: CountSources,
    /** Milliseconds, never backwards. */
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** `day`: since 1970; null: only the second is counted. */
  count(key: string, perSecond: number, day: number | null): Counted | Promise<Counted> {
    const { redis } = this.sources;
    const here = () => this.countHere(key, perSecond, day);
    return redis ? redis.count(key, perSecond, day).catch(here) : here();
  }

  private countHere(key: string, perSecond: number, day: number | null): Counted | Promise<Counted> {
    const nowMs = this.now();
    const second = this.secondOf(key, perSecond);
    const isLetThrough = second.add(nowMs, perSecond);
    const { days } = this.sources;
    const counted = {
      isLetThrough,
      usedInSecond: second.used(nowMs),
      secondMs: second.untilOneLeavesMs(nowMs),
    };
    const usedInDay = day === null ? 0 : isLetThrough ? days.add(key, day) : days.read(key, day);
    if (typeof usedInDay === 'number') return { ...counted, usedInDay };
    return usedInDay.then((used) => ({ ...counted, usedInDay: used }));
  }

  private secondOf(key: string, perSecond: number): LastSecond {
    const known = this.seconds.get(key);
    if (known) return known;
    const second = new LastSecond(perSecond);
    this.seconds.set(key, second);
    if (this.seconds.size > countedAtOnce) this.seconds.delete(this.seconds.keys().next().value ?? '');
    return second;
  }
}
