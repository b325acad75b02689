import type { RequestDays } from '../store/request-days.js';
import type { RedisCounts } from './redis-counter.js';

/** The state of one window, as the rate-limit plugin wants it. */
export interface WindowState {
  current: number;
  /** Milliseconds until the window ends. */
  ttl: number;
}

type Answer = (error: Error | null, state?: WindowState) => void;

/** Where counts live besides memory. */
export interface CountSources {
  /** Outlives the process: counts of days. */
  days: RequestDays;
  /** Counts of several processes together; while it does not answer, this process counts for itself. */
  redis: RedisCounts | null;
}

/** Keys that are counted at the same time; the one whose window began first is forgotten. */
const countedAtOnce = 50_000;
const dayMs = 86_400_000;

/** Counts requests in windows that begin at whole seconds, and days at midnight UTC. Waits only where Redis counts. */
export class WindowCounts {
  private readonly counts = new Map<string, { startMs: number; current: number }>();

  constructor(private readonly sources: CountSources) {}

  add(key: string, windowMs: number): WindowState | Promise<WindowState> {
    const { startMs, ttl } = windowNow(windowMs);
    const here = () => ({ current: this.addHere(key, startMs, windowMs), ttl });
    const { redis } = this.sources;
    return redis ? redis.add(key, startMs, windowMs).then((current) => ({ current, ttl }), here) : here();
  }

  /** Without counting. */
  read(key: string, windowMs: number): WindowState | Promise<WindowState> {
    const { startMs, ttl } = windowNow(windowMs);
    const here = () => ({ current: this.readHere(key, startMs, windowMs), ttl });
    const { redis } = this.sources;
    return redis ? redis.read(key, startMs, windowMs).then((current) => ({ current, ttl }), here) : here();
  }

  private addHere(key: string, startMs: number, windowMs: number): number {
    if (windowMs === dayMs) return this.sources.days.add(key, startMs / dayMs);
    const counted = this.counts.get(key);
    if (counted?.startMs === startMs) {
      counted.current += 1;
      return counted.current;
    }
    this.counts.delete(key);
    this.counts.set(key, { startMs, current: 1 });
    if (this.counts.size > countedAtOnce) this.counts.delete(this.counts.keys().next().value ?? '');
    return 1;
  }

  private readHere(key: string, startMs: number, windowMs: number): number {
    if (windowMs === dayMs) return this.sources.days.read(key, startMs / dayMs);
    const counted = this.counts.get(key);
    return counted?.startMs === startMs ? counted.current : 0;
  }
}

/**
 * `WindowCounts` as the rate-limit plugin wants them. The plugin's own store hands out the object it counts in, so requests that come at once
 * all see the last count and are all refused; this one answers each with its own number.
 */
export function windowStore(counts: () => WindowCounts) {
  return class WindowStore {
    private readonly counts = counts();

    incr(key: string, answer: Answer, windowMs: number): void {
      const state = this.counts.add(key, windowMs);
      if (state instanceof Promise) state.then((told) => answer(null, told));
      else answer(null, state);
    }

    /** One for each limit. */
    child(): WindowStore {
      return new WindowStore();
    }
  };
}

/** Read once: between two looks at the clock a window may end. */
function windowNow(windowMs: number): { startMs: number; ttl: number } {
  const now = Date.now();
  const startMs = now - (now % windowMs);
  return { startMs, ttl: startMs + windowMs - now };
}
