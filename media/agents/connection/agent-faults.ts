/** What an agent sent that could not be used: the first of each kind is a warning, and all are counted. */
export class AgentFaults {
  count = 0;
  readonly #warned = new Set<string>();

  /** `isBearable`: the rate of unreadable messages is still one of a working agent. `tooMany` ends the agent. */
  constructor(
    private readonly report: (code: string, message: string) => void,
    private readonly isBearable: () => boolean,
    private readonly tooMany: () => void,
  ) {}

  warn(code: string, message: string): void {
    if (this.#warned.has(code)) return;
    this.#warned.add(code);
    this.report(code, message);
  }

  garbage(code: string, message: string): void {
    this.count += 1;
    this.warn(code, message);
    if (!this.isBearable()) this.tooMany();
  }
}
