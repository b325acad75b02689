import { StoreError } from '../../store/database/errors.js';
import type { Store } from '../../store/store.js';
import type { FundedCall } from '../../store/tenants/funds.js';
import type { CallFunds } from '../core/funding.js';
import type { Ending } from '../core/outcome.js';

export type CallAdmission = { funds: CallFunds | null; refusal: null } | { funds: null; refusal: Ending };

/** Whether the organization may have this call, whose record is already written: checks its limit of calls and its balance. */
export function admit(
  store: Pick<Store, 'organizations' | 'records' | 'accounts' | 'funds' | 'calls'>,
  call: FundedCall,
): CallAdmission {
  const refuse = (cause: Ending['cause'], detail: string): CallAdmission => ({
    funds: null,
    refusal: { cause, source: 'system', detail },
  });
  try {
    const atOnce = store.organizations.get(call.organizationId)?.limits.concurrent_calls ?? null;
    // The count includes this call.
    if (atOnce !== null && store.records.running(call) > atOnce)
      return refuse('concurrency_limit', `The organization may have ${atOnce} calls at once.`);
    if (store.accounts.rateFor(call.organizationId, call.direction, call.toNumber) === undefined)
      return { funds: null, refusal: null };
  } catch (error) {
    if (error instanceof StoreError) return { funds: null, refusal: null }; // the store cannot be read at the moment: calls are admitted
    throw error;
  }
  try {
    if (!store.calls.flush()) return refuse('overload', 'The balance cannot be asked now.');
    const reserved = store.funds.reserve(call);
    if (reserved.ok) return { funds: reserved.funds, refusal: null };
    return refuse('insufficient_balance', 'The balance does not pay for this call.');
  } catch (error) {
    if (error instanceof StoreError) return refuse('overload', 'The balance cannot be asked now.');
    throw error;
  }
}
