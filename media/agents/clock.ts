/** Milliseconds by a clock that is the same on all threads and is never set. */
export function clockMs(): number {
  return performance.timeOrigin + performance.now();
}
