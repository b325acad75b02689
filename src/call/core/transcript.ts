import type { Spoken } from '../../../media/agents/agent.js';

/** The lines of a call, in the order in which they were spoken, even if their text arrived later. */
export class Transcript {
  readonly #lines: { line: Spoken; beganMs: number }[] = [];

  /** `beganMs`: when the speech began; absent: after all other lines. */
  add({ speaker, text, beganMs = Number.POSITIVE_INFINITY }: Spoken & { beganMs?: number }): void {
    const before = this.#lines.findLastIndex((each) => each.beganMs <= beganMs);
    this.#lines.splice(before + 1, 0, { line: { speaker, text }, beganMs });
  }

  get lines(): Spoken[] {
    return this.#lines.map(({ line }) => line);
  }

  /** The text for the record; null when there is no transcript. */
  get text(): string | null {
    if (this.#lines.length === 0) return null;
    return this.#lines.map(({ line }) => `${line.speaker}: ${line.text}`).join('\n');
  }
}
