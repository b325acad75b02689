/** How much of the CPU of one case another one takes, turn by turn, and the median of the turns in which the load generator was on time. */
import { median } from './figures.js';
import { type Result, wasLate } from './rig.js';

interface Turn {
  ratio: number;
  late: boolean;
}

export class Ratios {
  private readonly turns = new Map<string, Turn[]>();

  /** Two turns in a row. Returns a sentence about them. */
  add(name: string, result: Result, reference: Result): string {
    const turn = {
      ratio: (result.cpuPerCall ?? 0) / (reference.cpuPerCall ?? 1),
      late: wasLate(result) || wasLate(reference),
    };
    this.turns.set(name, [...(this.turns.get(name) ?? []), turn]);
    return `${name}: ${turn.ratio.toFixed(2)}${turn.late ? ' (does not count: the load generator was late)' : ''}`;
  }

  text(): string {
    const lines = [...this.turns].map(([name, turns]) => {
      const onTime = turns.filter(({ late }) => !late);
      return `${name}: ${summary(onTime)} in ${onTime.length} of ${turns.length} turns; in all turns ${summary(turns)}`;
    });
    return lines.length === 0 ? '' : `\n${lines.join('\n')}`;
  }
}

function summary(turns: readonly Turn[]): string {
  const sorted = turns.map(({ ratio }) => ratio).sort((a, b) => a - b);
  if (sorted.length === 0) return '-';
  return `median ${median(sorted).toFixed(2)} (${sorted[0]!.toFixed(2)} to ${sorted.at(-1)!.toFixed(2)})`;
}
