import { type Compilable, type RawBuilder, sql } from 'kysely';
import { builtModule } from '../../../config/built.js';
import { type Clock, systemClock } from '../database/clock.js';
import type { Reads, RememberedKey, RememberedTable, Statements, Transaction } from '../database/database.js';
import type { LeaseTimes, StoreDatabase } from '../database/store-database.js';
import type { Tables } from '../database/tables.js';
import type { Entry } from '../journal/entries.js';
import type { BatchAnswer } from '../journal/writer-protocol.js';
import { WriterThread } from '../journal/writer-thread.js';
import { CallPartitions } from './call-partitions.js';
import { Connections, whereOf } from './connections.js';
import { postgresDialect } from './dialect.js';
import { startError } from './errors.js';
import { EventTail } from './event-tail.js';
import { migrate } from './migrate.js';
import { Notifications } from './notifications.js';
import { PooledLongReads } from './pooled-long-reads.js';
import { postgresQueries } from './queries.js';
import { SettingsMemory } from './settings-memory.js';
import { type BigintColumns, bigintColumns, together } from './transaction.js';
import { WriteQueue } from './write-queue.js';
import type { PostgresWriterSettings } from './writer-worker.js';

export interface PostgresOptions {
  /** `postgres://user:password@host:5432/name?sslmode=verify-full`. */
  url: string;
  clock: Clock;
  /** Connections of the API and of background work. Beside them this process has two for long queries, one each for the journal, for the lease, and to listen. */
  poolSize?: number;
  onWriterDeath?: (reason: string) => void;
  /** Called before a database of an older version is changed, with the names of the migrations. */
  onUpgrade?: (migrations: readonly string[]) => void;
  /** Called when another process has changed settings. */
  onSettingsChanged?: () => void;
}

const defaultPoolSize = 10;
const longReadSize = 2;
const longReadLimitMs = 10_000;
/** How long a transaction waits for those of this process before it. */
const turnLimitMs = 5_000;
const goodbyeLimitMs = 2_000;
const leaseLimitMs = 1_500;
/** Renewed so often that one failure does not end it, and short enough for a carrier to be told of a dead node's calls within 12 s. */
const lease: LeaseTimes = {
  ...{ renewEveryMs: 2_000, retryAfterMs: 500, lengthMs: 8_000, actsForMs: 6_000, judgesAfterMs: 8_000 },
  judgesAtStart: false,
};
/** One for a transaction, and one for reads beside it. */
const leastPoolSize = 2;

/** A PostgreSQL database, 14 or later, shared by any number of processes. What calls write goes through a thread of its own. */
export class PostgresDatabase implements StoreDatabase {
  readonly sql = postgresQueries;
  readonly dialect = postgresDialect;
  readonly leaseTimes = lease;
  readonly events: EventTail;
  readonly longReads: PooledLongReads;
  readonly callMonths: CallPartitions;
  private readonly writer: WriterThread;
  /** Transactions that wait for the lock would otherwise hold all connections, also those that the one with the lock reads with. */
  private readonly turns = new WriteQueue(turnLimitMs);
  private closing: Promise<void> | null = null;

  private constructor(
    private readonly options: PostgresOptions,
    private readonly connections: Connections,
    private readonly longConnections: Connections,
    private readonly leaseConnection: Connections,
    readonly notifier: Notifications,
    private readonly memory: SettingsMemory,
    private readonly bigints: BigintColumns,
  ) {
    const { url } = options;
    this.longReads = new PooledLongReads(longConnections);
    // ids of calls are made with this process's own time
    this.callMonths = new CallPartitions((work) => connections.use((_, execute) => work(execute)), Date.now);
    this.events = new EventTail(connections, notifier);
    this.writer = new WriterThread(
      builtModule(import.meta.url, './writer-worker.ts'),
      { url } satisfies PostgresWriterSettings,
      options.onWriterDeath,
    );
  }

