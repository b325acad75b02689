/** Whether a database is whole, and its figures are those of its records. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { dayMs } from '../calls/call-counts.js';
import { ofCall } from '../calls/delete-calls.js';
import type { Reads } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import { migrations as sqliteMigrations } from '../database/migrations/index.js';
import { Connections, whereOf } from '../postgres/connections.js';
import { startError } from '../postgres/errors.js';
import { migrations as postgresMigrations } from '../postgres/migrations/index.js';
import { SqliteConnection } from '../sqlite/connection.js';
import { sqliteQueries } from '../sqlite/queries.js';

export interface DatabaseFinding {
  /** What was looked at. */
  what: string;
  /** Empty: it is right. */
  problems: string[];
  /** A figure, such as the number of records. */
  seen: string;
}

const problemsShown = 20;
const slowLimitMs = 3_600_000;

/** Looks at a SQLite file without changing it. Rejects with `StoreError` `cannot_open`. */
export async function checkSqlite(file: string): Promise<DatabaseFinding[]> {
  if (!existsSync(file)) throw new StoreError('cannot_open', `There is no database at ${file}`);
  let connection: SqliteConnection;
  try {
    connection = SqliteConnection.reading(file);
    connection.beginReading();
    connection.execute('select count(*) from sqlite_schema', [], 'row');
  } catch (error) {
    const { message } = ((error as Error).cause ?? error) as Error;
    throw new StoreError('cannot_open', `Cannot read the database ${file}: ${message}`, {}, { cause: error });
  }
  try {
    const broken = damage(connection);
    const findings: DatabaseFinding[] = [{ what: 'file', problems: broken, seen: 'every page and index read' }];
    if (broken.length > 0) return findings;
    const orphans = connection.execute('pragma foreign_key_check', [], 'rows') as { table: string; parent: string }[];
    findings.push({
      what: 'references',
      problems: orphans
        .slice(0, problemsShown)
        .map(({ table, parent }) => `a row of ${table} refers to none of ${parent}`),
      seen: 'every reference followed',
    });
    return [...findings, ...(await checkRecords(connection.promised(sqliteQueries), Object.keys(sqliteMigrations)))];
  } finally {
    connection.close();
  }
}

function damage(connection: SqliteConnection): string[] {
  try {
    const found = connection.execute(`pragma integrity_check(${problemsShown})`, [], 'tuples') as [string][];
    return found.map(([text]) => text).filter((text) => text !== 'ok');
  } catch (error) {
    return [(error as Error).message]; // damage that ends the check
  }
}

/** Looks at a PostgreSQL database without changing it. Rejects with `StoreError` `cannot_open`. */
export async function checkPostgres(url: string): Promise<DatabaseFinding[]> {
  const connections = new Connections({ url, name: 'trunkline check', size: 1, statementLimitMs: slowLimitMs });
  try {
    return await connections.use(async (statements, execute) => {
      await execute('begin isolation level repeatable read read only', [], 'changes');
      try {
        const [schema, ...records] = await checkRecords(statements, Object.keys(postgresMigrations));
        if (schema === undefined || schema.problems.length > 0) return schema === undefined ? [] : [schema];
        return [schema, await checkOwners(statements), ...records];
      } finally {
        await execute('rollback', [], 'changes').catch(() => {}); // lost with its connection
      }
    });
  } catch (error) {
    throw startError((error as Error).cause ?? error, whereOf(url));
  } finally {
    await connections.end();
  }
}

async function checkRecords(reads: Reads, known: readonly string[]): Promise<DatabaseFinding[]> {
  const schema = await checkSchema(reads, known);
  if (schema.problems.length > 0) return [schema];
  return [schema, await checkCounts(reads), await checkOrder(reads), await checkRecordings(reads)];
}

async function checkSchema(reads: Reads, known: readonly string[]): Promise<DatabaseFinding> {
  const rows = await reads.rows<{ name: string }>('select name from schema_migrations order by name').catch(() => null);
  if (rows === null) return { what: 'schema', problems: ['the tables of Trunkline are not there'], seen: '' };
  const applied = rows.map(({ name }) => name);
  const problems = [
    ...applied.filter((name) => !known.includes(name)).map((name) => `${name} is of a newer version`),
    ...known.filter((name) => !applied.includes(name)).map((name) => `${name} is missing; the next start makes it`),
  ];
  return { what: 'schema', problems, seen: `${applied.length} migrations` };
}

