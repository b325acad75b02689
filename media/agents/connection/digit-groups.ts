/** DTMF keys on their way to an agent: one by one, or in groups for an agent that answers each message as a turn. */
export class DigitGroups {
  #digits = '';
  #timer: NodeJS.Timeout | undefined;

  /** `pauseMs`: a group ends when no key came for this long, or with `#`; null: each key is a group. */
  constructor(
    private readonly pauseMs: number | null,
    private readonly after: (ms: number, fn: () => void) => NodeJS.Timeout,
    private readonly send: (digits: string) => void,
  ) {}

  press(digit: string): void {
    if (this.pauseMs === null) {
      this.send(digit);
      return;
    }
    this.#digits += digit;
    clearTimeout(this.#timer);
    if (digit === '#') this.#end();
    else this.#timer = this.after(this.pauseMs, () => this.#end());
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #end(): void {
    const digits = this.#digits;
    this.#digits = '';
    this.send(digits);
  }
}
