import type { Spoken } from '../../../media/agents/agent.js';

/** What was said in a call, in the order in which it was said: what was written down late stands where it belongs. */
export class Transcript {
  readonly #lines: { line: Spoken; beganMs: number }[] = [];

  /** `beganMs`: when its speaking began; absent: after all others. */
  add({ speaker, text, beganMs = Number.POSITIVE_INFINITY }: Spoken & { beganMs?: number }): void {
    const before = this.#lines.findLastIndex((each) => each.beganMs <= beganMs);
    this.#lines.splice(before + 1, 0, { line: { speaker, text }, beganMs });
  }

  get lines(): Spoken[] {
    return this.#lines.map(({ line }) => line);
  }

  /** As it stands in the record; null: nothing was said, or nobody wrote it down. */
  get text(): string | null {
    if (this.#lines.length === 0) return null;
    return this.#lines.map(({ line }) => `${line.speaker}: ${line.text}`).join('\n');
  }
}