/** The database itself keeps no references to calls: a month of them could not be dropped. */
async function checkOwners(reads: Reads): Promise<DatabaseFinding> {
  const problems: string[] = [];
  for (const table of ofCall) {
    const sql = `select distinct call_id from ${table} t where not exists (select 1 from calls where id = t.call_id) limit ${problemsShown}`;
    for (const { call_id: id } of await reads.rows<{ call_id: string }>(sql))
      problems.push(`a row of ${table} belongs to call ${id}, which is not there`);
  }
  return { what: 'references', problems: problems.slice(0, problemsShown), seen: 'everything of a call has its call' };
}

interface Counted {
  organization_id: string;
  mode: string;
  day: number;
  status: string;
  n: number;
}

/** The figures of lists and statistics. */
async function checkCounts(reads: Reads): Promise<DatabaseFinding> {
  const calls = await reads.rows<Counted>(
    `select organization_id, mode, created_at / ${dayMs} as day, status, count(*) as n from calls group by 1, 2, 3, 4`,
  );
  const figures: string[] = [];
  for (const status of ['completed', 'failed', 'in_progress', 'no_answer', 'busy'])
    figures.push(
      `select organization_id, mode, day, '${status}' as status, sum(${status}) as n from call_days where phone_number_id = '' group by 1, 2, 3 having sum(${status}) <> 0`,
    );
  const counted = await reads.rows<Counted>(figures.join(' union all '));
  const keyOf = ({ organization_id: id, mode, day, status }: Counted) => JSON.stringify([id, mode, day, status]);
  const expected = new Map(calls.map((each) => [keyOf(each), each]));
  const problems: string[] = [];
  const differs = ({ organization_id: id, mode, day, status }: Counted, is: number, should: number) =>
    problems.push(
      `${new Date(day * dayMs).toISOString().slice(0, 10)}: ${is} ${status} ${mode} calls of ${id} are counted, ${should} are recorded`,
    );
  for (const each of counted) {
    const should = expected.get(keyOf(each))?.n ?? 0;
    expected.delete(keyOf(each));
    if (should !== each.n) differs(each, each.n, should);
  }
  for (const each of expected.values()) differs(each, 0, each.n);
  const total = calls.reduce((sum, { n }) => sum + n, 0);
  return { what: 'figures', problems: problems.slice(0, problemsShown), seen: `${total} calls` };
}

/** Each call has its events without a gap, beginning with 1. */
async function checkOrder(reads: Reads): Promise<DatabaseFinding> {
  const gaps = await reads.rows<{ call_id: string; last: number; n: number }>(
    `select call_id, max(sequence) as last, count(*) as n from call_events group by call_id
     having max(sequence) <> count(*) or min(sequence) <> 1 limit ${problemsShown}`,
  );
  const counted = await reads.row<{ n: number }>('select count(*) as n from call_events');
  return {
    what: 'events',
    problems: gaps.map(({ call_id: id, last, n }) => `call ${id} has ${n} events, the last is number ${last}`),
    seen: `${counted?.n ?? 0} events`,
  };
}

async function checkRecordings(reads: Reads): Promise<DatabaseFinding> {
  const missing: string[] = [];
  let seen = 0;
  const pages = [
    "select id, recording_url as file from calls where recording_url is not null and status <> 'in_progress' and id > ? order by id limit 1000",
    'select id, file from recordings where id > ? order by id limit 1000',
  ];
  for (const page of pages)
    for (let after = ''; ; ) {
      const rows = await reads.rows<{ id: string; file: string }>(page, after);
      for (const { id, file } of rows) {
        seen += 1;
        if (file.startsWith('file:') && !existsSync(fileURLToPath(file))) missing.push(`${id}: ${file} is missing`);
      }
      after = rows.at(-1)?.id ?? '';
      if (rows.length < 1000) break;
    }
  const more = missing.length - problemsShown;
  const problems = more > 0 ? [...missing.slice(0, problemsShown), `and ${more} more`] : missing;
  return { what: 'recordings', problems, seen: `${seen} recordings` };
}
