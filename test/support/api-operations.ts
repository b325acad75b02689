/** The operations of the API as its own description lists them, and what it takes to ask each of them. */
import type { TestApi } from './api.js';

export interface DescribedOperation {
  method: string;
  path: string;
  operationId: string;
  description: string;
  isPublic: boolean;
  /** A JSON body. */
  takesBody: boolean;
}

export const absentId = '0198aaaa-0000-7000-8000-00000000dead';

export async function describedOperations(api: TestApi): Promise<DescribedOperation[]> {
  const { body } = await api.request('GET', '/openapi.json', { key: null });
  const paths = Object.entries<
    Record<string, { operationId: string; security?: unknown[]; description: string; requestBody?: object }>
  >(body.paths);
  return paths.flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId, description, security }]) => ({
      method: method.toUpperCase(),
      path,
      operationId,
      description,
      isPublic: security?.length === 0,
      takesBody: ['post', 'put', 'patch'].includes(method) && !path.endsWith('/transcribe'),
    })),
  );
}

/** A record of organization A for each path with an id, by the path's second word. */
export async function sampleRecords(api: TestApi): Promise<Record<string, string>> {
  const ids: Record<string, string> = {};
  const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
  const { store } = api;
  const webhook = await store.endpoints.create(scope, {
    name: 'W',
    type: 'webhook',
    target: 'https://example.com/calls',
    provider: null,
    providerConfig: { events_url: 'https://example.com/events' },
  });
  const { record } = await store.endpoints.create(scope, {
    name: 'E',
    type: 'agent',
    target: 'wss://agent.example.com',
    provider: 'custom',
    providerConfig: {},
  });
  ids.endpoints = record.id;
  ids.organizations = api.a.organizationId;
  ids['phone-numbers'] = (await store.phoneNumbers.create(scope, { number: '+15551112222', endpointId: record.id })).id;
  const trunk = await api.request('POST', '/v1/trunks', { body: { name: 'T', addresses: ['192.0.2.1'] } });
  ids.trunks = trunk.body.id;
  const key = { userId: api.a.userId, organizationId: api.a.organizationId, mode: 'live', name: 'other' } as const;
  ids['api-keys'] = (await store.apiKeys.create(key)).record.id;
  ids.calls = store.calls.begin({
    ...scope,
    direction: 'inbound',
    fromNumber: 'x',
    toNumber: 'y',
    phoneNumberId: ids['phone-numbers'],
    endpointId: record.id,
  });
  const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 0 } as const;
  store.calls.finish(ids.calls, end);
  const told = { fromNumber: 'x', toNumber: 'y', phoneNumberId: ids['phone-numbers'], endpointId: webhook.record.id };
  store.calls.begin({ ...scope, ...told, direction: 'inbound' });
  await store.calls.flush();
  ids['webhook-deliveries'] =
    (await store.webhookDeliveries.list(scope, {}, { limit: 1, offset: 0 })).data[0]?.id ?? '';
  return ids;
}

/** The path of an operation, for a record. */
export function pathOf({ path }: DescribedOperation, id: string): string {
  return path.replace('{id}', id).replace('{member_id}', absentId);
}

/** Asks for an operation about a record of `ids`, with a body that it takes; `options` have the last word. */
export function askFor(
  api: TestApi,
  operation: DescribedOperation,
  ids: Record<string, string>,
  options: object,
  id = ids[kindOf(operation)] ?? '',
) {
  const body = operation.takesBody && { body: bodyFor(operation) };
  return api.request(operation.method, pathOf(operation, id), { ...body, ...options });
}

/** The kind of record that an operation is about. */
export function kindOf({ path }: DescribedOperation): string {
  return path.split('/')[2] ?? '';
}

export function bodyFor({ path, method }: DescribedOperation): object {
  if (path.endsWith('/rates')) return { rates: [] };
  if (path.endsWith('/credits')) return { amount_cents: 1, note: 'x' };
  if (path.endsWith('/members')) return { subject: 'someone', role: 'member' };
  if (path === '/v1/outbound-calls')
    return { to_number: '+15551234567', from_number: '+15551112222', endpoint_id: absentId };
  if (path.endsWith('/simulate')) return { from: '+15551234567', to: '+15551112222' };
  if (path === '/v1/organizations') return { name: 'New' };
  if (path === '/v1/simulator/calls') return { to: '+15550009999' };
  if (path.endsWith('/dtmf')) return { digits: '1' };
  if (path.endsWith('/redact')) return { on: true };
  if (path.endsWith('/transfer')) return { to: '+15551234567' };
  if (path.endsWith('/redirect')) return { actions: [] };
  if (method === 'PATCH') return { name: 'Taken over' };
  if (path === '/v1/endpoints') return { name: 'New', type: 'webhook', target: 'https://example.com/calls' };
  if (path === '/v1/phone-numbers') return { number: '+15559990000' };
  if (path === '/v1/trunks') return { name: 'New' };
  return path === '/v1/api-keys' ? { name: 'New', mode: 'test' } : {};
}
