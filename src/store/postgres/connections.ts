import pg from 'pg';
import { type Execute, Statements } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import { postgresDialect } from './dialect.js';
import { isLost, startError, storeError } from './errors.js';
import { postgresQueries, statementOf } from './queries.js';

/** How long to wait for a connection, and for the answer to a statement. */
const connectLimitMs = 5_000;
const statementLimitMs = 5_000;
/** The server ends a transaction whose process does nothing for so long: a stopped process must not keep the lock of all. */
const idleInTransactionMs = 5_000;

const { builtins } = pg.types;

/** `bigint`, and the `numeric` that sums of it are, as numbers: times, counts and micro-cents are below 2 to the power of 53. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    oid === builtins.INT8 || oid === builtins.NUMERIC ? Number : pg.types.getTypeParser(oid, format),
};

export interface ConnectionOptions {
  url: string;
  /** Shown in `pg_stat_activity`. */
  name: string;
  statementLimitMs?: number;
  connectLimitMs?: number;
}

export function clientConfig({
  url,
  name,
  statementLimitMs: limitMs = statementLimitMs,
  connectLimitMs: openLimitMs = connectLimitMs,
}: ConnectionOptions): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: name,
    connectionTimeoutMillis: openLimitMs,
    statement_timeout: limitMs,
    query_timeout: limitMs + Math.min(1_000, limitMs / 3), // of a server that is stopped, and so cannot end the statement itself
    idle_in_transaction_session_timeout: idleInTransactionMs,
    keepAlive: true,
    options: '-c jit=off', // compiling took 3 s for a query of 1 ms, whose cost is estimated over all months of calls
    types,
  };
}

/** The address without the password. */
export function whereOf(url: string): string {
  try {
    const { host, pathname, username } = new URL(url);
    return `${username === '' ? '' : `${decodeURIComponent(username)}@`}${host}${pathname}`;
  } catch {
    return 'database_url';
  }
}

/** Runs statements on a connection; `onLost` is called when the connection is unusable. */
export function executing(client: pg.ClientBase, onLost: () => void = () => {}): Execute {
  let isGone = false;
  return async (sql, parameters, want) => {
    if (isGone) throw new StoreError('unavailable', 'The connection to the database was lost');
    try {
      const { text, name } = statementOf(sql);
      const values = parameters.map(storable);
      if (want === 'tuples') return (await client.query({ text, name, values, rowMode: 'array' })).rows;
      const { rows, rowCount } = await client.query({ text, name, values });
      if (want === 'changes') return rowCount ?? 0;
      return want === 'row' ? rows[0] : rows;
    } catch (error) {
      if (isLost(error)) {
        isGone = true;
        onLost();
      }
      throw storeError(error);
    }
  };
}

/** A pool whose connections are replaced when they are lost. */
export class Connections {
  private readonly pool: pg.Pool;

  constructor(options: ConnectionOptions & { size: number }) {
    this.pool = new pg.Pool({
      ...clientConfig(options),
      max: options.size,
      idleTimeoutMillis: 60_000,
      allowExitOnIdle: true,
    });
    this.pool.on('error', () => {}); // an idle connection was lost: the pool has removed it
  }

  /** Rejects with `StoreError` `unavailable`, or the server's own error. */
  async use<T>(work: (statements: Statements, execute: Execute) => Promise<T>): Promise<T> {
    const client = await this.pool.connect().catch((error: unknown) => {
      throw this.pool.ending ? new StoreError('unavailable', 'The database is closed') : storeError(error);
    });
    let lost = false;
    const onError = () => {
      lost = true;
    };
    client.on('error', onError);
    try {
      const execute = executing(client, onError);
      return await work(new Statements(postgresQueries, execute, postgresDialect), execute);
    } finally {
      client.off('error', onError);
      client.release(lost);
    }
  }

  end(): Promise<void> {
    return this.pool.end();
  }
}

/** One connection for the work of a start, or of a command; its errors become sentences. */
export async function withConnection<T>(
  url: string,
  work: (client: pg.Client) => Promise<T>,
  statementLimitMs = 60_000,
): Promise<T> {
  const client = new pg.Client(clientConfig({ url, name: 'trunkline start', statementLimitMs }));
  client.on('error', () => {}); // the statement under way rejects
  try {
    await client.connect();
    return await work(client);
  } catch (error) {
    throw startError(error, whereOf(url));
  } finally {
    await client.end().catch(() => {});
  }
}

/** PostgreSQL's text has no NUL. */
function storable(value: unknown): unknown {
  return typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
}
