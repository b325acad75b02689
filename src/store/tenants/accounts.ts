import { microcentsPerCent, type Rate } from '../../billing/rate.js';
import type { Clock } from '../database/clock.js';
import type { Database, Reads, Transaction } from '../database/database.js';
import type { Direction, LedgerRow } from '../database/tables.js';
import { type Balance, balanceOf, post } from './holds.js';
import type { Page, Slice } from './scope.js';

/** A line of a rate card. */
export interface CardRate extends Rate {
  direction: Direction;
  /** Digits after `+`; empty for all numbers. The longest that fits the called number decides. */
  prefix: string;
}

export interface LedgerEntry {
  id: string;
  kind: 'credit' | 'call';
  amountMicrocents: number;
  balanceMicrocents: number;
  callId: string | null;
  note: string;
  createdAt: Date;
}

const dayMs = 86_400_000;

/** The balances of organizations, the rates of their calls, and the ledger of changes. */
export class Accounts {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  /** The whole card, from memory. */
  rates(organizationId: string): CardRate[] {
    const rows = [...this.database.remembered('rates', { organization_id: organizationId })];
    rows.sort((a, b) => (`${a.direction} ${a.prefix}` < `${b.direction} ${b.prefix}` ? -1 : 1));
    return rows.map((row) => ({
      direction: row.direction,
      prefix: row.prefix,
      microcentsPerMinute: row.microcents_per_minute,
      initialIncrementSec: row.initial_increment_s,
      incrementSec: row.increment_s,
    }));
  }

  /** Replaces the whole card. Running calls keep the rate they began with. */
  async setRates(organizationId: string, rates: readonly CardRate[]): Promise<void> {
    await this.database.transaction(async (transaction) => {
      const { sql } = transaction;
      await transaction.changedSettings();
      await transaction.run(sql.deleteFrom('rates').where('organization_id', '=', organizationId));
      for (const rate of rates) {
        await transaction.run(
          sql.insertInto('rates').values({
            organization_id: organizationId,
            direction: rate.direction,
            prefix: rate.prefix,
            microcents_per_minute: rate.microcentsPerMinute,
            initial_increment_s: rate.initialIncrementSec,
            increment_s: rate.incrementSec,
          }),
        );
      }
    });
  }

  /** The rate of a call, from memory; undefined: it costs nothing. */
  rateFor(organizationId: string, direction: Direction, calledNumber: string): CardRate | undefined {
    const digits = calledNumber.replace(/^\+/, '');
    let best: CardRate | undefined;
    for (const rate of this.rates(organizationId)) {
      if (rate.direction !== direction || !digits.startsWith(rate.prefix)) continue;
      if (best === undefined || rate.prefix.length > best.prefix.length) best = rate;
    }
    return best;
  }

  balance(organizationId: string, reads: Reads = this.database): Promise<Balance> {
    return balanceOf(reads, organizationId);
  }

  /** Adds to the balance, or deducts a negative amount; the organization is metered from its first credit on. */
  async credit(organizationId: string, cents: number, note: string, within?: Transaction): Promise<LedgerEntry> {
    const amount = Math.round(cents * microcentsPerCent);
    const nowMs = this.clock.now();
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings(); // whether it is metered is remembered
      return toEntry(await post(transaction, { organizationId, kind: 'credit', amount, callId: null, note, nowMs }));
    }, within);
  }

  /** Settled today (UTC). */
  async spentToday(organizationId: string, reads: Reads = this.database): Promise<number> {
    const row = await reads.get(
      reads.sql
        .selectFrom('spend_days')
        .select('microcents')
        .where('organization_id', '=', organizationId)
        .where('day', '=', Math.floor(this.clock.now() / dayMs)),
    );
    return row?.microcents ?? 0;
  }

  async ledger(organizationId: string, slice: Slice): Promise<Page<LedgerEntry>> {
    const entries = this.database.sql.selectFrom('ledger').where('organization_id', '=', organizationId);
    const rows = await this.database.all(
      entries.selectAll().orderBy('created_at', 'desc').orderBy('id', 'desc').limit(slice.limit).offset(slice.offset),
    );
    const counted = await this.database.get(entries.select((is) => is.fn.countAll<number>().as('total')));
    return { data: rows.map(toEntry), total: counted?.total ?? 0 };
  }
}

function toEntry(row: LedgerRow): LedgerEntry {
  return {
    id: row.id,
    kind: row.kind,
    amountMicrocents: row.amount_microcents,
    balanceMicrocents: row.balance_microcents,
    callId: row.call_id,
    note: row.note,
    createdAt: new Date(row.created_at),
  };
}
