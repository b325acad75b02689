import type { OutboundCall, OutboundCalls } from '../../call/core/outbound-request.js';
import type { Store } from '../../store/store.js';
import type { Caller } from '../auth/caller.js';
import type { AskedCall, OutboundRules } from './outbound-rules.js';

export type AskedOutboundCall = AskedCall &
  Omit<OutboundCall, 'begun' | 'organizationId' | 'mode' | 'toNumber' | 'fromNumber' | 'endpointId' | 'record'> & {
    /** Default: the setting of the endpoint. */
    record?: boolean;
  };

/**
 * Creates the record of a call and reserves its balance if the call is allowed, else throws the error. The call itself begins with `start`,
 * after the transaction is committed.
 */
export function startOutbound(
  { store, outboundCalls, now }: { store: Store; outboundCalls?: OutboundCalls; now: () => number },
  rules: OutboundRules,
  { scope, organization }: Caller,
  asked: AskedOutboundCall,
): { callId: string; start: () => void } {
  const { toNumber, fromNumber, metadata } = asked;
  const startedAtMs = performance.now();
  const createdAt = new Date(now());
  // One transaction for checks and record, so that concurrent requests cannot exceed a limit.
  const started = store.transaction(() => {
    const { endpoint, phoneNumberId } = rules.allow(scope, organization, asked);
    const direction = 'outbound' as const;
    const about = { ...scope, direction, fromNumber, toNumber, phoneNumberId, endpointId: endpoint.id };
    const callId = store.calls.begin({ ...about, metadata, createdAt });
    const reserved = store.funds.reserve({ callId, ...scope, direction, toNumber });
    if (!reserved.ok) throw new Error('the balance could not be reserved although the checks passed');
    return { endpoint, begun: { id: callId, createdAt, startedAtMs, funds: reserved.funds } };
  });
  const { endpoint, begun } = started;
  const start = () =>
    outboundCalls?.start({
      ...asked,
      ...scope,
      begun,
      endpointId: endpoint.id,
      record: asked.record ?? endpoint.record,
    });
  return { callId: begun.id, start };
}
