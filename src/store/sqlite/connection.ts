import { chmodSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import type BetterSqlite3 from 'better-sqlite3';
import type { Kysely } from 'kysely';
import { type Execute, Statements, type Want } from '../database/database.js';
import { isPassing, StoreError } from '../database/errors.js';
import { migrations as allMigrations, type Migration } from '../database/migrations/index.js';
import type { Tables } from '../database/tables.js';
import { sqliteDialect } from './dialect.js';
import { loadDriver } from './driver.js';

/** How long a read waits for another process that recovers the file. Short: it blocks the thread of calls. */
const readWaitMs = 100;
/** At start another process may be migrating. */
const migrationWaitMs = 10_000;
const maxCachedStatements = 300;

/** How safe a commit is: `normal` survives the end of the process, `full` also the loss of power. */
export type Durability = 'normal' | 'full';

/** One connection to a SQLite file. Synchronous; statements are prepared once. */
export class SqliteConnection {
  private readonly statements = new Map<string, BetterSqlite3.Statement<unknown[]>>();
  private waitMs: number;

  private constructor(
    private readonly sqlite: BetterSqlite3.Database,
    waitMs: number,
  ) {
    this.waitMs = waitMs;
  }

  /** A connection that writes. The file exists and is migrated. */
  static writing(file: string, durability: Durability): SqliteConnection {
    const sqlite = new (loadDriver())(file, { timeout: 0, fileMustExist: true });
    sqlite.pragma(`synchronous = ${durability}`);
    // 64 MB: the checkpoint thread should have emptied the log long before
    sqlite.pragma('wal_autocheckpoint = 16000');
    sqlite.pragma('foreign_keys = ON');
    sqlite.pragma('temp_store = MEMORY');
    return new SqliteConnection(sqlite, 0);
  }

  /** A connection to a file that this process has migrated; it cannot write. */
  static reading(file: string): SqliteConnection {
    return new SqliteConnection(new (loadDriver())(file, { readonly: true, timeout: readWaitMs }), readWaitMs);
  }

  get inTransaction(): boolean {
    return this.sqlite.inTransaction;
  }

  /** Throws `StoreError` `unavailable` for an error of the moment, otherwise SQLite's own error. */
  execute(sql: string, parameters: readonly unknown[], want: Want): unknown {
    return attempt(() => {
      const statement = this.prepare(sql, want === 'tuples');
      if (want === 'changes') return statement.run(...parameters).changes;
      return want === 'row' ? statement.get(...parameters) : statement.all(...parameters);
    });
  }

  /** `waitMs`: how long to wait for the lock of another process. The lock is taken now, so that no snapshot is found outdated later. */
  begin(waitMs: number): void {
    this.setWait(waitMs);
    this.execute('begin immediate', [], 'changes');
  }

  beginReading(): void {
    this.execute('begin', [], 'changes');
  }

  commit(): void {
    this.execute('commit', [], 'changes');
  }

  /** Some errors, such as a full disk, have rolled back already. */
  rollback(): void {
    if (this.sqlite.inTransaction) this.execute('rollback', [], 'changes');
  }

  /** The statements of this connection as promises that are settled already. */
  promised(queries: Kysely<Tables>): Statements {
    const execute: Execute = (sql, parameters, want) => {
      try {
        return Promise.resolve(this.execute(sql, parameters, want));
      } catch (error) {
        return Promise.reject(error);
      }
    };
    return new Statements(queries, execute, sqliteDialect);
  }

  close(): void {
    this.statements.clear();
    this.sqlite.close();
  }

  private prepare(sql: string, raw: boolean): BetterSqlite3.Statement<unknown[]> {
    const key = raw ? `raw ${sql}` : sql;
    let statement = this.statements.get(key);
    if (!statement) {
      statement = this.sqlite.prepare<unknown[]>(sql);
      if (raw) statement = statement.raw();
      if (this.statements.size >= maxCachedStatements)
        this.statements.delete(this.statements.keys().next().value ?? '');
      this.statements.set(key, statement);
    }
    return statement;
  }

  private setWait(ms: number): void {
    if (ms === this.waitMs) return;
    this.sqlite.pragma(`busy_timeout = ${ms}`);
    this.waitMs = ms;
  }
}

/** A connection that brings the write-ahead log into the file, beside those that write. It is kept: opening one for each checkpoint costs a millisecond. */
export class CheckpointConnection {
  private readonly sqlite: BetterSqlite3.Database;

  /** Throws when the file does not exist or cannot be opened. */
  constructor(file: string) {
    this.sqlite = new (loadDriver())(file, { fileMustExist: true });
  }

  /** Repeats a checkpoint, `atMost` so many times, while others have written during it. Throws when the disk refuses. */
  run(atMost: number): void {
    for (let i = 0; i < atMost; i++) {
      const [done] = this.sqlite.pragma('wal_checkpoint(PASSIVE)') as { log: number; checkpointed: number }[];
      if (done === undefined || done.checkpointed >= done.log) return;
    }
  }

  close(): void {
    this.sqlite.close();
  }
}

/**
 * Creates the file if absent and brings it up to date; `onUpgrade` is called before a file of an older version is changed. Throws `StoreError`
 * `cannot_open`, `newer_schema` or `no_driver`.
 */
export function migrateFile(
  file: string,
  now: () => number,
  migrations: Readonly<Record<string, Migration>> = allMigrations,
  onUpgrade: (migrations: readonly string[]) => void = () => {},
): void {
  const Driver = loadDriver();
  let sqlite: BetterSqlite3.Database | undefined;
  try {
    mkdirSync(path.dirname(path.resolve(file)), { recursive: true, mode: 0o700 });
    sqlite = new Driver(file, { timeout: migrationWaitMs });
    chmodSync(file, 0o600); // it holds secrets of carriers and providers; its WAL inherits this
    useWriteAheadLog(sqlite);
    sqlite.pragma('foreign_keys = ON');
    migrate(sqlite, migrations, now, onUpgrade);
  } catch (error) {
    if (error instanceof StoreError) throw error;
    const { message } = error as Error;
    throw new StoreError('cannot_open', `Cannot open the database ${file}: ${message}`, {}, { cause: error });
  } finally {
    sqlite?.close();
  }
}

/** Of processes that start together one changes the mode; SQLite refuses the others at once, whatever their time-out. */
function useWriteAheadLog(sqlite: BetterSqlite3.Database): void {
  const untilMs = performance.now() + migrationWaitMs;
  for (;;) {
    try {
      sqlite.pragma('journal_mode = WAL');
      return;
    } catch (error) {
      if (!isPassing(error) || performance.now() > untilMs) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    }
  }
}

/** Converts transient SQLite errors to `StoreError` `unavailable`; other errors pass. */
function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!isPassing(error)) throw error;
    throw new StoreError('unavailable', 'The database cannot be used right now', {}, { cause: error });
  }
}

