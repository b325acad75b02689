/** A bad network for the packets we send: loss, jitter, reordering, duplicates, drawn from a seed so that a run can be repeated. */

export interface Impairments {
  /** Of all packets. */
  lossPercent?: number;
  /** Lost packets come in runs of so many on average (Gilbert's model); each by itself when absent. */
  burstPackets?: number;
  /** Each packet is held back by a random time from 0 to this; the order stays. */
  jitterMs?: number;
  /** Held back long enough for the next packet to overtake. */
  reorderPercent?: number;
  /** Sent twice. */
  duplicatePercent?: number;
  /** Default 1. */
  seed?: number;
}

/** What was done, to compare with what the far side says. */
export interface ImpairmentCounts {
  dropped: number;
  reordered: number;
  duplicated: number;
}

export interface Timers {
  now(): number;
  after(delayMs: number, fn: () => void): { cancel(): void };
}

export const realTimers: Timers = {
  now: () => performance.now(),
  after: (delayMs, fn) => {
    const timer = setTimeout(fn, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

export class ImpairedPath {
  readonly counts: ImpairmentCounts = { dropped: 0, reordered: 0, duplicated: 0 };
  private readonly random: () => number;
  private readonly waiting = new Set<{ cancel(): void }>();
  /** Those that keep their order, the oldest first: each timer lets the first go, for timers themselves may overtake each other. */
  private readonly held: (() => void)[] = [];
  private lastReleaseMs = 0;
  private losing = false;

  constructor(
    private readonly impairments: Impairments,
    private readonly send: (packet: Uint8Array) => void,
    /** A reordered packet waits for one and a half of these. */
    private readonly packetMs: number,
    private readonly timers: Timers = realTimers,
  ) {
    this.random = seeded(impairments.seed ?? 1);
  }

  /** Takes the packet over. */
  forward(packet: Uint8Array): void {
    const { jitterMs = 0, reorderPercent = 0, duplicatePercent = 0 } = this.impairments;
    if (this.isLost()) {
      this.counts.dropped += 1;
      return;
    }
    const nowMs = this.timers.now();
    let releaseMs = Math.max(nowMs + (jitterMs > 0 ? this.random() * jitterMs : 0), this.lastReleaseMs);
    const overtaken = this.happens(reorderPercent);
    if (overtaken) {
      this.counts.reordered += 1;
      releaseMs = Math.max(releaseMs, nowMs) + jitterMs + this.packetMs * 1.5;
    } else this.lastReleaseMs = releaseMs;
    const copies = this.happens(duplicatePercent) ? 2 : 1;
    this.counts.duplicated += copies - 1;
    const release = () => {
      for (let i = 0; i < copies; i++) this.send(packet);
    };
    if (releaseMs - nowMs < 0.5 && this.held.length === 0) {
      release();
      return;
    }
    if (!overtaken) this.held.push(release);
    const timer = this.timers.after(releaseMs - nowMs, () => {
      this.waiting.delete(timer);
      if (overtaken) release();
      else this.held.shift()?.();
    });
    this.waiting.add(timer);
  }

  /** What still waits is never sent. */
  close(): void {
    for (const timer of this.waiting) timer.cancel();
    this.waiting.clear();
    this.held.length = 0;
  }

  /** In bursts: a run ends with one chance in its length, and begins so often that the share is what was asked for. */
  private isLost(): boolean {
    const { lossPercent = 0, burstPackets = 1 } = this.impairments;
    if (burstPackets <= 1 || lossPercent === 0) return this.happens(lossPercent);
    const share = Math.min(lossPercent / 100, 0.99);
    const begins = share / ((1 - share) * burstPackets);
    this.losing = this.losing ? !this.happens(100 / burstPackets) : this.happens(begins * 100);
    return this.losing;
  }

  private happens(percent: number): boolean {
    return percent > 0 && this.random() * 100 < percent;
  }
}

/** Uniform in [0, 1): mulberry32. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
