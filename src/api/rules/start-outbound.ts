import type { OutboundCall, OutboundCalls } from '../../call/core/outbound-request.js';
import type { Store } from '../../store/store.js';
import type { Caller } from '../auth/caller.js';
import type { AskedCall, OutboundRules } from './outbound-rules.js';

export type AskedOutboundCall = AskedCall &
  Omit<OutboundCall, 'begun' | 'organizationId' | 'mode' | 'toNumber' | 'fromNumber' | 'endpointId' | 'record'> & {
    /** Absent: as the endpoint says. */
    record?: boolean;
  };

/**
 * Writes the record of a call and holds its money, if it is allowed; else throws the refusal. The call itself begins with `start`, once
 * all is on disk.
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
  // Nothing may come between the questions and the record: of calls that are asked for at once none passes a limit.
  const started = store.transaction(() => {
    const { endpoint, phoneNumberId } = rules.allow(scope, organization, asked);
    const direction = 'outbound' as const;
    const about = { ...scope, direction, fromNumber, toNumber, phoneNumberId, endpointId: endpoint.id };
    const callId = store.calls.begin({ ...about, metadata, createdAt });
    const reserved = store.funds.reserve({ callId, ...scope, direction, toNumber });
    if (!reserved.ok) throw new Error('a hold that was possible is no longer so');
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
