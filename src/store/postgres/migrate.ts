import type pg from 'pg';
import { StoreError } from '../database/errors.js';
import type { Migration } from '../database/migrations/index.js';
import { withConnection } from './connections.js';
import { migrations as allMigrations } from './migrations/index.js';

const oldestServer = 140_000;
/** One lock for all who migrate, and one for all who write: any two numbers that nothing else in the database uses. */
export const migrationLock = 7_278_301;
export const writerLock = 7_278_302;

/** For a statement that reads every row of a large database. */
const migrationLimitMs = 3_600_000;

/** Stands among the migrations while `trunkline db migrate` copies: no server starts on half a copy. */
export const unfinishedCopy = 'unfinished-copy';

/** Brings the schema up to date, in one transaction under a lock: of two processes that start together one waits. Rejects with `StoreError`. */
export function migrate(
  url: string,
  now: () => number,
  {
    migrations = allMigrations,
    mayBeUnfinished = false,
    onUpgrade = () => {},
  }: {
    migrations?: Readonly<Record<string, Migration>>;
    mayBeUnfinished?: boolean;
    /** Called before a database of an older version is changed, with the names of the migrations. */
    onUpgrade?: (migrations: readonly string[]) => void;
  } = {},
): Promise<void> {
  return withConnection(url, async (client) => {
    await checkServer(client);
    await client.query('begin');
    await client.query('select pg_advisory_xact_lock($1)', [migrationLock]);
    await client.query(
      'create table if not exists schema_migrations (name text primary key, applied_at bigint not null)',
    );
    const { rows } = await client.query<{ name: string }>('select name from schema_migrations');
    const applied = new Set(rows.map(({ name }) => name));
    if (applied.delete(unfinishedCopy) && !mayBeUnfinished)
      throw new StoreError(
        'cannot_open',
        'The database is a copy that is not finished: repeat trunkline db migrate, or drop the database',
      );
    const unknown = [...applied].filter((name) => !(name in migrations));
    if (unknown.length > 0)
      throw new StoreError(
        'newer_schema',
        `The database was written by a newer version (unknown migration ${unknown.join(', ')})`,
      );
    const missing = Object.entries(migrations).filter(([name]) => !applied.has(name));
    if (applied.size > 0 && missing.length > 0) onUpgrade(missing.map(([name]) => name));
    for (const [name, { statements }] of missing) {
      await client.query(`set local statement_timeout = ${migrationLimitMs}`);
      for (const text of statements) await client.query({ text, query_timeout: migrationLimitMs } as pg.QueryConfig);
      await client.query('insert into schema_migrations (name, applied_at) values ($1, $2)', [name, now()]);
    }
    await client.query('commit');
  });
}

/** A server may start on the copy from now on. */
export async function finishCopy(client: pg.Client): Promise<void> {
  await client.query('begin');
  await client.query('delete from schema_migrations where name = $1', [unfinishedCopy]);
  await client.query('drop table copy_source, copy_positions');
  await client.query('commit');
}

async function checkServer(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ version: string; encoding: string }>(
    "select current_setting('server_version_num') as version, current_setting('server_encoding') as encoding",
  );
  const [server] = rows;
  if (Number(server?.version) < oldestServer)
    throw new StoreError('cannot_open', 'PostgreSQL 14 or later is needed; the server is older');
  if (server?.encoding !== 'UTF8')
    throw new StoreError('cannot_open', `The database must have the encoding UTF8; it has ${server?.encoding}`);
}
