import { statSync } from 'node:fs';
import { type Compilable, type RawBuilder, sql } from 'kysely';
import {
  type Reads,
  type RememberedKey,
  type RememberedTable,
  rememberedBy,
  type Statements,
  type Transaction,
} from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { Migration } from '../database/migrations/index.js';
import type { LeaseTimes, StoreDatabase } from '../database/store-database.js';
import type { Tables } from '../database/tables.js';
import type { Entry } from '../journal/entries.js';
import type { BatchAnswer } from '../journal/writer-protocol.js';
import { CheckpointThread } from './checkpoint-thread.js';
import { type Durability, migrateFile, SqliteConnection } from './connection.js';
import { sqliteDialect } from './dialect.js';
import { LongReadProcess } from './long-read-process.js';
import { sqliteQueries } from './queries.js';
import { SqliteWriter } from './sqlite-writer.js';

export interface SqliteOptions {
  file: string;
  durability?: Durability;
  now: () => number;
  migrations?: Readonly<Record<string, Migration>>;
  /** Called before a file of an older version is changed, with the names of the migrations. */
  onUpgrade?: (migrations: readonly string[]) => void;
  /** Called with the reason when the thread that writes has died. */
  onWriterDeath?: (reason: string) => void;
}

/** One process alone needs no lease; of several, those that a lock kept from renewing theirs get their chance first. */
const lease: LeaseTimes = {
  ...{ renewEveryMs: 5_000, retryAfterMs: 5_000, lengthMs: 15_000, actsForMs: Number.POSITIVE_INFINITY },
  ...{ judgesAfterMs: 5_000, judgesAtStart: true },
};
/** The limit of remembered questions; those about unknown numbers are remembered too. */
const mostRemembered = 10_000;

/**
 * One SQLite file. This thread only reads, with a connection that cannot write; everything is written by a thread of its own. A read sees
 * what was committed when it began.
 */
export class SqliteDatabase implements StoreDatabase {
  readonly sql = sqliteQueries;
  readonly dialect = sqliteDialect;
  readonly leaseTimes = lease;
  readonly callMonths = null;
  readonly notifier = null;
  readonly events = null;
  readonly longReads: LongReadProcess;
  private readonly reader: SqliteConnection;
  private readonly reads: Statements;
  private readonly writer: SqliteWriter;
  private readonly checkpoints: CheckpointThread;
  /** The connection of snapshots, opened by the first. */
  private snapshots: SqliteConnection | null = null;
  private lastSnapshot: Promise<unknown> = Promise.resolve();
  private readonly remember = new Map<string, readonly unknown[]>();
  private rememberedOfVersion: unknown = null;
  private fileVersion: unknown = null;
  private readonly identity: string;
  private closing: Promise<void> | null = null;

  private constructor(private readonly options: SqliteOptions) {
    const { file, durability = 'normal' } = options;
    this.identity = identityOf(file);
    this.reader = SqliteConnection.reading(file);
    this.reads = this.reader.promised(sqliteQueries);
    this.checkpoints = new CheckpointThread(file);
    this.longReads = new LongReadProcess(file);
    this.writer = new SqliteWriter({ file, durability }, options.onWriterDeath);
  }

  /** Creates the file if absent, and migrates it. Throws `StoreError` `cannot_open`, `newer_schema` or `no_driver`. */
  static open(options: SqliteOptions): SqliteDatabase {
    migrateFile(options.file, options.now, options.migrations, options.onUpgrade);
    return new SqliteDatabase(options);
  }

  all<R>(query: Compilable<R>): Promise<R[]> {
    return this.reads.all(query);
  }

  get<R>(query: Compilable<R>): Promise<R | undefined> {
    return this.reads.get(query);
  }

  rows<R>(sql: string, ...parameters: unknown[]): Promise<R[]> {
    return this.reads.rows(sql, ...parameters);
  }

  row<R>(sql: string, ...parameters: unknown[]): Promise<R | undefined> {
    return this.reads.row(sql, ...parameters);
  }

  tuples<R extends unknown[]>(sql: string, ...parameters: unknown[]): Promise<R[]> {
    return this.reads.tuples(sql, ...parameters);
  }

  async run(query: Compilable<unknown>): Promise<number> {
    const { sql, parameters } = query.compile();
    const changed = await this.writer.single(sql, parameters);
    this.checkpoints.committed();
    return changed;
  }

