import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Query<T> {
  /** The last answer; kept while a newer one is asked for. */
  data: T | undefined;
  error: Error | null;
  isLoading: boolean;
  reload(): void;
}

/**
 * Asks when `key` changes and on `reload`, and again when `version` does: what is known of the key stays meanwhile. An answer that is no
 * longer wanted is dropped.
 */
export function useQuery<T>(key: string, ask: (signal: AbortSignal) => Promise<T>, version = ''): Query<T> {
  const [state, setState] = useState<{ key: string; data?: T; error: Error | null; isLoading: boolean }>({
    key,
    error: null,
    isLoading: true,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const stop = new AbortController();
    setState((before) => ({
      ...before,
      isLoading: true,
      ...(before.key !== key && { key, data: undefined, error: null }),
    }));
    latest.current(stop.signal).then(
      (data) => !stop.signal.aborted && setState({ key, data, error: null, isLoading: false }),
      (error: Error) =>
        !stop.signal.aborted && setState((before) => ({ key, data: before.data, error, isLoading: false })),
    );
    return () => stop.abort();
  }, [key, version, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  return { data: state.key === key ? state.data : undefined, error: state.error, isLoading: state.isLoading, reload };
}
