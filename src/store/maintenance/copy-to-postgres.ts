/** Copies a SQLite file into an empty PostgreSQL database. What is copied is committed step by step, so that a copy that was killed goes on. */
import { existsSync, statSync } from 'node:fs';
import type pg from 'pg';
import { StoreError } from '../database/errors.js';
import { timeOf } from '../database/ids.js';
import { makeMonths, monthsBetween } from '../postgres/call-partitions.js';
import { executing, withConnection } from '../postgres/connections.js';
import { finishCopy, migrate, migrationLock, unfinishedCopy } from '../postgres/migrate.js';
import { type BigintColumns, bigintColumns, PostgresTransaction } from '../postgres/transaction.js';
import { migrateFile, SqliteConnection } from '../sqlite/connection.js';

export interface CopyProgress {
  table: string;
  /** Rows of all tables, those of earlier attempts included. */
  rows: number;
  ofRows: number;
  /** From the pace of this attempt; null: not known yet. */
  leftMs: number | null;
}

export interface CopiedTable {
  table: string;
  source: number;
  target: number;
}

/** In the order of their references. What belongs to running processes is not copied. */
const tables = [
  ...['organizations', 'users', 'members', 'api_keys', 'endpoints', 'phone_numbers', 'trunks', 'rates'],
  ...['installation_secrets', 'invitations', 'idempotency_keys', 'ledger', 'spend_days', 'request_days'],
  ...[
    'calls',
    'call_events',
    'call_traces',
    'call_quality',
    'call_dialogs',
    'call_funds',
    'recordings',
    'waiting_events',
  ],
  ...['webhook_deliveries', 'webhook_attempts', 'call_days', 'call_hours', 'call_insights', 'rejected_invites'],
] as const;
const rowsAtOnce = 1_000;
/** For counting the rows of the largest table. */
const countLimitMs = 3_600_000;
/** Its rows refer to each other. */
const wholeTable = 'endpoints';
/** No UUIDv7 is older. */
const oldestIdMs = Date.UTC(2020, 0, 1);
/** A process with a younger heartbeat uses the file. */
const aliveMs = 15_000;

interface Source {
  connection: SqliteConnection;
  /** Changes whenever the file does. */
  fingerprint: string;
}

/** Rejects with `StoreError` `cannot_open`, a clear sentence, when the copy cannot begin or go on. */
export async function copyToPostgres(
  file: string,
  url: string,
  onProgress: (progress: CopyProgress) => void,
): Promise<CopiedTable[]> {
  const source = openSource(file);
  try {
    await migrate(url, () => Date.now(), { mayBeUnfinished: true });
    return await withConnection(
      url,
      async (client) => {
        await beAlone(client);
        await begin(client, source.fingerprint);
        await makeMonths(executing(client), monthsOf(source.connection));
        await new Copy(source.connection, client, await bigintColumns(executing(client)), onProgress).run();
        const copied = await compare(source.connection, client);
        if (copied.every(({ source, target }) => source === target)) await finishCopy(client);
        return copied;
      },
      countLimitMs,
    );
  } finally {
    source.connection.rollback();
    source.connection.close();
  }
}

/** Holds the lock of writers until it is closed: a server cannot start on the file meanwhile. */
function openSource(file: string): Source {
  if (!existsSync(file)) throw new StoreError('cannot_open', `There is no database at ${file}`);
  migrateFile(file, () => Date.now());
  const connection = SqliteConnection.writing(file, 'full');
  try {
    connection.execute('pragma wal_checkpoint(truncate)', [], 'rows');
    connection.begin(1_000);
    const alive = connection.execute(
      'select pid from instances where heartbeat_at > ?',
      [Date.now() - aliveMs],
      'rows',
    ) as { pid: number }[];
    if (alive.length > 0)
      throw new StoreError(
        'cannot_open',
        `The server uses ${file} (process ${alive[0]?.pid}): stop it first; if it was killed, wait 15 s`,
      );
    const { size, mtimeMs } = statSync(file);
    return { connection, fingerprint: `${size} ${mtimeMs}` };
  } catch (error) {
    connection.rollback(); // the lock would outlive the connection until its statements are collected
    connection.close();
    if (error instanceof StoreError && error.code === 'unavailable')
      throw new StoreError('cannot_open', `Another process writes ${file}: stop the server first`);
    throw error;
  }
}

/** Two copies at once would be in each other's way. */
async function beAlone(client: pg.Client): Promise<void> {
  const { rows } = await client.query('select pg_try_advisory_lock($1) as is_ours', [migrationLock]);
  if (!rows[0]?.is_ours)
    throw new StoreError('cannot_open', 'Another process copies into this database or starts on it');
}

