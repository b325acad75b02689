/** Runs in a thread of its own: copies a SQLite file, as of one moment, while others write it. */
import { workerData } from 'node:worker_threads';
import { loadDriver } from '../sqlite/driver.js';

const { file, into } = workerData as { file: string; into: string };
const sqlite = new (loadDriver())(file, { readonly: true, timeout: 10_000 });
try {
  // the backup interface of SQLite begins anew whenever another process commits; this reads one snapshot
  sqlite.prepare('vacuum into ?').run(into);
} finally {
  sqlite.close();
}