  /** Migrates the database and reads its settings. Rejects with `StoreError` `cannot_open` or `newer_schema`, a clear sentence. */
  static async open(options: PostgresOptions): Promise<PostgresDatabase> {
    const { url, clock, poolSize: size = defaultPoolSize, onSettingsChanged = () => {}, onUpgrade } = options;
    await migrate(url, () => clock.now(), { onUpgrade });
    const connections = new Connections({ url, name: 'trunkline', size: Math.max(leastPoolSize, size) });
    const longConnections = new Connections({
      ...{ url, name: 'trunkline long reads', size: longReadSize, statementLimitMs: longReadLimitMs },
    });
    const leaseConnection = new Connections({
      ...{ url, name: 'trunkline lease', size: 1, connectLimitMs: leaseLimitMs, statementLimitMs: leaseLimitMs },
    });
    const notifier = new Notifications(url);
    const memory = new SettingsMemory(connections, notifier, onSettingsChanged);
    try {
      await memory.start();
      await notifier.start();
      const bigints = await connections.use((_, execute) => bigintColumns(execute));
      const database = new PostgresDatabase(
        options,
        connections,
        longConnections,
        leaseConnection,
        notifier,
        memory,
        bigints,
      );
      await database.callMonths.makeAhead();
      await database.writeBatch('', 0, []).catch(() => {}); // the first call's record does not wait for the thread to start
      return database;
    } catch (error) {
      await memory.close();
      await notifier.close();
      await Promise.all([connections.end(), longConnections.end(), leaseConnection.end()]);
      throw startError((error as Error).cause ?? error, whereOf(url));
    }
  }

  all<R>(query: Compilable<R>): Promise<R[]> {
    return this.read((statements) => statements.all(query));
  }

  get<R>(query: Compilable<R>): Promise<R | undefined> {
    return this.read((statements) => statements.get(query));
  }

  rows<R>(sql: string, ...parameters: unknown[]): Promise<R[]> {
    return this.read((statements) => statements.rows(sql, ...parameters));
  }

  row<R>(sql: string, ...parameters: unknown[]): Promise<R | undefined> {
    return this.read((statements) => statements.row(sql, ...parameters));
  }

  tuples<R extends unknown[]>(sql: string, ...parameters: unknown[]): Promise<R[]> {
    return this.read((statements) => statements.tuples(sql, ...parameters));
  }

  run(query: Compilable<unknown>): Promise<number> {
    return this.read((statements) => statements.run(query));
  }

  async transaction<T>(work: (transaction: Transaction) => Promise<T>, within?: Transaction): Promise<T> {
    if (within) return work(within);
    let changedSettings = false;
    const result = await this.turns.take(() =>
      this.connections.use((_, execute) =>
        together(execute, this.bigints, async (transaction) => {
          const done = await work(transaction);
          changedSettings = transaction.changedAny;
          return done;
        }),
      ),
    );
    if (changedSettings) await this.memory.refresh();
    return result;
  }

  snapshot<T>(work: (reads: Reads) => Promise<T>): Promise<T> {
    return this.connections.use(async (statements, execute) => {
      await execute('begin isolation level repeatable read read only', [], 'changes');
      try {
        return await work(statements);
      } finally {
        await execute('rollback', [], 'changes').catch(() => {}); // lost with its connection
      }
    });
  }

  remembered<T extends RememberedTable>(table: T, key: RememberedKey<T>): readonly Tables[T][] {
    return this.memory.find(table, key);
  }

  /** The server's time, which all processes share; the clock of a test as it is. */
  nowSql(): RawBuilder<number> {
    const { clock } = this.options;
    if (clock !== systemClock) return sql`${clock.now()}::bigint`;
    return sql`(extract(epoch from clock_timestamp()) * 1000)::bigint`;
  }

  runAtOnce(query: Compilable<unknown>): Promise<number> {
    return this.leaseConnection.use((statements) => statements.run(query));
  }

  writeBatch(instanceId: string, number: number, entries: readonly Entry[]): Promise<BatchAnswer> {
    return this.writer.batch(instanceId, number, entries);
  }

  get writersReplaced(): number {
    return this.writer.replaced;
  }

  get problem(): string | null {
    return this.writer.problem;
  }

  isInPlace(): boolean {
    return true;
  }

  startCheckpoints(): void {} // the server's own

  killWriter(): Promise<void> {
    return this.writer.kill();
  }

  close(): Promise<void> {
    this.closing ??= this.closeAll();
    return this.closing;
  }

  private async closeAll(): Promise<void> {
    this.longReads.close();
    await this.writer.close();
    this.events.close();
    await withinGoodbye(Promise.all([this.memory.close(), this.notifier.close()]));
    const all = [this.connections, this.longConnections, this.leaseConnection];
    await withinGoodbye(Promise.all(all.map((connections) => connections.end())));
  }

  private read<T>(work: (statements: Statements) => Promise<T>): Promise<T> {
    return this.connections.use((statements) => work(statements));
  }
}

/** A server that hangs does not answer a goodbye. */
async function withinGoodbye(closing: Promise<unknown>): Promise<void> {
  let limit: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => {
    limit = setTimeout(resolve, goodbyeLimitMs);
  });
  await Promise.race([closing.catch(() => {}), late]);
  clearTimeout(limit);
}
