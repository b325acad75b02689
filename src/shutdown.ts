/** The end of the process: balancers are told, new calls are refused, live calls may go on for a grace period, then they are hung up and everything is closed. */

export interface ShutdownSteps {
  /** From now on balancers are told to send no more calls; calls that come nevertheless are taken. */
  announce(): void;
  /** From now on new calls are refused. */
  refuseCalls(): void;
  /** Resolves when no call is left; hangs up the rest when `hangUp` aborts. */
  drain(hangUp: AbortSignal): Promise<void>;
  closeAll(): Promise<void>;
}

export class Shutdown {
  #isDraining = false;
  readonly #hangUp = new AbortController();
  readonly #refuse = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #hangUpAtMs = Number.POSITIVE_INFINITY;
  #begin!: () => void;
  /** Resolves when everything is closed. */
  readonly stopped: Promise<void>;

  /** `noticeMs`: from the announcement until new calls are refused, so that a balancer's probe finds out first. */
  constructor(
    steps: ShutdownSteps,
    private readonly noticeMs = 0,
  ) {
    const begun = new Promise<void>((resolve) => {
      this.#begin = resolve;
    });
    this.stopped = begun.then(async () => {
      this.#isDraining = true;
      steps.announce();
      await this.#notice();
      steps.refuseCalls();
      await steps.drain(this.#hangUp.signal);
      if (this.#timer !== null) clearTimeout(this.#timer);
      await steps.closeAll();
    });
  }

  /** Resolves when new calls are to be refused: after the notice, or when the grace period is over sooner. */
  #notice(): Promise<void> {
    const { signal } = this.#refuse;
    if (this.noticeMs === 0 || signal.aborted || this.#hangUp.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const over = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(over, this.noticeMs);
      signal.addEventListener('abort', over, { once: true });
    });
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Live calls have at most `graceMs` from now on. A later call can shorten that time, not extend it. */
  readonly stop = (graceMs: number): Promise<void> => {
    this.#begin();
    const atMs = performance.now() + graceMs;
    if (atMs < this.#hangUpAtMs) {
      this.#hangUpAtMs = atMs;
      if (this.#timer !== null) clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#hangUp.abort(), graceMs);
      if (graceMs <= this.noticeMs) this.#refuse.abort(); // there is no time for it
    }
    return this.stopped;
  };
}
