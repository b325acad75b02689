/** The place in the dashboard: a path and a query in the fragment of the URL, which no server sees. */
import { useEffect, useState } from 'preact/hooks';

export interface Place {
  path: string[];
  query: URLSearchParams;
}

export function placeOf(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?');
  return { path: path.split('/').filter((part) => part !== ''), query: new URLSearchParams(query) };
}

/** The link to a place; empty values are left out of the query. */
export function linkTo(path: string, query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const text = new URLSearchParams(given).toString();
  return `#/${path}${text === '' ? '' : `?${text}`}`;
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => placeOf(location.hash));
  useEffect(() => {
    const changed = () => setPlace(placeOf(location.hash));
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return place;
}

/** Changes the query without a new entry in the history. */
export function replaceQuery(path: string, query: Record<string, string | undefined>): void {
  history.replaceState(null, '', linkTo(path, query));
  dispatchEvent(new HashChangeEvent('hashchange'));
}
