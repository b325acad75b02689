import { uuidv7 } from 'uuidv7';
import { microcentsPerCent, type Rate } from '../../billing/rate.js';
import type { Clock } from '../database/clock.js';
import type { Database } from '../database/database.js';
import type { Direction, LedgerRow } from '../database/tables.js';
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

export interface Balance {
  /** null: not metered. */
  microcents: number | null;
  /** For running calls. */
  heldMicrocents: number;
}

const dayMs = 86_400_000;

/** The balances of organizations, the rates of their calls, and the ledger of changes. */
export class Accounts {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  rates(organizationId: string): CardRate[] {
    const rows = this.database.all(
      this.database.sql
        .selectFrom('rates')
        .selectAll()
        .where('organization_id', '=', organizationId)
        .orderBy('direction')
        .orderBy('prefix'),
    );
    return rows.map((row) => ({
      direction: row.direction,
      prefix: row.prefix,
      microcentsPerMinute: row.microcents_per_minute,
      initialIncrementSec: row.initial_increment_s,
      incrementSec: row.increment_s,
    }));
  }

  /** Replaces the whole card. Running calls keep the rate they began with. */
  setRates(organizationId: string, rates: readonly CardRate[]): void {
    this.database.transaction(() => {
      const { sql } = this.database;
      this.database.run(sql.deleteFrom('rates').where('organization_id', '=', organizationId));
      for (const rate of rates) {
        this.database.run(
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

  /** The rate of a call; undefined: it costs nothing. */
  rateFor(organizationId: string, direction: Direction, calledNumber: string): CardRate | undefined {
    // one query detects the usual case, no rates
    const sql = 'select 1 from rates where organization_id = ? and direction = ? limit 1';
    if (this.database.settingsRow(sql, organizationId, direction) === undefined) return undefined;
    const digits = calledNumber.replace(/^\+/, '');
    let best: CardRate | undefined;
    for (const rate of this.rates(organizationId)) {
      if (rate.direction !== direction || !digits.startsWith(rate.prefix)) continue;
      if (best === undefined || rate.prefix.length > best.prefix.length) best = rate;
    }
    return best;
  }

  balance(organizationId: string): Balance {
    const { sql } = this.database;
    const row = this.database.get(
      sql.selectFrom('organizations').select('balance_microcents').where('id', '=', organizationId),
    );
    const held = this.database.get(
      sql
        .selectFrom('call_funds')
        .select((is) => is.fn.sum<number | null>('held_microcents').as('held'))
        .where('organization_id', '=', organizationId)
        .where('held_microcents', '>', 0),
    );
    return { microcents: row?.balance_microcents ?? null, heldMicrocents: held?.held ?? 0 };
  }

  /** Adds to the balance, or deducts a negative amount; the organization is metered from its first credit on. */
  credit(organizationId: string, cents: number, note: string): LedgerEntry {
    return this.database.transaction(() => {
      const amount = Math.round(cents * microcentsPerCent);
      return this.post(organizationId, { kind: 'credit', amount, callId: null, note });
    });
  }

  /** What a call cost, in the transaction of its end. Only for metered organizations. */
  charge(organizationId: string, callId: string, microcents: number): void {
    this.post(organizationId, { kind: 'call', amount: -microcents, callId, note: '' });
  }

  /** Counts the cost of a call towards the day's spending. */
  spend(organizationId: string, microcents: number): void {
    this.database
      .prepare(
        'insert into spend_days (organization_id, day, microcents) values (?, ?, ?) on conflict do update set microcents = microcents + excluded.microcents',
      )
      .run(organizationId, this.today(), microcents);
  }

  /** Settled today (UTC). */
  spentToday(organizationId: string): number {
    const row = this.database.get(
      this.database.sql
        .selectFrom('spend_days')
        .select('microcents')
        .where('organization_id', '=', organizationId)
        .where('day', '=', this.today()),
    );
    return row?.microcents ?? 0;
  }

  ledger(organizationId: string, slice: Slice): Page<LedgerEntry> {
    const entries = this.database.sql.selectFrom('ledger').where('organization_id', '=', organizationId);
    const rows = this.database.all(
      entries.selectAll().orderBy('created_at', 'desc').orderBy('id', 'desc').limit(slice.limit).offset(slice.offset),
    );
    const counted = this.database.get(entries.select((is) => is.fn.countAll<number>().as('total')));
    return { data: rows.map(toEntry), total: counted?.total ?? 0 };
  }

  private post(
    organizationId: string,
    entry: { kind: LedgerRow['kind']; amount: number; callId: string | null; note: string },
  ): LedgerEntry {
    const row: LedgerRow = {
      id: uuidv7(),
      organization_id: organizationId,
      kind: entry.kind,
      amount_microcents: entry.amount,
      balance_microcents: (this.balance(organizationId).microcents ?? 0) + entry.amount,
      call_id: entry.callId,
      note: entry.note,
      created_at: this.clock.now(),
    };
    const { sql } = this.database;
    const set = { balance_microcents: row.balance_microcents };
    this.database.run(sql.updateTable('organizations').set(set).where('id', '=', organizationId));
    this.database.run(sql.insertInto('ledger').values(row));
    return toEntry(row);
  }

  private today(): number {
    return Math.floor(this.clock.now() / dayMs);
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