/**
 * Brings the schema up to date, in one transaction under the write lock: a process killed half way leaves the old schema, and of two
 * processes that start together one waits. (Kysely's own migrator does neither on SQLite.)
 */
function migrate(
  sqlite: BetterSqlite3.Database,
  migrations: Readonly<Record<string, Migration>>,
  now: () => number,
  onUpgrade: (migrations: readonly string[]) => void,
): void {
  sqlite
    .transaction(() => {
      sqlite.exec(
        'create table if not exists schema_migrations (name text primary key, applied_at integer not null) strict',
      );
      const applied = new Set(sqlite.prepare('select name from schema_migrations').pluck().all() as string[]);
      const unknown = [...applied].filter((name) => !(name in migrations));
      if (unknown.length > 0) {
        throw new StoreError(
          'newer_schema',
          `The database was written by a newer version (unknown migration ${unknown.join(', ')})`,
        );
      }
      const missing = Object.entries(migrations).filter(([name]) => !applied.has(name));
      if (applied.size > 0 && missing.length > 0) onUpgrade(missing.map(([name]) => name));
      for (const [name, migration] of missing) {
        for (const statement of migration.statements) sqlite.exec(statement);
        sqlite.prepare('insert into schema_migrations (name, applied_at) values (?, ?)').run(name, now());
      }
    })
    .immediate();
}
