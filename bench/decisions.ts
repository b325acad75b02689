/**
 * What two unusual pieces of code gain over the plain ones (ADR 6 and ADR 9): the resampler's inner loop in WebAssembly over the same loop in
 * JavaScript, and field names of stored JSON rewritten as text over parsing and serializing. In turns; processor time of this thread.
 * Run: `npm run build && node dist/bench/decisions.js`
 */
import { Taps } from '../media/audio/dsp/convolve.js';
import { inSnakeCase, snakeCase } from '../src/api/present/stored-names.js';

const ROUNDS = 9;

/** Microseconds of each way per call: the median of rounds in turns. */
function compare(title: string, times: number, ways: Record<string, () => unknown>): void {
  const figures = new Map(Object.keys(ways).map((name): [string, number[]] => [name, []]));
  for (let round = -1; round < ROUNDS; round++) {
    for (const [name, way] of Object.entries(ways)) {
      const before = process.cpuUsage();
      for (let i = 0; i < times; i++) way();
      const { user, system } = process.cpuUsage(before);
      if (round >= 0) figures.get(name)?.push((user + system) / times);
    }
  }
  const medians = [...figures].map(
    ([name, all]) => `${name} ${(all.sort((a, b) => a - b)[ROUNDS >> 1] ?? 0).toFixed(2)}`,
  );
  console.log(`${title.padEnd(44)} ${medians.join(' µs, ')} µs`);
}

/** The loop of `media/audio/dsp/convolve.ts`, one multiplication after the other. */
class PlainTaps {
  readonly length: number;
  readonly #phases: Int16Array[];
  readonly #input = new Int16Array(4096 + 512);
  readonly #output = new Int16Array(4097 * 6);

  constructor(phases: readonly Float64Array[]) {
    this.length = Math.ceil((phases[0]?.length ?? 0) / 8) * 8;
    this.#phases = phases.map((phase) => {
      const whole = new Int16Array(this.length);
      whole.set(
        Array.from(phase, (tap) => Math.round(tap * 16_384)),
        this.length - phase.length,
      );
      return whole;
    });
  }

  filter(history: Int16Array, samples: Int16Array, index: number, phase: number, down: number): Int16Array {
    const { length } = this;
    const input = this.#input;
    const output = this.#output;
    input.set(history);
    input.set(samples, history.length);
    let count = 0;
    let at = phase;
    for (let from = index; from < samples.length; ) {
      const taps = this.#phases[at]!;
      let sum = 0;
      for (let i = 0; i < length; i++) sum = (sum + input[from + i]! * taps[i]!) | 0;
      sum = (sum + 8192) >> 14;
      output[count++] = sum > 32_767 ? 32_767 : sum < -32_768 ? -32_768 : sum;
      for (at += down; at >= this.#phases.length; at -= this.#phases.length) from += 1;
    }
    history.set(input.subarray(samples.length, samples.length + history.length));
    return output.subarray(0, count);
  }
}

for (const [fromHz, up, down] of [
  [8000, 2, 1],
  [8000, 3, 1],
  [24_000, 1, 3],
  [48_000, 1, 6],
] as const) {
  const each = Math.ceil((32 * Math.max(up, down) + 1) / up);
  const phases = Array.from({ length: up }, (_, phase) =>
    Float64Array.from({ length: each }, (_, i) => (1 + Math.cos(phase + i)) / (2 * each)),
  );
  const [simd, plain] = [new Taps(phases), new PlainTaps(phases)];
  const samples = Int16Array.from({ length: fromHz / 50 }, (_, i) => 8000 * Math.sin(i / 5));
  const histories = [simd, plain].map(({ length }) => new Int16Array(length - 1));
  compare(`resample 20 ms from ${fromHz} to ${(fromHz * up) / down} Hz`, 5000, {
    WebAssembly: () => simd.filter(histories[0]!, samples, 0, 0, down),
    JavaScript: () => plain.filter(histories[1]!, samples, 0, 0, down),
  });
}

const renamed = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(renamed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [snakeCase[name] ?? name, renamed(inner)]));
};
for (const turns of [10, 100]) {
  const stored = JSON.stringify(
    Array.from({ length: turns }, (_, i) => ({
      ...{ speaker: i % 2 ? 'agent' : 'caller', startedAt: new Date(i * 1000).toISOString() },
      ...{ durationMs: 1234, responseMs: 567 },
    })),
  );
  const parsed = () => JSON.stringify(renamed(JSON.parse(stored)));
  if (parsed() !== inSnakeCase(stored)) throw new Error('The two ways differ.');
  compare(`names of ${turns} turns`, 50_000 / turns, { text: () => inSnakeCase(stored), parsed });
}