  async transaction<T>(work: (transaction: Transaction) => Promise<T>, within?: Transaction): Promise<T> {
    if (within) return work(within);
    const { statements, end } = await this.writer.begin();
    let result: T;
    try {
      result = await work(statements);
    } catch (error) {
      await end(false).catch(() => {}); // the first error is the informative one
      throw error;
    }
    await end(true);
    this.checkpoints.committed();
    return result;
  }

  /** One after the other: they only wait for this thread. `work` asks for no other snapshot. */
  snapshot<T>(work: (reads: Reads) => Promise<T>): Promise<T> {
    const snapshot = this.lastSnapshot.then(async () => {
      if (this.closing) throw new StoreError('unavailable', 'The server is stopping');
      this.snapshots ??= SqliteConnection.reading(this.options.file);
      this.snapshots.beginReading();
      try {
        return await work(this.snapshots.promised(sqliteQueries));
      } finally {
        this.snapshots.commit();
      }
    });
    this.lastSnapshot = snapshot.catch(() => {});
    return snapshot;
  }

  remembered<T extends RememberedTable>(table: T, key: RememberedKey<T>): readonly Tables[T][] {
    this.forgetWhatChanged();
    const columns: readonly string[] = rememberedBy[table];
    const values = columns.map((column) => (key as Record<string, unknown>)[column]);
    const name = `${table}\0${values.join('\0')}`;
    let rows = this.remember.get(name);
    if (rows === undefined) {
      const sql = `select * from ${table} where ${columns.map((column) => `${column} = ?`).join(' and ')}`;
      rows = (this.reader.execute(sql, values, 'rows') as object[]).map((row) => Object.freeze(row));
      if (this.remember.size >= mostRemembered) this.remember.clear();
      this.remember.set(name, Object.freeze(rows));
    }
    return rows as readonly Tables[T][];
  }

  nowSql(): RawBuilder<number> {
    return sql.val(this.options.now());
  }

  runAtOnce(query: Compilable<unknown>): Promise<number> {
    return this.run(query);
  }

  /** Writes entries of calls in one transaction. The same number may be sent again after `unavailable`: it takes effect once. */
  async writeBatch(instanceId: string, number: number, entries: readonly Entry[]): Promise<BatchAnswer> {
    const answer = await this.writer.batch(instanceId, number, entries);
    this.checkpoints.committed();
    return answer;
  }

  /** How often the thread that writes died and was replaced. */
  get writersReplaced(): number {
    return this.writer.replaced;
  }

  /** What keeps records from being written, in a sentence; null: nothing known. */
  get problem(): string | null {
    return this.writer.problem;
  }

  /** Whether the path still names the opened file; an unlinked file accepts writes that are lost. */
  isInPlace(): boolean {
    return identityOf(this.options.file) === this.identity;
  }

  /** Starts the checkpoint thread now, for a process that will write much. */
  startCheckpoints(): void {
    this.checkpoints.start();
  }

  /** Ends the thread that writes, between two statements; for tests. */
  killWriter(): Promise<void> {
    return this.writer.kill();
  }

  /** Resolves when everything sent before is written, and threads and connections are closed. Idempotent. */
  close(): Promise<void> {
    this.closing ??= this.closeAll();
    return this.closing;
  }

  private async closeAll(): Promise<void> {
    this.longReads.close();
    await this.checkpoints.close();
    await this.lastSnapshot;
    this.snapshots?.close();
    await this.writer.close();
    this.reader.close();
  }

  /** SQLite's own counter shows cheaply that something was committed, ours whether it was a setting. */
  private forgetWhatChanged(): void {
    const fileVersion = (this.reader.execute('pragma data_version', [], 'tuples') as [number][])[0]?.[0];
    if (fileVersion === this.fileVersion) return;
    this.fileVersion = fileVersion;
    const version = (this.reader.execute('select version from settings_version', [], 'tuples') as [number][])[0]?.[0];
    if (version === this.rememberedOfVersion) return;
    this.rememberedOfVersion = version;
    this.remember.clear();
  }
}

/** Device and inode; empty if there is no such file. */
function identityOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false, bigint: true });
  return found ? `${found.dev} ${found.ino}` : '';
}
