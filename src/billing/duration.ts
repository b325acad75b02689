/**
 * The whole seconds of an answered call, from its 200 to its end; rounded, and at least 1: carriers bill every call that was answered, and a
 * record of 0 says that it never was.
 */
export function talkedSec(talkedMs: number): number {
  return Math.max(1, Math.round(talkedMs / 1000));
}
