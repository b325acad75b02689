/**
 * The time a message crossed the wire, on the clock of `performance.now()`. The SIP server writes the time of day beside each message. Our
 * own server uses this machine's clock, so its times are exact, and a busy main thread shifts no timestamp of the record.
 */

export interface WireClock {
  /** The time the server sent a message that it was given at `handedOverMs`. */
  sentMs(timeOfDay: string | undefined, handedOverMs: number): number;
  /** The time the server received a message. */
  receivedMs(timeOfDay: string | undefined): number;
}

/** For a server on this machine. An implausible time (the wall clock was set meanwhile) is ignored. */
export const sharedClock: WireClock = {
  sentMs(timeOfDay, handedOverMs) {
    const nowMs = performance.now();
    const atMs = nowMs - (ageMs(timeOfDay) ?? nowMs - handedOverMs);
    return Math.max(handedOverMs, atMs);
  },
  receivedMs: (timeOfDay) => performance.now() - (ageMs(timeOfDay) ?? 0),
};

/** For a server with another machine's clock: the time we handed the message over, or received it from the server. */
export const foreignClock: WireClock = {
  sentMs: (_timeOfDay, handedOverMs) => handedOverMs,
  receivedMs: () => performance.now(),
};

const dayMs = 86_400_000;
/** No message takes longer than this between the server's thread and ours. */
const mostMs = 60_000;

/** The age of a time of day (`HH:MM:SS.uuuuuu`, UTC); null when it cannot be parsed, or is older than a minute. */
function ageMs(timeOfDay: string | undefined): number | null {
  const [, hours, minutes, seconds] = /^(\d\d):(\d\d):(\d\d(?:\.\d+)?)$/.exec(timeOfDay ?? '') ?? [];
  if (seconds === undefined) return null;
  const atMs = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000;
  const age = ((Date.now() % dayMs) - atMs + dayMs) % dayMs;
  return age <= mostMs ? age : null;
}
