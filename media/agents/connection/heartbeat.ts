/**
 * Pings, and learns two things from the answers. An agent that was not heard for too long, in any way, is `lost`: a half-open socket. An
 * agent whose pong is overdue has not read what was sent before the ping: the network's own buffers take minutes of G.711 before our side
 * of the socket would notice.
 */
export class Heartbeat {
  readonly #ping: () => void;
  readonly #lost: () => void;
  readonly #intervalMs: number;
  readonly #limitMs: number;
  #timer: NodeJS.Timeout | undefined;
  #heardAt = 0;
  #pingedAt: number | undefined;
  #answers = false;

  /** `limitMs`: silence after which the far side counts as gone; a multiple of `intervalMs`. */
  constructor(o: { ping: () => void; lost: () => void; intervalMs: number; limitMs: number }) {
    this.#ping = o.ping;
    this.#lost = o.lost;
    this.#intervalMs = o.intervalMs;
    this.#limitMs = o.limitMs;
  }

  start(): void {
    this.#heardAt = performance.now();
    this.#sendPing();
    this.#arm(this.#intervalMs);
  }

  /** A message arrived. */
  heard(): void {
    this.#heardAt = performance.now();
  }

  pong(): void {
    this.heard();
    this.#answers = true;
    this.#pingedAt = undefined;
  }

  /** How long the agent has left a ping unanswered; 0 for one that never answers pings, of which nothing is known. */
  unansweredMs(): number {
    return this.#answers && this.#pingedAt !== undefined ? performance.now() - this.#pingedAt : 0;
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
    this.#sendPing();
  }

  #sendPing(): void {
    this.#pingedAt ??= performance.now();
    this.#ping();
  }
}
