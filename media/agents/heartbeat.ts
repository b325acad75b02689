/** Finds a half-open socket: pings while nothing is heard, and calls `lost` when nothing was heard for too long. */
export class Heartbeat {
  readonly #ping: () => void;
  readonly #lost: () => void;
  readonly #intervalMs: number;
  readonly #limitMs: number;
  #timer: NodeJS.Timeout | undefined;
  #heardAt = 0;

  /** `limitMs`: silence after which the far side counts as gone; a multiple of `intervalMs`. */
  constructor(o: { ping: () => void; lost: () => void; intervalMs: number; limitMs: number }) {
    this.#ping = o.ping;
    this.#lost = o.lost;
    this.#intervalMs = o.intervalMs;
    this.#limitMs = o.limitMs;
  }

  start(): void {
    this.#heardAt = performance.now();
    this.#arm(this.#intervalMs);
  }

  /** Anything arrived: a message or a pong. */
  heard(): void {
    this.#heardAt = performance.now();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #arm(afterMs: number): void {
    const dueAt = performance.now() + afterMs;
    this.#timer = setTimeout(() => this.#tick(performance.now() - dueAt), afterMs);
  }

  #tick(lateMs: number): void {
    // Our own thread was held up: what arrived meanwhile is still unread, so the silence proves nothing yet.
    if (lateMs > this.#intervalMs) this.#heardAt = performance.now();
    const silentMs = performance.now() - this.#heardAt;
    if (silentMs >= this.#limitMs) {
      this.#lost();
      return;
    }
    this.#arm(Math.min(this.#intervalMs, this.#limitMs - silentMs));
    this.#ping();
  }
}
