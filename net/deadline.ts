/**
 * Time limits for asynchronous work. `AbortSignal.any` with `AbortSignal.timeout` does not work on Node 20: only the signal itself
 * references the timer, so a garbage collection removes it and the wait never ends. Here the event loop holds a plain timer until the work
 * is over.
 */

/** The time limit passed first. */
export class DeadlineError extends Error {
  constructor(
    /** The subject of the error sentence: `the answer of the speech server`. */
    readonly what: string,
    readonly limitMs: number,
  ) {
    super(`${what[0]?.toUpperCase() ?? ''}${what.slice(1)} did not come within ${limitMs / 1000} s.`);
    this.name = 'DeadlineError';
  }
}

/**
 * Runs `work` with a signal that aborts when `limitMs` have passed or when `parent` aborts, whichever is first. Settles as `work` does, or
 * rejects with the signal's reason as soon as it aborts: a `DeadlineError` or the reason of `parent`, even when the work ignores the
 * signal. Leaves neither timer nor listener behind.
 */
export async function withDeadline<T>(
  limitMs: number,
  what: string,
  parent: AbortSignal | null,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  parent?.throwIfAborted();
  const stop = new AbortController();
  const onParentAbort = () => stop.abort(parent?.reason);
  const timer = setTimeout(() => stop.abort(new DeadlineError(what, limitMs)), limitMs);
  parent?.addEventListener('abort', onParentAbort, { once: true });
  try {
    return await new Promise<T>((resolve, reject) => {
      stop.signal.addEventListener('abort', () => reject(stop.signal.reason), { once: true });
      work(stop.signal).then(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
    parent?.removeEventListener('abort', onParentAbort);
  }
}
