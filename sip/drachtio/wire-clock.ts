/**
 * When a message crossed the wire, on the clock of `performance.now()`. The SIP server writes the time of day beside each message; our own
 * server runs on this machine's clock, so its word counts and a busy main thread moves no moment of the record.
 */

export interface WireClock {
  /** When the server sent what it was given at `handedOverMs`. */
  sentMs(timeOfDay: string | undefined, handedOverMs: number): number;
  /** When the server received a message. */
  receivedMs(timeOfDay: string | undefined): number;
}

/** For a server on this machine. A time that its clock cannot mean (the wall clock was set meanwhile) does not count. */
export const sharedClock: WireClock = {
  sentMs(timeOfDay, handedOverMs) {
    const nowMs = performance.now();
    const atMs = nowMs - (ageMs(timeOfDay) ?? nowMs - handedOverMs);
    return Math.max(handedOverMs, atMs);
  },
  receivedMs: (timeOfDay) => performance.now() - (ageMs(timeOfDay) ?? 0),
};

/** For a server whose clock is another machine's: what counts is when we handed the message over, or were given it. */
export const foreignClock: WireClock = {
  sentMs: (_timeOfDay, handedOverMs) => handedOverMs,
  receivedMs: () => performance.now(),
};

const dayMs = 86_400_000;
/** No message waits longer than this between the server's thread and ours. */
const mostMs = 60_000;

/** How long ago that time of day (`HH:MM:SS.uuuuuu`, UTC) was; null: unreadable, or not of the last minute. */
function ageMs(timeOfDay: string | undefined): number | null {
  const [, hours, minutes, seconds] = /^(\d\d):(\d\d):(\d\d(?:\.\d+)?)$/.exec(timeOfDay ?? '') ?? [];
  if (seconds === undefined) return null;
  const atMs = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000;
  const age = ((Date.now() % dayMs) - atMs + dayMs) % dayMs;
  return age <= mostMs ? age : null;
}
