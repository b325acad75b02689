import { affordableSec, billedSec, costOf, microcentsPerCent, type Rate } from '../../billing/rate.js';
import type { Database } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { CallFundsRow, Direction } from '../database/tables.js';
import type { Accounts } from './accounts.js';
import type { Mode } from './scope.js';

/** The time reserved at once: the first minute, and another minute whenever it runs out. */
const holdSec = 60;

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
  /** Holds more. Answers the new `fundedSec`: the same as before when nothing is left. */
  extend(): number;
}

export type Reservation =
  /** `funds` is null if the call is free or the organization is not metered. */
  { ok: true; funds: HeldFunds | null } | { ok: false; balanceMicrocents: number; requiredMicrocents: number };

/**
 * Reserves balance for calls. A reservation reduces the available balance in the same transaction, so that concurrent calls never spend more
 * than the balance; the charge at the end never exceeds the reservation.
 */
export class Funds {
  constructor(
    private readonly database: Database,
    private readonly accounts: Accounts,
    private readonly tell: {
      /** A call will be settled at its end. */
      rated(callId: string): void;
      reserved(callId: string, data: Record<string, unknown>): void;
    },
  ) {}

  /** Would `reserve` succeed now, and what does the least of such a call cost? */
  check(call: Omit<FundedCall, 'callId'>): { ok: boolean; balanceMicrocents: number; requiredMicrocents: number } {
    const plan = this.plan(call);
    if (plan === null) return { ok: true, balanceMicrocents: 0, requiredMicrocents: 0 };
    if (!plan.ok) return plan;
    const { rate } = plan;
    return { ok: true, balanceMicrocents: 0, requiredMicrocents: costOf(rate, rate.initialIncrementSec) };
  }

  /** Notes the rate of a call that has begun and holds money for its first minute, or for as much of it as there is. */
  reserve(call: FundedCall): Reservation {
    return this.database.transaction(() => {
      const plan = this.plan(call);
      if (plan === null) return { ok: true, funds: null };
      if (!plan.ok) return plan;
      const { rate, fundedSec } = plan;
      const row: CallFundsRow = {
        call_id: call.callId,
        organization_id: call.organizationId,
        microcents_per_minute: rate.microcentsPerMinute,
        initial_increment_s: rate.initialIncrementSec,
        increment_s: rate.incrementSec,
        funded_s: fundedSec,
        held_microcents: fundedSec === null ? 0 : costOf(rate, fundedSec),
      };
      this.database.run(this.database.sql.insertInto('call_funds').values(row));
      this.tell.rated(call.callId);
      if (fundedSec === null) return { ok: true, funds: null };
      this.tell.reserved(call.callId, { amount: row.held_microcents / microcentsPerCent, funded_seconds: fundedSec });
      return { ok: true, funds: this.held(call.callId, call.organizationId, fundedSec) };
    });
  }

  /** What a call has cost, in the transaction of its end, in micro-cents; null: it has no rate. Once: later it answers null. */
  settle(callId: string, durationSec: number): number | null {
    const row = this.row(callId);
    if (row === undefined) return null;
    const cost = costOf(rateOf(row), durationSec);
    const charged = row.funded_s === null ? cost : Math.min(cost, row.held_microcents);
    this.database.run(this.database.sql.deleteFrom('call_funds').where('call_id', '=', callId));
    if (charged > 0) {
      if (row.funded_s !== null) this.accounts.charge(row.organization_id, callId, charged);
      this.accounts.spend(row.organization_id, charged);
    }
    return charged;
  }

  /** null without a rate. `fundedSec` is null with a rate if the organization is not metered. */
  private plan(
    call: Omit<FundedCall, 'callId'>,
  ): { ok: true; rate: Rate; fundedSec: number | null } | Extract<Reservation, { ok: false }> | null {
    if (call.mode === 'test') return null;
    const rate = this.accounts.rateFor(call.organizationId, call.direction, call.toNumber);
    if (rate === undefined) return null;
    const required = costOf(rate, rate.initialIncrementSec);
    const { microcents, heldMicrocents } = this.accounts.balance(call.organizationId);
    if (microcents === null || rate.microcentsPerMinute === 0) return { ok: true, rate, fundedSec: null };
    const free = microcents - heldMicrocents;
    const fundedSec = Math.min(billedSec(rate, holdSec), affordableSec(rate, free));
    if (fundedSec <= 0) return { ok: false, balanceMicrocents: free, requiredMicrocents: required };
    return { ok: true, rate, fundedSec };
  }

  private held(callId: string, organizationId: string, fundedSec: number): HeldFunds {
    const extend = (): number => this.extend(callId, organizationId);
    return {
      get fundedSec() {
        return fundedSec;
      },
      extend() {
        try {
          fundedSec = Math.max(fundedSec, extend());
        } catch (error) {
          if (!(error instanceof StoreError)) throw error; // locked: what is held so far stays held
        }
        return fundedSec;
      },
    };
  }

  private extend(callId: string, organizationId: string): number {
    return this.database.transaction(() => {
      const row = this.row(callId);
      if (!row || row.funded_s === null) return 0;
      const rate = rateOf(row);
      const { microcents, heldMicrocents } = this.accounts.balance(organizationId);
      const mine = (microcents ?? 0) - heldMicrocents + row.held_microcents;
      const fundedSec = Math.min(billedSec(rate, row.funded_s + holdSec), affordableSec(rate, mine));
      if (fundedSec <= row.funded_s) return row.funded_s;
      const set = { funded_s: fundedSec, held_microcents: costOf(rate, fundedSec) };
      this.database.run(this.database.sql.updateTable('call_funds').set(set).where('call_id', '=', callId));
      return fundedSec;
    });
  }

  private row(callId: string): CallFundsRow | undefined {
    return this.database.get(this.database.sql.selectFrom('call_funds').selectAll().where('call_id', '=', callId));
  }
}

function rateOf(row: CallFundsRow): Rate {
  return {
    microcentsPerMinute: row.microcents_per_minute,
    initialIncrementSec: row.initial_increment_s,
    incrementSec: row.increment_s,
  };
}
