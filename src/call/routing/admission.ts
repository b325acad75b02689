import type { Logger } from '../../log.js';
import type { NewCall } from '../../store/calls/calls.js';
import { StoreError } from '../../store/database/errors.js';
import type { Admission } from '../../store/journal/entries.js';
import type { Store } from '../../store/store.js';
import type { Call } from '../core/call.js';
import type { CallFunds } from '../core/funding.js';
import type { Ending } from '../core/outcome.js';

export type CallAdmission = { funds: CallFunds | null; refusal: null } | { funds: null; refusal: Ending };

/** A call whose record is queued, and whether it may go on. */
export interface AskedAdmission {
  id: string;
  /** Settles within 2 seconds. */
  admission: Promise<CallAdmission>;
}

/** How long a call waits for its record to be on disk before it is answered. */
const commitWaitMs = 250;
/** How long a call waits for its money: without a hold it could not be paid for. */
const holdWaitMs = 2_000;
/** So long after a call that did not wait for its record the process counts as degraded. */
const recentMs = 60_000;

type Parts = Pick<Store, 'organizations' | 'calls' | 'funds'>;

/** Begins calls: the record, the organization's cap on calls, and its money, asked for together. */
export class Admissions {
  /** Calls that went on although their record was not on disk in time. */
  fromMemory = 0;
  #lastFromMemoryMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly store: Parts,
    private readonly log: Pick<Logger, 'warn'>,
  ) {}

  /** Whether a call went on from memory within the last minute. */
  get isDegraded(): boolean {
    return performance.now() - this.#lastFromMemoryMs < recentMs;
  }

  /** Queues the record and the questions. Throws `StoreError` `unavailable` if no call may begin. */
  begin(call: NewCall): AskedAdmission {
    const { organizations, funds, calls } = this.store;
    const organization = organizations.get(call.organizationId);
    const rate = funds.rateOf(call);
    const question = { concurrentCalls: organization?.limits.concurrent_calls ?? null, rate };
    const isPaid = rate !== null && rate.microcentsPerMinute > 0 && (organization?.isMetered ?? true);
    const { id, admission } = calls.beginAdmitted(call, question);
    return { id, admission: this.#answer(id, admission, isPaid) };
  }

  async #answer(id: string, asked: Promise<Admission>, isPaid: boolean): Promise<CallAdmission> {
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<null>((resolve) => {
      timer = setTimeout(resolve, isPaid ? holdWaitMs : commitWaitMs, null);
    });
    try {
      const admission = await Promise.race([asked, limit]);
      if (admission === null) return this.#unanswered(id, isPaid);
      if (admission.kind === 'admitted') return { funds: this.store.funds.held(id, admission), refusal: null };
      if (admission.kind === 'full')
        return refused('concurrency_limit', `The organization may have ${admission.concurrentCalls} calls at once.`);
      return refused('insufficient_balance', 'The balance does not pay for this call.');
    } catch (error) {
      if (error instanceof StoreError) return this.#unanswered(id, isPaid);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #unanswered(id: string, isPaid: boolean): CallAdmission {
    if (isPaid) return refused('overload', 'The balance cannot be asked now.');
    this.fromMemory += 1;
    this.#lastFromMemoryMs = performance.now();
    this.log.warn({ call_id: id }, 'a call goes on although its record is not on disk yet');
    return { funds: null, refusal: null };
  }
}

/** Ends a call that is refused, and gives the others their money. */
export async function settleAdmission(call: Call, asked: Promise<CallAdmission>): Promise<void> {
  const { funds, refusal } = await asked;
  call.admitted();
  if (refusal !== null) call.end(refusal);
  else call.fund(funds);
}

function refused(cause: Ending['cause'], detail: string): CallAdmission {
  return { funds: null, refusal: { cause, source: 'system', detail } };
}
