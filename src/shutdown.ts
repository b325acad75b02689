/** The end of the process: new calls are refused, live calls may go on for a grace period, then they are hung up and everything is closed. */

export interface ShutdownSteps {
  /** From now on new calls are refused. */
  refuseCalls(): void;
  /** Resolves when no call is left; hangs up the rest when `hangUp` aborts. */
  drain(hangUp: AbortSignal): Promise<void>;
  closeAll(): Promise<void>;
}

export class Shutdown {
  #isDraining = false;
  readonly #hangUp = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #hangUpAtMs = Number.POSITIVE_INFINITY;
  #begin!: () => void;
  /** Resolves when everything is closed. */
  readonly stopped: Promise<void>;

  constructor(steps: ShutdownSteps) {
    const begun = new Promise<void>((resolve) => {
      this.#begin = resolve;
    });
    this.stopped = begun.then(async () => {
      this.#isDraining = true;
      steps.refuseCalls();
      await steps.drain(this.#hangUp.signal);
      if (this.#timer !== null) clearTimeout(this.#timer);
      await steps.closeAll();
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
    }
    return this.stopped;
  };
}
