/** Copies of the database of a running server. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { chmod, link, open, rm } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import { builtModule } from '../../../config/built.js';
import { StoreError } from '../database/errors.js';
import { loadDriver } from '../sqlite/driver.js';

export interface BackupProgress {
  bytes: number;
  /** An upper bound; null: unknown. */
  ofBytes: number | null;
}

export interface Backup {
  bytes: number;
  /** Records of calls in it; null: not counted. */
  calls: number | null;
}

const lookEveryMs = 500;

/**
 * Copies the SQLite file as of one moment to `into`, which appears when it is whole. Rejects with `StoreError` `cannot_open`: `into` exists, the
 * source is no database, the disk is full.
 */
export function backUpSqlite(
  file: string,
  into: string,
  onProgress: (progress: BackupProgress) => void,
): Promise<Backup> {
  if (!existsSync(file)) throw new StoreError('cannot_open', `There is no database at ${file}`);
  return whenWhole(into, onProgress, sizeOf(file), async (partial) => {
    const worker = new Worker(builtModule(import.meta.url, './backup-worker.ts'), {
      workerData: { file, into: partial },
      execArgv: [],
    });
    await once(worker, 'exit'); // rejects with the thread's error
    return check(partial);
  });
}

/** `pg_dump` in its custom format, which `pg_restore` reads. The password is not among its arguments, which other users of the host could see. */
export function backUpPostgres(
  url: string,
  into: string,
  onProgress: (progress: BackupProgress) => void,
): Promise<Backup> {
  return whenWhole(into, onProgress, null, async (partial) => {
    const dump = spawn('pg_dump', ['--format=custom', '--no-password', '--file', partial], {
      env: { ...process.env, ...environmentOf(url) },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    dump.stderr.on('data', (text: Buffer) => {
      said = `${said}${text}`.slice(-2_000);
    });
    const [code] = (await once(dump, 'close').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      throw new StoreError(
        'cannot_open',
        'pg_dump is not installed; it belongs to the client programs of PostgreSQL (Debian: apt-get install postgresql-client)',
      );
    })) as [number | null];
    if (code !== 0) throw new StoreError('cannot_open', `pg_dump failed: ${said.trim() || `exit code ${code}`}`);
    return { bytes: statSync(partial).size, calls: null };
  });
}

async function whenWhole(
  into: string,
  onProgress: (progress: BackupProgress) => void,
  ofBytes: number | null,
  work: (partial: string) => Promise<Backup>,
): Promise<Backup> {
  if (existsSync(into)) throw new StoreError('cannot_open', `${into} exists already; it is not overwritten`);
  const partial = `${into}.partial-${process.pid}`;
  const looking = setInterval(() => {
    if (existsSync(partial)) onProgress({ bytes: statSync(partial).size, ofBytes });
  }, lookEveryMs);
  try {
    const file = await open(partial, 'wx', 0o600); // it holds what the database holds
    await file.close();
    const made = await work(partial);
    await chmod(partial, 0o600);
    const written = await open(partial, 'r');
    await written.sync();
    await written.close();
    await link(partial, into); // unlike a renaming, fails if somebody else has made the file meanwhile
    return made;
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError('cannot_open', `The backup failed: ${(error as Error).message}`, {}, { cause: error });
  } finally {
    clearInterval(looking);
    await rm(partial, { force: true });
    await rm(`${partial}-journal`, { force: true });
  }
}

function check(file: string): Backup {
  const sqlite = new (loadDriver())(file, { readonly: true });
  try {
    const found = sqlite.prepare('pragma quick_check(1)').pluck().get();
    if (found !== 'ok') throw new StoreError('cannot_open', `The copy is damaged, and so is the database: ${found}`);
    const calls = sqlite.prepare('select count(*) from calls').pluck().get() as number;
    return { bytes: statSync(file).size, calls };
  } finally {
    sqlite.close();
  }
}

function sizeOf(file: string): number {
  return [file, `${file}-wal`].reduce((sum, name) => sum + (statSync(name, { throwIfNoEntry: false })?.size ?? 0), 0);
}

/** The variables of libpq for a URL. */
function environmentOf(url: string): Record<string, string> {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  const variables: Record<string, string | null> = {
    PGHOST: searchParams.get('host') ?? hostname.replace(/^\[|\]$/g, ''),
    PGPORT: port,
    PGUSER: decodeURIComponent(username),
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: decodeURIComponent(pathname.slice(1)),
    PGSSLMODE: searchParams.get('sslmode'),
    PGSSLROOTCERT: searchParams.get('sslrootcert'),
  };
  return Object.fromEntries(
    Object.entries(variables).filter((each): each is [string, string] => each[1] !== null && each[1] !== ''),
  );
}
