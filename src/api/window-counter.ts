/** The state of one window, as the rate-limit plugin wants it. */
interface WindowState {
  current: number;
  /** Milliseconds until the window ends. */
  ttl: number;
}

type Answer = (error: Error | null, state?: WindowState) => void;

/** Keys that are counted at the same time; the least recently seen is forgotten. */
const countedAtOnce = 50_000;

/**
 * Counts requests in windows that begin at whole seconds, and days at midnight UTC. The plugin's own store hands out the object it counts
 * in, so requests that come at once all see the last count and are all refused; this one answers each with its own number.
 */
export class WindowCounter {
  private readonly counts = new Map<string, { startMs: number; current: number }>();

  incr(key: string, answer: Answer, windowMs: number): void {
    const startMs = windowStart(windowMs);
    const counted = this.counts.get(key);
    const current = counted?.startMs === startMs ? counted.current + 1 : 1;
    this.counts.delete(key);
    this.counts.set(key, { startMs, current });
    if (this.counts.size > countedAtOnce) this.counts.delete(this.counts.keys().next().value ?? '');
    answer(null, { current, ttl: remaining(windowMs) });
  }

  /** Without counting. */
  read(key: string, answer: Answer, windowMs: number): void {
    const counted = this.counts.get(key);
    const current = counted?.startMs === windowStart(windowMs) ? counted.current : 0;
    answer(null, { current, ttl: remaining(windowMs) });
  }

  /** One for each limit. */
  child(): WindowCounter {
    return new WindowCounter();
  }
}

function windowStart(windowMs: number): number {
  const now = Date.now();
  return now - (now % windowMs);
}

function remaining(windowMs: number): number {
  return windowMs - (Date.now() % windowMs);
}
