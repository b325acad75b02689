/**
 * The whole seconds of an answered call, from its 200 to its end, rounded, at least 1: carriers bill every answered call, and a duration of 0
 * means that the call was never answered.
 */
export function talkedSec(talkedMs: number): number {
  return Math.max(1, Math.round(talkedMs / 1000));
}
