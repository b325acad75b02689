/** A PostgreSQL server of the machine's own packages, for tests: in a temporary folder, on a port of its own, without durability. */
import { execFileSync, spawn } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { postgresFolder } from './postgres-folder.js';

export interface PostgresServer {
  port: number;
  pid: number;
  /** The URL of a database; it need not exist. */
  url(database: string): string;
  /** Ends all connections, and starts again at the same port. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** With these, a server asks for the password (SCRAM) and speaks TLS. */
export interface SecureServer {
  password: string;
  certificate: string;
  key: string;
}

/** Starts a server and waits until it answers. PostgreSQL refuses to run as root: then it runs as the user `postgres`. */
export async function startPostgres(secure?: SecureServer): Promise<PostgresServer> {
  const bin = postgresFolder();
  if (bin === undefined) throw new Error('PostgreSQL is not installed');
  const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-postgres-'));
  const user = process.getuid?.() === 0 ? userOf('postgres') : null;
  if (user !== null) chownSync(folder, user.uid, user.gid);
  const data = path.join(folder, 'data');
  const own = (name: string, text: string): string => {
    const file = path.join(folder, name);
    writeFileSync(file, text, { mode: 0o600 });
    if (user !== null) chownSync(file, user.uid, user.gid);
    return file;
  };
  const setup = [
    '-D',
    data,
    '-U',
    'trunkline',
    ...(secure ? ['-A', 'scram-sha-256', '--pwfile', own('password', secure.password)] : ['-A', 'trust']),
    '-E',
    'UTF8',
    '--locale=C.UTF-8',
    '--no-sync',
    '--no-instructions',
  ];
  execFileSync(path.join(bin, 'initdb'), setup, { ...user, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  const port = await freePort();
  const settings = {
    port,
    unix_socket_directories: folder,
    listen_addresses: '127.0.0.1',
    fsync: 'off',
    max_connections: 300,
    ...(secure && {
      ssl: 'on',
      ssl_cert_file: own('server.pem', secure.certificate),
      ssl_key_file: own('server.key', secure.key),
    }),
  };
  const args = ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
  const run = () => {
    const server = spawn(path.join(bin, 'postgres'), args, { ...user, cwd: folder, stdio: 'ignore' });
    return { server, gone: new Promise<void>((resolve) => server.once('exit', () => resolve())) };
  };
  let running = run();
  const end = async () => {
    running.server.kill('SIGINT'); // at once, whoever is connected
    await running.gone;
  };
  const who = secure ? `trunkline:${encodeURIComponent(secure.password)}` : 'trunkline';
  const url = (database: string) => `postgres://${who}@127.0.0.1:${port}/${database}`;
  await answers(url('postgres'));
  return {
    port,
    pid: running.server.pid ?? 0,
    url,
    restart: async () => {
      await end();
      running = run();
      await answers(url('postgres'));
    },
    stop: async () => {
      await end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Runs a statement on a connection of its own. Counts are numbers. */
export async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const types = {
    getTypeParser: (oid: number, format?: 'text' | 'binary') =>
      oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format),
  } as pg.CustomTypesConfig;
  const client = new pg.Client({ connectionString: url, types });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

function userOf(name: string): { uid: number; gid: number } {
  const id = (flag: string) => Number(execFileSync('id', [flag, name], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function answers(url: string): Promise<void> {
  const endMs = performance.now() + 20_000;
  for (;;) {
    try {
      await query(url, 'select 1');
      return;
    } catch (error) {
      if (performance.now() > endMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
