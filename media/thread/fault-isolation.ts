/** No exception of one session may reach another: every callback of a socket or a timer runs inside a guard. */

/** In whose path an exception came up: it ends the session, or only the agent. */
export type FaultPlace = 'media' | 'agent';

/** The function, but what it throws goes to `onFault`. */
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
