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

const numbered = new Map<string, string>();

/** SQL of the store with `$1`, `$2` for its `?`. No text in it contains a question mark. */
export function withNumbers(sql: string): string {
  let found = numbered.get(sql);
  if (found === undefined) {
    let count = 0;
    found = sql.replace(/\?/g, () => `$${++count}`);
    if (numbered.size >= 1_000) numbered.clear();
    numbered.set(sql, found);
  }
  return found;
}
