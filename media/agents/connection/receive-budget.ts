/**
 * Limits what one agent can make this thread read. Over the budget of a window, the socket is paused until the window ends, and TCP slows the
 * agent down: a burst of minutes of audio passes, and a flood does not affect other calls. Garbage above its own rate ends the agent.
 */
export interface ReceiveLimits {
  windowMs: number;
  messagesPerWindow: number;
  bytesPerWindow: number;
  garbagePerSec: number;
}

export class ReceiveBudget {
  readonly #limits: ReceiveLimits;
  readonly #socket: { pause(): void; resume(): void };
  #timer: NodeJS.Timeout | undefined;
  #windowEndsAt = 0;
  #messages = 0;
  #bytes = 0;
  #garbageSecondEndsAt = 0;
  #garbage = 0;

  constructor(limits: ReceiveLimits, socket: { pause(): void; resume(): void }) {
    this.#limits = limits;
    this.#socket = socket;
  }

  /** Over the budget: the socket is not read. */
  get paused(): boolean {
    return this.#timer !== undefined;
  }

  message(bytes: number, now: number): void {
    if (now >= this.#windowEndsAt) {
      this.#windowEndsAt = now + this.#limits.windowMs;
      this.#messages = 0;
      this.#bytes = 0;
    }
    this.#messages += 1;
    this.#bytes += bytes;
    const over = this.#messages > this.#limits.messagesPerWindow || this.#bytes > this.#limits.bytesPerWindow;
    if (over && this.#timer === undefined) this.#pause(this.#windowEndsAt - now);
  }

  /** False when there was more garbage within a second than a working agent sends. */
  garbage(): boolean {
    const now = performance.now();
    if (now >= this.#garbageSecondEndsAt) {
      this.#garbageSecondEndsAt = now + 1000;
      this.#garbage = 0;
    }
    this.#garbage += 1;
    return this.#garbage <= this.#limits.garbagePerSec;
  }

  stop(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#socket.resume();
  }

  #pause(forMs: number): void {
    this.#socket.pause();
    this.#timer = setTimeout(() => this.stop(), forMs);
  }
}
