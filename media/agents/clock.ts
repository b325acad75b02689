/** Milliseconds on a monotonic clock that all threads share. */
export function clockMs(): number {
  return performance.timeOrigin + performance.now();
}
