import { createHash } from 'node:crypto';
import { Store, type StoreOptions } from '../../src/store/store.js';
import { query } from './postgres-server.js';

/** The server of the `postgres` project of the tests; elsewhere the store is SQLite. */
const server = process.env.TEST_STORE_OVER === 'postgres' ? process.env.TEST_POSTGRES_URL : undefined;
/** For tests that look into the file, or lock it. */
export const onPostgres = server !== undefined;
/** The migrated database that those of tests are copied from. */
export const templateDatabase = 'trunkline_template';

/** The store of a test: over this file, or over a PostgreSQL database of the same life. */
export async function openStore(options: StoreOptions & { file: string }): Promise<Store> {
  if (server === undefined) return Store.open(options);
  const { file, ...others } = options;
  return Store.open({ ...others, url: await databaseOf(file), poolSize: 3 });
}

/** The URL of the database that stands for this file; made at the first call. */
export async function databaseOf(file: string): Promise<string> {
  const name = `t_${createHash('sha256').update(file).digest('hex').slice(0, 24)}`;
  const sql = `create database ${name} template ${templateDatabase}`;
  await query(`${server}/postgres`, sql).catch((error: { code?: string }) => {
    if (error.code !== '42P04') throw error; // it is there already
  });
  return `${server}/${name}`;
}
