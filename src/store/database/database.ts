/** What the store asks of a database. `sqlite/` and `postgres/` implement it; nothing else in the store knows which database it is. */
import type { Compilable, Kysely } from 'kysely';
import type { SqlDialect } from './dialect.js';
import type { Tables } from './tables.js';

/** The tables that every call looks up, and by which columns. */
export const rememberedBy = {
  endpoints: ['id'],
  phone_numbers: ['number', 'mode'],
  organizations: ['id'],
  rates: ['organization_id'],
} as const satisfies { [T in keyof Tables]?: readonly (keyof Tables[T])[] };
export type RememberedTable = keyof typeof rememberedBy;
export type RememberedKey<T extends RememberedTable> = Pick<
  Tables[T],
  (typeof rememberedBy)[T][number] & keyof Tables[T]
>;

/** Reads. SQL written by hand has `?` for its parameters and is used where building a query would cost more than running it. */
export interface Reads {
  /** Builds queries; runs none by itself. */
  readonly sql: Kysely<Tables>;
  readonly dialect: SqlDialect;
  all<R>(query: Compilable<R>): Promise<R[]>;
  get<R>(query: Compilable<R>): Promise<R | undefined>;
  rows<R>(sql: string, ...parameters: unknown[]): Promise<R[]>;
  row<R>(sql: string, ...parameters: unknown[]): Promise<R | undefined>;
  /** The rows as arrays of their columns. */
  tuples<R extends unknown[]>(sql: string, ...parameters: unknown[]): Promise<R[]>;
}

/** A change of many rows of a table, each found by the column `key`. */
export interface RowChange {
  table: keyof Tables;
  key: string;
  set: readonly string[];
  /** These keep their value when the new one is null. */
  setUnlessNull?: readonly string[];
  /** A condition on the row as it is. */
  where?: string;
  returning?: readonly string[];
}

/** Reads and writes that take effect together, or not at all. Functions that take part get it as an argument. */
export interface Transaction extends Reads {
  /** Returns the number of changed rows. */
  run(query: Compilable<unknown>): Promise<number>;
  write(sql: string, ...parameters: unknown[]): Promise<number>;
  /** Adds rows, all columns of a row in the order of `columns`; `onConflict` is the clause at the end of the statement. */
  insertAll(
    table: keyof Tables,
    columns: readonly string[],
    rows: readonly (readonly unknown[])[],
    onConflict?: string,
  ): Promise<void>;
  /**
   * Changes rows by their keys; each of `rows` has the key, then the new values in the order of `set` and `setUnlessNull`, and no key comes
   * twice. Returns what `returning` names of each changed row, in any order.
   */
  updateAll<R>(change: RowChange, rows: readonly (readonly unknown[])[]): Promise<R[]>;
  /** Deletes the rows with these values of a column. */
  deleteAll(table: keyof Tables, column: string, values: readonly unknown[]): Promise<void>;
  /** Makes every process ask anew what it remembers of endpoints, numbers, organizations and rates. */
  changedSettings(): Promise<void>;
}

export interface Database extends Reads {
  /** One statement in a transaction of its own; returns the number of changed rows. */
  run(query: Compilable<unknown>): Promise<number>;
  /**
   * All or nothing. Within `work` await nothing but the transaction: it holds the lock of every writer, and is rolled back after
   * 5 seconds. `within`: a transaction to take part in instead. Rejects with `StoreError` `unavailable`.
   */
  transaction<T>(work: (transaction: Transaction) => Promise<T>, within?: Transaction): Promise<T>;
  /** Several reads on one snapshot. */
  snapshot<T>(work: (reads: Reads) => Promise<T>): Promise<T>;
  /**
   * The rows of a settings table with this key, without waiting: from memory until this process or another one has changed one of these
   * tables. Shared and frozen.
   */
  remembered<T extends RememberedTable>(table: T, key: RememberedKey<T>): readonly Tables[T][];
}

export type Want = 'rows' | 'row' | 'tuples' | 'changes';

/** Runs one statement and returns what is wanted: rows, the first row or undefined, arrays, or the number of changed rows. */
export type Execute = (sql: string, parameters: readonly unknown[], want: Want) => Promise<unknown>;

const changeSettings = 'update settings_version set version = version + 1';

/** `Transaction` over a function that runs one statement. */
export class Statements implements Transaction {
  private hasChangedSettings = false;

  constructor(
    /** null in a thread that only runs hand-written SQL: loading Kysely takes longer than the rest of its start. */
    private readonly queries: Kysely<Tables> | null,
    private readonly execute: Execute,
    readonly dialect: SqlDialect,
  ) {}

  get sql(): Kysely<Tables> {
    if (this.queries === null) throw new Error('this thread builds no queries');
    return this.queries;
  }

  all<R>(query: Compilable<R>): Promise<R[]> {
    return this.compiled(query, 'rows') as Promise<R[]>;
  }

  get<R>(query: Compilable<R>): Promise<R | undefined> {
    return this.compiled(query, 'row') as Promise<R | undefined>;
  }

  rows<R>(sql: string, ...parameters: unknown[]): Promise<R[]> {
    return this.execute(sql, parameters, 'rows') as Promise<R[]>;
  }

  row<R>(sql: string, ...parameters: unknown[]): Promise<R | undefined> {
    return this.execute(sql, parameters, 'row') as Promise<R | undefined>;
  }

  tuples<R extends unknown[]>(sql: string, ...parameters: unknown[]): Promise<R[]> {
    return this.execute(sql, parameters, 'tuples') as Promise<R[]>;
  }

  run(query: Compilable<unknown>): Promise<number> {
    return this.compiled(query, 'changes') as Promise<number>;
  }

  write(sql: string, ...parameters: unknown[]): Promise<number> {
    return this.execute(sql, parameters, 'changes') as Promise<number>;
  }

  async insertAll(
    table: keyof Tables,
    columns: readonly string[],
    rows: readonly (readonly unknown[])[],
    onConflict = '',
  ): Promise<void> {
    const sql = `insert into ${table} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')}) ${onConflict}`;
    for (const row of rows) await this.execute(sql, row, 'changes');
  }

  async updateAll<R>(change: RowChange, rows: readonly (readonly unknown[])[]): Promise<R[]> {
    const { table, key, set, setUnlessNull = [], where = 'true', returning } = change;
    const assignments = [
      ...set.map((name) => `${name} = ?`),
      ...setUnlessNull.map((name) => `${name} = coalesce(?, ${name})`),
    ];
    const sql = `update ${table} set ${assignments.join(', ')} where ${key} = ? and ${where}`;
    if (returning === undefined) {
      for (const [id, ...values] of rows) await this.execute(sql, [...values, id], 'changes');
      return [];
    }
    const changed: R[] = [];
    for (const [id, ...values] of rows)
      changed.push(
        ...((await this.execute(`${sql} returning ${returning.join(', ')}`, [...values, id], 'rows')) as R[]),
      );
    return changed;
  }

  async deleteAll(table: keyof Tables, column: string, values: readonly unknown[]): Promise<void> {
    for (const value of values) await this.execute(`delete from ${table} where ${column} = ?`, [value], 'changes');
  }

  async changedSettings(): Promise<void> {
    if (this.hasChangedSettings) return;
    this.hasChangedSettings = true;
    await this.write(changeSettings);
  }

  private compiled(query: Compilable<unknown>, want: Want): Promise<unknown> {
    const { sql, parameters } = query.compile();
    return this.execute(sql, parameters, want);
  }
}
