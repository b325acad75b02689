/** No exception of one session may reach another: every callback of a socket or a timer runs inside a guard. */

export type FaultPlace = 'media' | 'agent';

/** Calls the function; what it throws goes to the session's fault handler instead of up. */
export interface Guard {
  <A extends unknown[]>(place: FaultPlace, fn: (...args: A) => void): (...args: A) => void;
}

export function createGuard(onFault: (place: FaultPlace, error: unknown) => void): Guard {
  return (place, fn) =>
    (...args) => {
      try {
        fn(...args);
      } catch (error) {
        onFault(place, error);
      }
    };
}
