import type { OutboundCall, OutboundCalls } from '../../call/core/outbound-request.js';
import type { Transaction } from '../../store/database/database.js';
import type { Store } from '../../store/store.js';
import type { Caller } from '../auth/caller.js';
import type { OutboundRules, RequestedCall } from './outbound-rules.js';

export type RequestedOutboundCall = RequestedCall &
  Omit<OutboundCall, 'begun' | 'organizationId' | 'mode' | 'toNumber' | 'fromNumber' | 'endpointId' | 'record'> & {
    /** Default: the setting of the endpoint. */
    record?: boolean | null;
  };

/**
 * Creates the record of a call and reserves its balance if the call is allowed, else throws the error. The call itself begins with `start`,
 * after the transaction is committed. `within`: the transaction to do so in.
 */
export async function startOutbound(
  { store, outboundCalls, now }: { store: Store; outboundCalls?: OutboundCalls; now: () => number },
  rules: OutboundRules,
  { scope, organization }: Caller,
  asked: RequestedOutboundCall,
  within?: Transaction,
): Promise<{ callId: string; start: () => void }> {
  const { toNumber, fromNumber, metadata } = asked;
  const startedAtMs = performance.now();
  const createdAt = new Date(now());
  if (within === undefined) await store.calls.flush(); // calls that began before count
  // One transaction for checks and record, so that concurrent requests cannot exceed a limit.
  const { endpoint, begun } = await store.transaction(async (transaction) => {
    const { endpoint, phoneNumberId } = await rules.allow(scope, organization, asked, transaction);
    const direction = 'outbound' as const;
    const about = { ...scope, direction, fromNumber, toNumber, phoneNumberId, endpointId: endpoint.id };
    const rate = store.funds.rateOf({ ...scope, direction, toNumber });
    const question = { concurrentCalls: null, rate };
    const begun = await store.calls.beginWithin(transaction, { ...about, metadata, createdAt }, question);
    return { endpoint, begun };
  }, within);
  const { id, admission, committed } = begun;
  if (admission.kind !== 'admitted') throw new Error('the balance could not be reserved although the checks passed');
  const start = () => {
    committed();
    outboundCalls?.start({
      ...asked,
      ...scope,
      begun: { id, createdAt, startedAtMs, funds: store.funds.held(id, admission) },
      endpointId: endpoint.id,
      record: asked.record ?? null,
    });
  };
  return { callId: id, start };
}