async function begin(client: pg.Client, fingerprint: string): Promise<void> {
  const marked = await client.query('select 1 from schema_migrations where name = $1', [unfinishedCopy]);
  if (marked.rows.length > 0) {
    const { rows } = await client.query<{ fingerprint: string }>('select fingerprint from copy_source');
    if (rows[0]?.fingerprint !== fingerprint)
      throw new StoreError(
        'cannot_open',
        'The SQLite file has changed since the copy began: drop the PostgreSQL database, create it again and begin anew',
      );
    return;
  }
  const { rows } = await client.query(
    'select (select count(*) from organizations) + (select count(*) from calls) + (select count(*) from instances) as n',
  );
  if (rows[0]?.n !== 0) throw new StoreError('cannot_open', 'The PostgreSQL database is in use: it must be empty');
  await client.query('begin');
  await client.query('create table copy_source (fingerprint text not null)');
  await client.query('insert into copy_source values ($1)', [fingerprint]);
  await client.query('create table copy_positions (name text primary key, last_key text not null)');
  await client.query('insert into schema_migrations (name, applied_at) values ($1, $2)', [unfinishedCopy, Date.now()]);
  await client.query('delete from installation_secrets');
  await client.query('commit');
}

class Copy {
  private done = 0;
  private readonly total: number;
  private readonly startedMs = performance.now();
  private doneBefore = 0;

  constructor(
    private readonly source: SqliteConnection,
    private readonly client: pg.Client,
    private readonly bigints: BigintColumns,
    private readonly onProgress: (progress: CopyProgress) => void,
  ) {
    this.total = tables.reduce((sum, table) => sum + countOf(source, table), 0);
  }

  async run(): Promise<void> {
    const { rows } = await this.client.query<{ name: string; last_key: string }>('select * from copy_positions');
    const positions = new Map(rows.map(({ name, last_key: key }) => [name, JSON.parse(key) as unknown[]]));
    for (const [table, key] of positions) this.doneBefore += this.rowsUntil(table, key);
    this.done = this.doneBefore;
    for (const table of tables) await this.copy(table, positions.get(table) ?? null);
    await this.client.query('update settings_version set version = version + 1');
  }

  private async copy(table: (typeof tables)[number], after: readonly unknown[] | null): Promise<void> {
    const { columns, key } = columnsOf(this.source, table);
    const list = columns.join(', ');
    const keyAt = key.map((name) => columns.indexOf(name));
    const limit = table === wholeTable ? -1 : rowsAtOnce;
    for (let last = after; ; ) {
      const sql = `select ${list} from ${table} ${last === null ? '' : `where ${beyond(key)}`} order by ${key.join(', ')} limit ?`;
      const rows = this.source.execute(sql, [...(last ?? []), limit], 'tuples') as unknown[][];
      const end = rows.at(-1);
      if (end === undefined) return;
      last = keyAt.map((at) => end[at]);
      await this.client.query('begin');
      await new PostgresTransaction(executing(this.client), this.bigints).insertAll(table, columns, rows);
      await this.client.query(
        'insert into copy_positions (name, last_key) values ($1, $2) on conflict (name) do update set last_key = excluded.last_key',
        [table, JSON.stringify(last)],
      );
      await this.client.query('commit');
      this.done += rows.length;
      const inMs = performance.now() - this.startedMs;
      const copied = this.done - this.doneBefore;
      const leftMs = inMs < 1_000 ? null : (inMs / copied) * (this.total - this.done);
      this.onProgress({ table, rows: this.done, ofRows: this.total, leftMs });
      if (rows.length < rowsAtOnce || limit < 0) return;
    }
  }

  private rowsUntil(table: string, key: readonly unknown[]): number {
    const { key: names } = columnsOf(this.source, table);
    const sql = `select count(*) as n from ${table} where not ${beyond(names)}`;
    return (this.source.execute(sql, key, 'row') as { n: number }).n;
  }
}

/** The months of the calls; none that no id of a call can have. */
function monthsOf(source: SqliteConnection): number[] {
  const { first, last } = source.execute('select min(id) as first, max(id) as last from calls', [], 'row') as {
    [end in 'first' | 'last']: string | null;
  };
  if (first === null || last === null) return [];
  const [fromMs, toMs] = [Math.max(timeOf(first), oldestIdMs), Math.min(timeOf(last), Date.now())];
  return monthsBetween(fromMs, toMs); // of ids that are no UUIDv7, and have no time: none
}

/** Counts of every table, once all is copied. */
async function compare(source: SqliteConnection, client: pg.Client): Promise<CopiedTable[]> {
  const compared: CopiedTable[] = [];
  for (const table of tables) {
    const { rows } = await client.query<{ n: number }>(`select count(*) as n from ${table}`);
    compared.push({ table, source: countOf(source, table), target: rows[0]?.n ?? 0 });
  }
  return compared;
}

function countOf(source: SqliteConnection, table: string): number {
  return (source.execute(`select count(*) as n from ${table}`, [], 'row') as { n: number }).n;
}

function columnsOf(source: SqliteConnection, table: string): { columns: string[]; key: string[] } {
  const rows = source.execute(`select name, pk from pragma_table_info('${table}') order by cid`, [], 'rows') as {
    name: string;
    pk: number;
  }[];
  const key = rows.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
  return { columns: rows.map(({ name }) => name), key: key.map(({ name }) => name) };
}

/** The rows after a key. */
function beyond(key: readonly string[]): string {
  return `(${key.join(', ')}) > (${key.map(() => '?').join(', ')})`;
}
