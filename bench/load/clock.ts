/** Milliseconds that mean the same in every process of the machine (CLOCK_MONOTONIC), with a fraction. */
performance.now(); // the first call is slow
const offsetMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

export function machineMs(): number {
  return performance.now() + offsetMs;
}
