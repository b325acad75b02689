import { chmodSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import type BetterSqlite3 from 'better-sqlite3';
import { type Compilable, DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely';
import { CheckpointThread } from './checkpoint-thread.js';
import { loadDriver } from './driver.js';
import { isPassing, StoreError } from './errors.js';
import { migrations as allMigrations, type Migration } from './migrations/index.js';
import type { Tables } from './tables.js';

/** How long a statement waits for another process's write lock. Short: the wait blocks this thread. */
const lockWaitMs = 100;
/** At start another process may be migrating. */
const migrationWaitMs = 10_000;
const maxCachedStatements = 300;
const settingsTables = ['endpoints', 'organizations', 'phone_numbers', 'rates'];
/** The limit of cached rows; lookups of unknown numbers are cached too. */
const mostRemembered = 10_000;

/**
 * One SQLite file. Kysely writes the SQL and its types; the statements run synchronously on better-sqlite3, so that a transaction is a
 * plain function which nothing can come between.
 */
export class Database {
  /** Builds queries; runs none by itself. */
  readonly sql: Kysely<Tables>;
  private readonly statements = new Map<string, BetterSqlite3.Statement<unknown[]>>();
  private readonly remembered = new Map<string, unknown>();
  private readonly versionOfOthers: BetterSqlite3.Statement<unknown[]>;
  private rememberedOfVersion: unknown = null;
  private waitMs = lockWaitMs;

  private constructor(
    private readonly sqlite: BetterSqlite3.Database,
    private readonly checkpoints: CheckpointThread | null,
    /** null: in memory. */
    private readonly file: { path: string; identity: string } | null,
  ) {
    this.versionOfOthers = sqlite.prepare<unknown[]>('pragma data_version').pluck();
    if (!sqlite.readonly) this.forgetWhatChanges();
    this.sql = new Kysely<Tables>({
      dialect: {
        createAdapter: () => new SqliteAdapter(),
        createDriver: () => new DummyDriver(),
        createIntrospector: (db) => new SqliteIntrospector(db),
        createQueryCompiler: () => new SqliteQueryCompiler(),
      },
    });
  }

  /** Opens and migrates. Throws `StoreError` `cannot_open`, `newer_schema` or `no_driver`. */
  static open(file: string, now: () => number, migrations = allMigrations): Database {
    const Driver = loadDriver();
    let sqlite: BetterSqlite3.Database | undefined;
    try {
      const onDisk = file !== ':memory:';
      if (onDisk) mkdirSync(path.dirname(path.resolve(file)), { recursive: true, mode: 0o700 });
      sqlite = new Driver(file, { timeout: migrationWaitMs });
      if (onDisk) chmodSync(file, 0o600); // it holds secrets of carriers and providers; its WAL inherits this
      sqlite.pragma('journal_mode = WAL');
      sqlite.pragma('synchronous = NORMAL');
      // 64 MB: this thread waits for the disk at each checkpoint, so that the other one should have made it long before
      sqlite.pragma('wal_autocheckpoint = 16000');
      sqlite.pragma('foreign_keys = ON');
      migrate(sqlite, migrations, now);
      // after the migrations, which may need more room than memory has: a call's statements change so few pages that undoing one needs no file
      sqlite.pragma('temp_store = MEMORY');
      sqlite.pragma(`busy_timeout = ${lockWaitMs}`);
      if (!onDisk) return new Database(sqlite, null, null);
      return new Database(sqlite, new CheckpointThread(file), { path: file, identity: identityOf(file) });
    } catch (error) {
      sqlite?.close();
      if (error instanceof StoreError) throw error;
      throw new StoreError(
        'cannot_open',
        `Cannot open the database ${file}: ${(error as Error).message}`,
        {},
        { cause: error },
      );
    }
  }

  /** A further connection to a file that this process has opened; it cannot write. */
  static openReadOnly(file: string): Database {
    return new Database(new (loadDriver())(file, { readonly: true, timeout: lockWaitMs }), null, null);
  }

  all<R>(query: Compilable<R>): R[] {
    const { sql, parameters } = query.compile();
    return attempt(() => this.prepare(sql).all(...parameters)) as R[];
  }

  get<R>(query: Compilable<R>): R | undefined {
    const { sql, parameters } = query.compile();
    return attempt(() => this.prepare(sql).get(...parameters)) as R | undefined;
  }

  /** Runs a write and returns the number of changed rows. */
  run(query: Compilable<unknown>): number {
    const { sql, parameters } = query.compile();
    return attempt(() => this.prepare(sql).run(...parameters).changes);
  }

  /** `get` and `all` of a statement written by hand, where building the query would cost more than running it. */
  row<R>(sql: string, ...parameters: unknown[]): R | undefined {
    return attempt(() => this.prepare(sql).get(...parameters)) as R | undefined;
  }

  /**
   * `row` of one of the tables that every call asks and that hardly ever change (`settingsTables`): asked once, until this process or another one has
   * changed any of them. The row is shared, and frozen.
   */
  settingsRow<R>(sql: string, ...parameters: unknown[]): R | undefined {
    if (this.sqlite.inTransaction) return this.row(sql, ...parameters); // the transaction may be rolled back
    const version = attempt(() => this.versionOfOthers.get());
    if (version !== this.rememberedOfVersion || this.remembered.size >= mostRemembered) this.remembered.clear();
    this.rememberedOfVersion = version;
    const key = `${sql}\0${parameters.join('\0')}`;
    if (!this.remembered.has(key)) this.remembered.set(key, Object.freeze(this.row(sql, ...parameters)));
    return this.remembered.get(key) as R | undefined;
  }

  rows<R>(sql: string, ...parameters: unknown[]): R[] {
    return attempt(() => this.prepare(sql).all(...parameters)) as R[];
  }

  /** The rows as arrays of their columns. */
  tuples<R extends unknown[]>(sql: string, ...parameters: unknown[]): R[] {
    return attempt(() =>
      this.prepare(sql)
        .raw()
        .all(...parameters),
    ) as R[];
  }

  /** A statement written by hand, for what every call writes: building the query costs more than running it. */
  prepare(sql: string): BetterSqlite3.Statement<unknown[]> {
    let statement = this.statements.get(sql);
    if (!statement) {
      statement = this.sqlite.prepare<unknown[]>(sql);
      if (this.statements.size >= maxCachedStatements)
        this.statements.delete(this.statements.keys().next().value ?? '');
      this.statements.set(sql, statement);
    }
    return statement;
  }

  /**
   * All or nothing, with the write lock from the beginning: a transaction that reads first and writes later could find its snapshot
   * outdated. Nested calls join. `wait: false` gives up at once when another process holds the lock.
   */
  transaction<T>(work: () => T, options: { wait: boolean } = { wait: true }): T {
    if (this.sqlite.inTransaction) return work();
    this.setWait(options.wait ? lockWaitMs : 0);
    try {
      return attempt(() => {
        this.prepare('begin immediate').run();
        try {
          const result = work();
          this.prepare('commit').run();
          this.checkpoints?.committed();
          return result;
        } catch (error) {
          // Some errors, such as a full disk, have rolled back already.
          if (this.sqlite.inTransaction) this.prepare('rollback').run();
          throw error;
        }
      });
    } finally {
      this.setWait(lockWaitMs);
    }
  }

  /** Whether the path still names the opened file; an unlinked file accepts writes that are lost. */
  isInPlace(): boolean {
    return this.file === null || identityOf(this.file.path) === this.file.identity;
  }

  get inTransaction(): boolean {
    return this.sqlite.inTransaction;
  }

  /** Runs several reads on one snapshot of the database. */
  read<T>(work: () => T): T {
    if (this.sqlite.inTransaction) return work();
    return attempt(() => {
      this.prepare('begin').run();
      try {
        return work();
      } finally {
        if (this.sqlite.inTransaction) this.prepare('commit').run();
      }
    });
  }

  startCheckpoints(): void {
    this.checkpoints?.start();
  }

  /** The database is closed when this returns, and its thread has ended when it resolves. */
  close(): Promise<void> {
    const threadGone = this.checkpoints?.close() ?? Promise.resolve();
    this.statements.clear();
    this.sqlite.close();
    return threadGone;
  }

  /** SQLite does not report changes of the own connection, so temporary triggers of this connection do. */
  private forgetWhatChanges(): void {
    this.sqlite.function('settings_changed', () => {
      this.remembered.clear();
      return null;
    });
    for (const table of settingsTables)
      for (const change of ['insert', 'update', 'delete'])
        this.sqlite.exec(
          `create temp trigger ${table}_${change} after ${change} on main.${table} begin select settings_changed(); end`,
        );
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

/** Device and inode; empty if there is no such file. */
function identityOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false, bigint: true });
  return found ? `${found.dev} ${found.ino}` : '';
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
      for (const [name, migration] of Object.entries(migrations)) {
        if (applied.has(name)) continue;
        for (const statement of migration.statements) sqlite.exec(statement);
        sqlite.prepare('insert into schema_migrations (name, applied_at) values (?, ?)').run(name, now());
      }
    })
    .immediate();
}
