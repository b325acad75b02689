import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freeMediaPort } from './port-ranges.js';

export interface SippRun {
  /** File name under `test/scenarios`, without ending. */
  scenario: string;
  remote: { host: string; port: number };
  /** The dialled user. */
  service: string;
  calls?: number;
  /** New calls per second. */
  rate?: number;
  /** Length of a `<pause/>` without its own. */
  pauseMs?: number;
  transport?: 'u1' | 't1' | 'tn';
  /** This share of sipp's packets is lost, in both directions, percent. */
  lossPercent?: number;
  /** When sipp repeats a request first; default as the scenario says. The server's T1, so that both give up at the same time. */
  repeatAfterMs?: number;
  limitMs?: number;
  /** Replaces `__NAME__` in the scenario. */
  replace?: Record<string, string>;
}

export interface SippResult {
  exitCode: number | null;
  successful: number;
  failed: number;
  retransmissions: number;
  /** The last lines of sipp's error file: why a call failed. */
  errors: string;
}

/** Runs a scenario in which no call may fail; the error says why one did. */
export async function sippSucceeds(run: SippRun): Promise<void> {
  const result = await sipp(run);
  const { exitCode, successful, failed, errors } = result;
  if (exitCode !== 0 || failed !== 0 || successful !== (run.calls ?? 1))
    throw new Error(`${run.scenario}: exit ${exitCode}, ${successful} successful, ${failed} failed\n${errors}`);
}

/** Runs Debian's sipp as a carrier. Rejects with a clear sentence when it is not installed. */
async function sipp(run: SippRun): Promise<SippResult> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sipp-'));
  try {
    let text = await readFile(path.join(import.meta.dirname, '..', 'scenarios', `${run.scenario}.xml`), 'utf8');
    for (const [name, value] of Object.entries(run.replace ?? {})) text = text.replaceAll(`__${name}__`, value);
    if (run.repeatAfterMs !== undefined) text = text.replaceAll(/retrans="\d+"/g, `retrans="${run.repeatAfterMs}"`);
    await writeFile(path.join(folder, 'scenario.xml'), text);
    const mediaPort = await freeMediaPort();
    const calls = run.calls ?? 1;
    const limitMs = run.limitMs ?? 60_000;
    const args = [
      `${run.remote.host}:${run.remote.port}`,
      ...['-sf', 'scenario.xml', '-s', run.service, '-i', '127.0.0.1', '-m', String(calls), '-l', String(calls)],
      ...[
        '-r',
        String(run.rate ?? Math.min(calls, 100)),
        '-t',
        run.transport ?? 'u1',
        '-d',
        String(run.pauseMs ?? 1000),
      ],
      ...['-nostdin', '-trace_stat', '-stf', 'stat.csv', '-fd', '1', '-trace_err', '-error_file', 'errors.log'],
      ...(run.lossPercent === undefined ? [] : ['-lost', String(run.lossPercent)]),
      ...['-timeout', `${Math.ceil(limitMs / 1000)}s`, '-timeout_error', '-mp', String(mediaPort)],
    ];
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      const child = spawn('sipp', args, { cwd: folder, stdio: 'ignore' });
      const kill = setTimeout(() => child.kill('SIGKILL'), limitMs + 10_000);
      child.once('error', () => reject(new Error('sipp is not installed (Debian: apt-get install sip-tester).')));
      child.once('exit', (code) => {
        clearTimeout(kill);
        resolve(code);
      });
    });
    const [header = '', ...rows] = (await readFile(path.join(folder, 'stat.csv'), 'utf8').catch(() => ''))
      .trim()
      .split('\n');
    const names = header.split(';');
    const last = (rows.at(-1) ?? '').split(';');
    const figure = (name: string): number => Number(last[names.indexOf(name)] ?? Number.NaN);
    const errors = await readFile(path.join(folder, 'errors.log'), 'utf8').catch(() => '');
    return {
      exitCode,
      successful: figure('SuccessfulCall(C)'),
      failed: figure('FailedCall(C)'),
      retransmissions: figure('Retransmissions(C)'),
      errors: errors.slice(0, 3000),
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
