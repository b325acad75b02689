import type { Transaction } from './database.js';

/** The records of calls whose ids were made in one month (UTC), kept together so that they can go together. */
export interface CallMonth {
  /** For messages: `2026-11`. */
  name: string;
  /** In milliseconds since 1970; 0 for the first one, which has everything older. */
  fromMs: number;
  toMs: number;
  /** Ids of calls from this one on, and below the other. */
  fromId: string;
  toId: string;
  /** The table that has its calls. */
  calls: string;
}

/** Months of calls, where the database keeps them apart. */
export interface CallMonths {
  /** Makes room for the calls of this month and of the next ones. Idempotent. */
  makeAhead(): Promise<void>;
  /** Those that ended before this time, oldest first. */
  endedBefore(ms: number): Promise<CallMonth[]>;
  /** Drops calls, events, traces and quality samples of the month. Rejects with `StoreError` `unavailable` if a long read is in the way. */
  drop(transaction: Transaction, month: CallMonth): Promise<void>;
}
