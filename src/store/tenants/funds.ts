import { costOf, microcentsPerCent, type Rate } from '../../billing/rate.js';
import type { Database, Reads } from '../database/database.js';
import type { Direction } from '../database/tables.js';
import type { Admission } from '../journal/entries.js';
import type { Accounts } from './accounts.js';
import { extendHold, planHold } from './holds.js';
import type { Mode } from './scope.js';

/** The call to be paid for. */
export interface FundedCall {
  callId: string;
  organizationId: string;
  mode: Mode;
  direction: Direction;
  /** The called number. */
  toNumber: string;
}

/** Money held for a running call. */
export interface HeldFunds {
  /** Seconds of conversation that are paid for so far. */
  readonly fundedSec: number;
  /** How long the call goes on when no more money can be asked for. */
  readonly graceSec: number;
  /** Holds more. Resolves with the new `fundedSec`: the same as before when nothing is left. Rejects with `StoreError` if it cannot be asked. */
  extend(): Promise<number>;
}

/**
 * Reserves balance for calls. A reservation reduces the available balance in the same transaction, so that concurrent calls never spend more
 * than the balance; the charge at the end never exceeds the reservation.
 */
export class Funds {
  constructor(
    private readonly database: Database,
    private readonly accounts: Accounts,
    private readonly graceSec: number,
    private readonly reserved: (callId: string, data: Record<string, unknown>) => void,
  ) {}

  /** The rate that holds for a call; null: it costs nothing. */
  rateOf(call: Omit<FundedCall, 'callId'>): Rate | null {
    if (call.mode === 'test') return null;
    return this.accounts.rateFor(call.organizationId, call.direction, call.toNumber) ?? null;
  }

  /** Would a hold succeed now, and what does the least of such a call cost? */
  async check(
    call: Omit<FundedCall, 'callId'>,
    reads: Reads = this.database,
  ): Promise<{ ok: boolean; balanceMicrocents: number; requiredMicrocents: number }> {
    const rate = this.rateOf(call);
    if (rate === null) return { ok: true, balanceMicrocents: 0, requiredMicrocents: 0 };
    const plan = await planHold(reads, call.organizationId, rate);
    if (plan.kind === 'no_balance') return { ok: false, ...plan };
    return { ok: true, balanceMicrocents: 0, requiredMicrocents: costOf(rate, rate.initialIncrementSec) };
  }

  /** What was held for an admitted call, and its event; null if the call is free or the organization is not metered. */
  held(callId: string, admission: Extract<Admission, { kind: 'admitted' }>): HeldFunds | null {
    const { fundedSec: firstSec, heldMicrocents } = admission;
    if (firstSec === null) return null;
    this.reserved(callId, { amount: heldMicrocents / microcentsPerCent, funded_seconds: firstSec });
    let fundedSec = firstSec;
    const extend = () => this.database.transaction((transaction) => extendHold(transaction, callId));
    return {
      graceSec: this.graceSec,
      get fundedSec() {
        return fundedSec;
      },
      async extend() {
        fundedSec = Math.max(fundedSec, await extend());
        return fundedSec;
      },
    };
  }
}
