/** The processes of a bench: started, asked, and ended. */
import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { constants, setPriority, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { withDeadline } from '../../net/deadline.js';

const startLimitMs = 30_000;
const answerLimitMs = 24 * 3_600_000;
const endLimitMs = 10_000;
const key = `trunkline_live_${'b'.repeat(32)}`;

/** A child that answers each order with one message. */
export class Helper<Order, Answer extends { kind: string }> {
  private readonly child: ChildProcess;

  constructor(module: string) {
    this.child = fork(fileURLToPath(new URL(`./${module}.js`, import.meta.url)), { serialization: 'advanced' });
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** The next message of this kind; rejects when the child ends before. */
  async next<K extends Answer['kind']>(kind: K): Promise<Extract<Answer, { kind: K }>> {
    const over = new AbortController();
    try {
      return await withDeadline(answerLimitMs, `the answer "${kind}"`, over.signal, async () => {
        // By our own signal: it ends both waits, also after an answer.
        const { signal } = over;
        const ended = once(this.child, 'exit', { signal }).then(() => {
          throw new Error(`A helper process of the bench ended (wanted: ${kind}).`);
        });
        ended.catch(() => undefined);
        const [answer] = (await Promise.race([once(this.child, 'message', { signal }), ended])) as [Answer];
        return answer as Extract<Answer, { kind: K }>;
      });
    } finally {
      over.abort();
    }
  }

  ask<K extends Answer['kind']>(order: Order, kind: K): Promise<Extract<Answer, { kind: K }>> {
    const answer = this.next(kind);
    this.child.send(order as object);
    return answer;
  }

  /** Before other programs where a core is wanting, if that is allowed. */
  goAhead(): void {
    try {
      setPriority(this.pid, constants.priority.PRIORITY_HIGH);
    } catch (error) {
      process.stderr.write(`the bench's processes have no priority: ${(error as Error).message}\n`);
    }
  }

  end(): void {
    this.child.kill();
  }
}

export interface Gateway {
  pid: number;
  sipPort: number;
  /** Also removes its folder. */
  stop(): Promise<void>;
  api<T>(method: string, where: string, body?: unknown): Promise<T>;
  /** The answer to GET as text. */
  text(where: string): Promise<string>;
}

/** `npm start` as a process of its own, on ports of its own. */
export async function startGateway(options: {
  /** Holds `cert.pem` for wss, and the data. */
  folder: string;
  /** Folder of another build; this one when absent. */
  build?: string | undefined;
  nodeOptions?: readonly string[];
  environment?: Record<string, string>;
}): Promise<Gateway> {
  const [httpPort, sipPort] = [await freePort(), await freePort()];
  const built = options.build === undefined ? new URL('../../', import.meta.url) : pathToFileURL(`${options.build}/`);
  const program = fileURLToPath(new URL('src/cli/main.js', built));
  const child = spawn(process.execPath, [...(options.nodeOptions ?? []), program, 'start'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      NODE_EXTRA_CA_CERTS: path.join(options.folder, 'cert.pem'),
      TRUNKLINE_DATA_DIR: options.folder,
      TRUNKLINE_HTTP_PORT: String(httpPort),
      TRUNKLINE_SIP_PORT: String(sipPort),
      TRUNKLINE_RTP_PORTS: options.build === undefined ? '20000-24999' : '25000-29999',
      TRUNKLINE_LOG_LEVEL: 'error',
      TRUNKLINE_BOOTSTRAP_KEY: key,
      ...options.environment,
    },
  });
  // The gateway ends with the bench.
  const end = () => child.kill();
  const leave = () => process.exit(143);
  process.once('exit', end).once('SIGTERM', leave);
  child.once('exit', () => process.off('exit', end).off('SIGTERM', leave));
  await said(child, /http:\/\/\S+/);
  child.stdout?.resume();
  return {
    pid: child.pid ?? 0,
    sipPort,
    stop: async () => {
      child.kill('SIGINT');
      const ended = child.exitCode === null ? once(child, 'exit').then(() => undefined) : Promise.resolve();
      await Promise.race([ended, sleep(endLimitMs, undefined, { ref: false })]);
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    },
    text: async (where) => {
      const response = await fetch(`http://127.0.0.1:${httpPort}${where}`, {
        headers: { authorization: `Bearer ${key}` },
      });
      if (!response.ok) throw new Error(`GET ${where}: ${response.status}`);
      return response.text();
    },
    api: async <T>(method: string, where: string, body?: unknown): Promise<T> => {
      const response = await fetch(`http://127.0.0.1:${httpPort}${where}`, {
        method,
        headers: {
          authorization: `Bearer ${key}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (!response.ok) throw new Error(`${method} ${where}: ${response.status} ${await response.text()}`);
      return (response.status === 204 ? null : await response.json()) as T;
    },
  };
}

/** A folder with a certificate for 127.0.0.1: a new one, or one that is there. */
export function benchFolder(known?: string): { folder: string; key: string; cert: string; remove(): void } {
  const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-bench-'));
  const files = { key: path.join(folder, 'key.pem'), cert: path.join(folder, 'cert.pem') };
  const remove = () => rmSync(folder, { recursive: true, force: true });
  if (known !== undefined) {
    writeFileSync(files.cert, known);
    return { folder, key: '', cert: known, remove };
  }
  const wish = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  try {
    execFileSync('openssl', [...wish, ...subject, '-keyout', files.key, '-out', files.cert], { stdio: 'ignore' });
  } catch (error) {
    throw new Error(`The bench needs the program openssl for a certificate: ${(error as Error).message}`);
  }
  return {
    folder,
    key: readFileSync(files.key, 'utf8'),
    cert: readFileSync(files.cert, 'utf8'),
    remove,
  };
}

/** Resolves to the first match in the output of a process. */
async function said(child: ChildProcess, pattern: RegExp): Promise<void> {
  let text = '';
  const found = (async () => {
    for await (const chunk of child.stdout ?? []) {
      text += String(chunk);
      if (pattern.test(text)) return;
    }
    throw new Error(`The gateway ended before it was ready: ${text.slice(-500)}`);
  })();
  const limit = sleep(startLimitMs, null, { ref: false }).then(() => {
    throw new Error(`The gateway was not ready within ${startLimitMs} ms: ${text.slice(-500)}`);
  });
  await Promise.race([found, limit]);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
