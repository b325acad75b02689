/** Outbound calls of a test app: what the API does when it is asked for one. */
import type { Mode } from '../../src/store/tenants/scope.js';
import type { TestApp } from './app.js';
import { undoBeforeNextTry } from './tries.js';

export interface OutboundWish {
  to: string;
  numberId: string;
  endpointId: string;
  from?: string;
  mode?: Mode;
  ringTimeoutMs?: number;
  maxDurationMs?: number;
  machineDetection?: 'off' | 'detect' | 'detect_message_end';
  onMachine?: 'talk' | 'hang_up';
}

/** Starts the call; answers its id. */
export function placeOutbound(app: TestApp, wish: OutboundWish): string {
  const organizationId = app.first?.organizationId ?? '';
  const { mode = 'live', from = '+12025550199' } = wish;
  const createdAt = new Date();
  const id = app.store.calls.begin({
    ...{ organizationId, mode, direction: 'outbound', fromNumber: from, toNumber: wish.to, createdAt },
    ...{ phoneNumberId: wish.numberId, endpointId: wish.endpointId },
  });
  app.outbound.start({
    begun: { id, createdAt, startedAtMs: performance.now(), funds: null },
    organizationId,
    mode,
    toNumber: wish.to,
    fromNumber: from,
    endpointId: wish.endpointId,
    ringTimeoutMs: wish.ringTimeoutMs ?? 5000,
    maxDurationMs: wish.maxDurationMs ?? 60_000,
    machineDetection: wish.machineDetection ?? 'off',
    onMachine: wish.onMachine ?? 'talk',
    metadata: {},
    record: false,
  });
  return id;
}

/** Adds a trunk that calls go out by; answers its id. */
export async function addTrunk(app: TestApp, uris: string[], change: Record<string, unknown> = {}): Promise<string> {
  const gateways = uris.map((uri, priority) => ({ uri, priority }));
  const body = { name: 'carrier', direction: 'outbound', gateways, ...change };
  const { id } = await app.api<{ id: string }>('POST', '/v1/trunks', body);
  undoBeforeNextTry(() => app.api('DELETE', `/v1/trunks/${id}`)); // the next try's calls are to leave by its own
  return id;
}
