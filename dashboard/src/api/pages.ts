/** Lists of `{data, total, limit, offset}`, page by page. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface ListPage<T> {
  data: T[];
  total: number;
}

export interface Pages<T> {
  rows: T[];
  /** How many there are in all; null until the first page is there. */
  total: number | null;
  error: Error | null;
  /** Asks for the next page, if there is one. */
  more(): void;
  /** Begins again with the first page; what is shown stays until it is there. */
  reload(): void;
}

/** The most that the API gives at once. */
export const pageSize = 100;

/** Asks for the first page when `key` changes, and for the others on `more`. */
export function usePages<T extends { id?: unknown }>(
  key: string,
  ask: (offset: number, signal: AbortSignal) => Promise<ListPage<T>>,
): Pages<T> {
  const [state, setState] = useState<{ key: string; rows: T[]; total: number | null; error: Error | null }>({
    ...{ key, rows: [], total: null, error: null },
  });
  const [round, setRound] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  const running = useRef<AbortController | null>(null);
  const load = useCallback(
    (offset: number) => {
      running.current?.abort();
      const stop = new AbortController();
      running.current = stop;
      latest.current(offset, stop.signal).then(
        ({ data, total }) => {
          if (stop.signal.aborted) return;
          running.current = null;
          setState((before) => {
            const kept = offset === 0 ? [] : before.rows;
            const known = new Set(kept.map(({ id }) => id)); // a new record shifts the pages
            return { key, rows: [...kept, ...data.filter(({ id }) => !known.has(id))], total, error: null };
          });
        },
        (error: Error) => !stop.signal.aborted && setState((before) => ({ ...before, key, error })),
      );
    },
    [key],
  );
  useEffect(() => {
    setState((before) => (before.key === key ? before : { key, rows: [], total: null, error: null }));
    load(0);
    return () => running.current?.abort();
  }, [key, round]);
  const shown = state.key === key ? state : { rows: [], total: null, error: null };
  const isWhole = shown.total === null || shown.rows.length >= shown.total;
  const more = useCallback(() => {
    if (!isWhole && running.current === null) load(shown.rows.length);
  }, [isWhole, shown.rows.length, load]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  return { rows: shown.rows, total: shown.total, error: shown.error, more, reload };
}

/** All pages, at most ten. */
export async function allPages<T>(ask: (offset: number) => Promise<ListPage<T>>): Promise<T[]> {
  const rows: T[] = [];
  for (let page = 0; page < 10; page += 1) {
    const { data, total } = await ask(rows.length);
    rows.push(...data);
    if (data.length === 0 || rows.length >= total) break;
  }
  return rows;
}
