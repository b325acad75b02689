import type { Spoken } from '../../../media/agents/agent.js';

/** Who writes down what a speaker says: the agent's provider, Trunkline by the setting `transcribe`, or an action of a webhook. */
export type TranscriptWriter = 'provider' | 'trunkline' | 'action';

/** The lines of a call, in the order in which they were spoken, even if their text arrived later. */
export class Transcript {
  readonly #lines: { line: Spoken; beganMs: number }[] = [];
  readonly #writers = new Map<Spoken['speaker'], TranscriptWriter>();

  /** Whether `writer` has this speaker: the first one that asks, until another agent talks. So nothing is written down twice. */
  isWrittenBy(writer: TranscriptWriter, speaker: Spoken['speaker']): boolean {
    const first = this.#writers.get(speaker) ?? writer;
    this.#writers.set(speaker, first);
    return first === writer;
  }

  /** Another agent talks from now on. */
  agentChanged(): void {
    this.#writers.clear();
  }

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
