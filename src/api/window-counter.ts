import type { RequestDays } from '../store/request-days.js';
import type { RedisCounts } from './redis-counter.js';

/** The state of one window, as the rate-limit plugin wants it. */
interface WindowState {
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

/** Keys that are counted at the same time; the least recently seen is forgotten. */
const countedAtOnce = 50_000;
const dayMs = 86_400_000;

/**
 * Counts requests in windows that begin at whole seconds, and days at midnight UTC. The plugin's own store hands out the object it counts
 * in, so requests that come at once all see the last count and are all refused; this one answers each with its own number.
 */
export function windowCounter(sources: CountSources) {
  return class WindowCounter {
    private readonly counts = new Map<string, { startMs: number; current: number }>();

    incr(key: string, answer: Answer, windowMs: number): void {
      const { startMs, ttl } = windowNow(windowMs);
      const told = (current: number) => answer(null, { current, ttl });
      if (!sources.redis) told(this.add(key, startMs, windowMs));
      else sources.redis.add(key, startMs, windowMs).then(told, () => told(this.add(key, startMs, windowMs)));
    }

    /** Without counting. */
    read(key: string, answer: Answer, windowMs: number): void {
      const { startMs, ttl } = windowNow(windowMs);
      const told = (current: number) => answer(null, { current, ttl });
      if (!sources.redis) told(this.stand(key, startMs, windowMs));
      else sources.redis.read(key, startMs, windowMs).then(told, () => told(this.stand(key, startMs, windowMs)));
    }

    /** One for each limit. */
    child(): WindowCounter {
      return new WindowCounter();
    }

    private add(key: string, startMs: number, windowMs: number): number {
      if (windowMs === dayMs) return sources.days.add(key, startMs / dayMs);
      const counted = this.counts.get(key);
      const current = counted?.startMs === startMs ? counted.current + 1 : 1;
      this.counts.delete(key);
      this.counts.set(key, { startMs, current });
      if (this.counts.size > countedAtOnce) this.counts.delete(this.counts.keys().next().value ?? '');
      return current;
    }

    private stand(key: string, startMs: number, windowMs: number): number {
      if (windowMs === dayMs) return sources.days.read(key, startMs / dayMs);
      const counted = this.counts.get(key);
      return counted?.startMs === startMs ? counted.current : 0;
    }
  };
}

/** Read once: between two looks at the clock a window may end. */
function windowNow(windowMs: number): { startMs: number; ttl: number } {
  const now = Date.now();
  const startMs = now - (now % windowMs);
  return { startMs, ttl: startMs + windowMs - now };
}
