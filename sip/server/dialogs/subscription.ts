import type { Timer } from '../transactions/timers.js';

/** The content of our SUBSCRIBE or NOTIFY, kept until its final response. */
export interface SubscriptionFields {
  event: string;
  /** Of SUBSCRIBE; null when absent. */
  expiresSec: number | null;
  /** Of NOTIFY. */
  isTerminated: boolean;
}

/** The subscription of one dialog; it counts as alive until it is stopped. */
export class Subscription {
  private timer: Timer | null = null;

  constructor(
    readonly event: string,
    private readonly ended: () => void,
  ) {}

  /** Replaces the timer that ends it. */
  lasts(timer: Timer): void {
    this.timer?.cancel();
    this.timer = timer;
  }

  /** The dialog has ended. */
  stop(): void {
    if (this.timer) this.ended();
    this.timer?.cancel();
    this.timer = null;
  }
}
