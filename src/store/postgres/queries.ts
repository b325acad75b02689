import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely';
import type { Tables } from '../database/tables.js';

/** Writes PostgreSQL's SQL; runs none. */
export const postgresQueries = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
});

/** The texts that the driver is given for the SQL of the store. */
const statements = new Map<string, PostgresStatement>();
const mostStatements = 1_000;
/** A plan over the months of calls takes some hundred kilobytes of the server, on each connection. */
const mostPrepared = 100;
let prepared = 0;

export interface PostgresStatement {
  /** With `$1`, `$2` for each `?`. */
  text: string;
  /** Set: each connection parses and plans it once, which is half the time of a page of calls. */
  name: string | undefined;
}

/**
 * SQL of the store as PostgreSQL takes it. No text in it contains a question mark. Prepared are selections of named columns: a migration of a
 * newer node can change what `*` means, which a prepared statement does not survive.
 */
export function statementOf(sql: string): PostgresStatement {
  let found = statements.get(sql);
  if (found === undefined) {
    let count = 0;
    const text = sql.replace(/\?/g, () => `$${++count}`);
    const isKept = statements.size < mostStatements;
    const isPrepared = isKept && prepared < mostPrepared && /^select\b/i.test(text) && !/select \*|\.\*/i.test(text);
    found = { text, name: isPrepared ? `trunkline_${prepared++}` : undefined };
    if (isKept) statements.set(sql, found);
  }
  return found;
}
