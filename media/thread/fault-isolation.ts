/** Isolates sessions from each other's exceptions: every callback of a socket or a timer runs inside `guarded`. */

/** Where an exception occurred: `media` ends the session, `agent` only the agent. */
export type FaultPlace = 'media' | 'agent';

/** Wraps `fn` so that its exceptions go to `onFault`. */
export function guarded<A extends unknown[]>(
  onFault: (error: unknown) => void,
  fn: (...args: A) => void,
): (...args: A) => void {
  return (...args) => {
    try {
      fn(...args);
    } catch (error) {
      onFault(error);
    }
  };
}
