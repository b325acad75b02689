/** Endpoints by name, for choices and links. */
import { answerOf, api } from './client';
import { allPages, pageSize } from './pages';
import { useQuery } from './query';
import type { Endpoint } from './types';

export function allEndpoints(signal: AbortSignal): Promise<Endpoint[]> {
  return allPages((offset) =>
    answerOf(api.GET('/v1/endpoints', { params: { query: { limit: pageSize, offset } }, signal })),
  );
}

/** The name of an endpoint by its id; undefined while the names are loaded, and for one that was deleted. */
export function useEndpointNames(): (id: string) => string | undefined {
  const { data } = useQuery('endpoint names', allEndpoints);
  return (id) => data?.find((endpoint) => endpoint.id === id)?.name;
}
