/**
 * The resampler's inner loop with eight multiplications at once (SIMD), which JavaScript lacks: a WebAssembly function of some hundred bytes,
 * written here as its instructions. Each thread has its own instance. One multiplication at a time took five times as long.
 */

/** The part of the API that is used; TypeScript declares it in the browser's types. */
declare const WebAssembly: {
  Module: new (program: Uint8Array) => object;
  Instance: new (
    module: object,
  ) => { exports: { memory: { buffer: ArrayBuffer }; filter: (...args: number[]) => number } };
};

const pages = 2;
const pageBytes = 65_536;
/** Taps are fixed-point numbers with this many fraction bits: 32 bit sums hold every sample times a gain of 3. */
const tapBits = 14;
const tapsAtOnce = 8;
/** Longer input is filtered in blocks. */
export const blockSamples = 4096;
const mostUp = 6;
const mostHistory = 512;

const [i32, v128] = [0x7f, 0x7b];
const local = (index: number) => [0x20, index];
const set = (index: number) => [0x21, index];
const constant = (value: number) => [0x41, ...signed(value)];
const [add, subtract, shiftRight, atLeast, lessThan, moreThan] = [0x6a, 0x6b, 0x75, 0x4e, 0x48, 0x4a];
const select = 0x1b;
const loadVector = [0xfd, 0x00, 0, 0];
const addVectors = [0xfd, 0xae, 0x01];
/** i32x4.dot_i16x8_s: eight products, added up in pairs. */
const multiplyAndAdd = [0xfd, 0xba, 0x01];
const zeroVector = [...constant(0), 0xfd, 0x11];
const lane = (vector: number, index: number) => [...local(vector), 0xfd, 0x1b, index];
const loop = (...body: number[]) => [0x03, 0x40, ...body, 0x0b];
const when = (...body: number[]) => [0x04, 0x40, ...body, 0x0b];
const again = (depth: number) => [0x0c, depth];
const againIf = (depth: number) => [0x0d, depth];

/** Addresses and lengths in bytes. */
const [from, end, taps, tapBytes, phase, downBytes, upBytes, to, into, sum, sums] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/** For each output sample, `phase` selects the taps and how far `from` advances. Returns the end of the output. */
const filter = loop(
  ...[...local(from), ...local(end), lessThan],
  ...when(
    ...[...zeroVector, ...set(sums), ...constant(0), ...set(into)],
    ...loop(
      ...[...local(from), ...local(into), add, ...loadVector],
      ...[...local(taps), ...local(phase), add, ...local(into), add, ...loadVector],
      ...[...multiplyAndAdd, ...local(sums), ...addVectors, ...set(sums)],
      ...[...local(into), ...constant(2 * tapsAtOnce), add, ...set(into)],
      ...[...local(into), ...local(tapBytes), lessThan, ...againIf(0)],
    ),
    ...[...lane(sums, 0), ...lane(sums, 1), add, ...lane(sums, 2), add, ...lane(sums, 3), add],
    ...[...constant(1 << (tapBits - 1)), add, ...constant(tapBits), shiftRight, ...set(sum)],
    ...[...constant(32767), ...local(sum), ...local(sum), ...constant(32767), moreThan, select, ...set(sum)],
    ...[...constant(-32768), ...local(sum), ...local(sum), ...constant(-32768), lessThan, select, ...set(sum)],
    ...[...local(to), ...local(sum), 0x3b, 1, 0], // i32.store16
    ...[...local(to), ...constant(2), add, ...set(to)],
    ...[...local(phase), ...local(downBytes), add, ...set(phase)],
    ...loop(
      ...[...local(phase), ...local(upBytes), atLeast],
      ...when(
        ...[...local(phase), ...local(upBytes), subtract, ...set(phase)],
        ...[...local(from), ...constant(2), add, ...set(from)],
        ...again(1),
      ),
    ),
    ...again(1),
  ),
);

const text = (value: string) => [value.length, ...Buffer.from(value)];
const section = (id: number, ...body: number[]) => [id, ...unsigned(body.length), ...body];
const code = [2, 2, i32, 1, v128, ...filter, ...local(to), 0x0b];
const program = Uint8Array.from([
  ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  ...section(1, 1, 0x60, 8, ...new Array<number>(8).fill(i32), 1, i32),
  ...section(3, 1, 0),
  ...section(5, 1, 0, pages),
  ...section(7, 2, ...text('memory'), 2, 0, ...text('filter'), 0, 0),
  ...section(10, 1, ...unsigned(code.length), ...code),
]);

const { exports } = new WebAssembly.Instance(new WebAssembly.Module(program));
const { filter: run, memory } = exports;
const { buffer } = memory;
const inputAt = 0;
const input = new Int16Array(buffer, inputAt, mostHistory + blockSamples);
const outputAt = input.byteLength;
const output = new Int16Array(buffer, outputAt, (blockSamples + 1) * mostUp);
let freeAt = outputAt + output.byteLength;

/** The taps of a polyphase filter, in the memory of the loop. */
export class Taps {
  /** Taps per phase; the caller's history is one shorter. */
  readonly length: number;
  private readonly at = freeAt;
  private readonly phases: number;

  /** Phases of equal length with a sum of 1 each, the newest sample's tap last. */
  constructor(phases: readonly Float64Array[]) {
    this.phases = phases.length;
    const own = phases[0]?.length ?? 0;
    this.length = Math.ceil(own / tapsAtOnce) * tapsAtOnce;
    const bytes = 2 * this.length * this.phases;
    if (this.at + bytes > pages * pageBytes || this.length > mostHistory) throw new Error('There is no room for taps.');
    freeAt += bytes;
    for (const [index, phase] of phases.entries()) {
      const whole = new Int16Array(buffer, this.at + 2 * this.length * index, this.length);
      for (const [i, tap] of phase.entries()) whole[this.length - own + i] = Math.round(tap * (1 << tapBits));
      // The rounding error is added to the largest tap, where it matters least: a constant passes unchanged.
      const rest = (1 << tapBits) - whole.reduce((total, tap) => total + tap, 0);
      const largest = whole.indexOf(Math.max(...whole));
      whole[largest] = whole[largest]! + rest;
    }
  }

  /**
   * Filters `samples` (at most `blockSamples`), which follow `history` (`length` - 1 samples), from position `index` and `phase` on, using
   * every `down`-th phase. The next call on this thread, by any filter, overwrites the result.
   */
  filter(history: Int16Array, samples: Int16Array, index: number, phase: number, down: number): Int16Array {
    input.set(history);
    input.set(samples, history.length);
    const phaseBytes = 2 * this.length;
    const outputEnd = run(
      ...([inputAt + 2 * index, inputAt + 2 * samples.length, this.at, phaseBytes] as const),
      ...([phase * phaseBytes, down * phaseBytes, this.phases * phaseBytes, outputAt] as const),
    );
    history.set(input.subarray(samples.length, samples.length + history.length));
    return output.subarray(0, (outputEnd - outputAt) >> 1);
  }
}

function unsigned(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >> 7)];
}

function signed(value: number): number[] {
  const last = value >= -64 && value < 64;
  return last ? [value & 0x7f] : [(value & 0x7f) | 0x80, ...signed(value >> 7)];
}
