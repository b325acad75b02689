/** Debian's sipp as a carrier that is called. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freeMediaPort, freePort } from './port-ranges.js';

export interface SippCarrier {
  uri: string;
  /** Resolves when all calls went as the scenario says; rejects with what sipp found wrong. */
  done: Promise<void>;
  /** Ends it, if it still runs. */
  close(): Promise<void>;
}

/** `scenario` is a file name under `test/scenarios` without ending; `__NAME__` in it is replaced. */
export async function startSippCarrier(run: {
  scenario: string;
  calls?: number;
  replace?: Record<string, string>;
  /** What the scenario plays, by file name. */
  files?: Record<string, Uint8Array>;
  limitMs?: number;
}): Promise<SippCarrier> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sipp-uas-'));
  let text = await readFile(path.join(import.meta.dirname, '..', 'scenarios', `${run.scenario}.xml`), 'utf8');
  for (const [name, value] of Object.entries(run.replace ?? {})) text = text.replaceAll(`__${name}__`, value);
  await writeFile(path.join(folder, 'scenario.xml'), text);
  for (const [name, bytes] of Object.entries(run.files ?? {})) await writeFile(path.join(folder, name), bytes);
  const port = await freePort();
  const args = [
    ...['-sf', 'scenario.xml', '-i', '127.0.0.1', '-p', String(port), '-m', String(run.calls ?? 1)],
    ...['-nostdin', '-trace_err', '-error_file', 'errors.log', '-mp', String(await freeMediaPort())],
    ...['-timeout', `${Math.ceil((run.limitMs ?? 30_000) / 1000)}s`, '-timeout_error'],
  ];
  const child = spawn('sipp', args, { cwd: folder, stdio: 'ignore' });
  const done = ended(child).then(async (code) => {
    const errors = await readFile(path.join(folder, 'errors.log'), 'utf8').catch(() => '');
    await rm(folder, { recursive: true, force: true });
    if (code !== 0) throw new Error(`${run.scenario}: sipp ended with ${code}\n${errors.slice(0, 3000)}`);
  });
  done.catch(() => undefined);
  await listening(port, done);
  return {
    uri: `sip:127.0.0.1:${port}`,
    done,
    async close() {
      child.kill('SIGKILL');
      await done.catch(() => undefined);
    },
  };
}

function ended(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once('error', () => reject(new Error('sipp is not installed (Debian: apt-get install sip-tester).')));
    child.once('exit', (code) => resolve(code));
  });
}

/** sipp says nothing when it is ready: its port can no longer be had. */
async function listening(port: number, died: Promise<void>): Promise<void> {
  let isDead = false;
  died.then(
    () => (isDead = true),
    () => (isDead = true),
  );
  for (let tries = 0; tries < 500 && !isDead; tries++) {
    const socket = createSocket('udp4');
    const isTaken = await new Promise<boolean>((resolve) => {
      socket.once('error', () => resolve(true));
      socket.bind(port, '127.0.0.1', () => resolve(false));
    });
    await new Promise<void>((resolve) => (isTaken ? resolve() : socket.close(() => resolve())));
    if (isTaken) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await died;
}
