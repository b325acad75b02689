/**
 * Sends pings and draws two conclusions. An agent that sent nothing at all for too long is `lost`: the socket is half-open. An agent with an
 * overdue pong has not read what was sent before the ping: the network's buffers hold minutes of G.711 before our side of the socket would
 * notice.
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

  /** `limitMs`: silence after which the agent counts as lost; a multiple of `intervalMs`. */
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
  heard(nowMs: number): void {
    this.#heardAt = nowMs;
  }

  pong(): void {
    this.heard(performance.now());
    this.#answers = true;
    this.#pingedAt = undefined;
  }

  /** How long the last ping is unanswered; 0 for an agent that never answers pings, since then nothing is known. */
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
    // Our own thread was late: messages that arrived meanwhile are still unread, so the silence proves nothing yet.
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
