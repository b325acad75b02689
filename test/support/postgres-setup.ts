import { migrate } from '../../src/store/postgres/migrate.js';
import { templateDatabase } from './open-store.js';
import { postgresFolder } from './postgres-folder.js';
import { query, startPostgres } from './postgres-server.js';

/** One server for all files of the `postgres` project. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (postgresFolder() === undefined) return undefined; // the project has no files then
  const server = await startPostgres();
  await query(server.url('postgres'), `create database ${templateDatabase}`);
  await migrate(server.url(templateDatabase), Date.now);
  process.env.TEST_POSTGRES_URL = server.url('').replace(/\/$/, '');
  return () => server.stop();
}
