import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asSetting, processPorts } from '../support/port-ranges.js';

/** `trunkline start` as a process of its own: what a person or a supervisor sees of it. */
const program = path.resolve(import.meta.dirname, '../../bin/trunkline.js');
let folder: string;
const started: ChildProcess[] = [];

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'trunkline-process-'));
});
afterAll(async () => {
  for (const child of started.splice(0))
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

function trunkline(args: string[], environment: Record<string, string> = {}) {
  const env = {
    PATH: process.env.PATH,
    TRUNKLINE_HTTP_PORT: '0',
    TRUNKLINE_SIP_PORT: '0',
    TRUNKLINE_RTP_PORTS: asSetting(processPorts),
    TRUNKLINE_MEDIA_THREADS: '1',
    TRUNKLINE_LOG_LEVEL: 'error',
    TRUNKLINE_DATA_DIR: path.join(folder, 'data'),
    ...environment,
  };
  const child = spawn(process.execPath, [program, ...args], { env, cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  started.push(child);
  const text = { out: '', err: '' };
  child.stdout.on('data', (chunk) => {
    text.out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    text.err += chunk;
  });
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  return {
    child,
    text,
    exited,
    async says(words: RegExp): Promise<RegExpExecArray> {
      for (;;) {
        const match = words.exec(text.out);
        if (match) return match;
        const ended = await Promise.race([once(child.stdout, 'data').then(() => false), exited.then(() => true)]);
        if (ended) throw new Error(`It ended without saying ${words}: ${text.out}${text.err}`);
      }
    },
  };
}

// Processes mostly wait, and each test has a data folder of its own.
describe.concurrent('trunkline start', () => {
  it('starts with nothing set up, says how to use it, answers and drains on SIGTERM', async () => {
    const data = { TRUNKLINE_DATA_DIR: await mkdtemp(path.join(folder, 'first-')) };
    const first = trunkline(['start'], data);
    const key = (await first.says(/key +(trunkline_live_\w{32})/))[1]!;
    const url = (await first.says(/API +(http:\/\/\S+)\/v1/))[1]!;
    const [, sipPort = ''] = await first.says(/SIP +sip:127\.0\.0\.1:(\d+)/);
    await first.says(/demo +\+\d+ answers/);
    const calls = trunkline(['calls', '--url', url], { TRUNKLINE_API_KEY: key });
    expect(await calls.exited).toBe(0);
    expect(calls.text.out).toContain('0 of 0 calls');

    const second = trunkline(['start'], {
      TRUNKLINE_SIP_PORT: sipPort,
      TRUNKLINE_DATA_DIR: path.join(folder, 'other'),
    });
    expect(await second.exited).toBe(1);
    expect(second.text.err.trim().split('\n')).toEqual([
      expect.stringMatching(new RegExp(`^trunkline: .*${sipPort} is already in use`)),
    ]);

    first.child.kill('SIGTERM');
    expect(await first.exited).toBe(0);
    expect(first.text.err).toBe('SIGTERM: accepting no new calls, waiting up to 600 s for live calls\n');

    const again = trunkline(['start'], data);
    await again.says(/Trunkline is ready/);
    expect(again.text.out).not.toContain('trunkline_live_');
    again.child.kill('SIGINT');
    expect(await again.exited).toBe(0);
  });

  it('says in one line that its HTTP port is in use, and is the first start again the next time', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = other.address() as AddressInfo;
      const data = { TRUNKLINE_DATA_DIR: await mkdtemp(path.join(folder, 'http-in-use-')) };
      const run = trunkline(['start'], { ...data, TRUNKLINE_HTTP_PORT: String(port) });
      expect(await run.exited).toBe(1);
      const lines = run.text.err.trim().split('\n');
      expect(lines).toHaveLength(1);
      expect(lines[0]).toMatch(new RegExp(`${port}.*in use`));

      // the start that failed showed no key, so this one must
      const next = trunkline(['start'], data);
      await next.says(/key +trunkline_live_\w{32}/);
      next.child.kill('SIGTERM');
      expect(await next.exited).toBe(0);
    } finally {
      await new Promise<void>((resolve) => void other.close(() => resolve()));
    }
  });

  it('says in one line each what is wrong with the settings', async () => {
    const run = trunkline(['start'], { TRUNKLINE_HTTP_PORT: 'x', TRUNKLINE_SIP_PROT: '1' });
    expect(await run.exited).toBe(1);
    expect(run.text.err).toBe(
      'TRUNKLINE_SIP_PROT: no such variable; did you mean TRUNKLINE_SIP_PORT?\nTRUNKLINE_HTTP_PORT: "x" is not allowed; allowed: a port from 1 to 65535, or 0 for any free one\n',
    );
  });

  it('says in one line that it cannot make its data folder', async () => {
    const file = path.join(folder, 'file');
    await writeFile(file, '');
    const run = trunkline(['start'], { TRUNKLINE_DATA_DIR: path.join(file, 'data') });
    expect(await run.exited).toBe(1);
    expect(run.text.err.trim().split('\n')).toEqual([expect.stringContaining(path.join(file, 'data'))]);
  });

  it('ends quietly when its reader had enough', async () => {
    const run = trunkline(['settings', '--example']);
    run.child.stdout.destroy();
    expect(await run.exited).toBe(0);
    expect(run.text.err).toBe('');
  });
});
