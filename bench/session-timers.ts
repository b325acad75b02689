/**
 * Session timers (RFC 4028) in real time: two calls of sipp to the echo number with sessions of 90 seconds. One refreshes by itself for 225 s
 * and then forgets to, so that we must hang up; the other leaves it to us for five minutes. Needs sipp, takes 5 minutes, costs nothing.
 * Run: `npm run build && node dist/bench/session-timers.js`
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { loadSettings } from '../config/load.js';
import { start } from '../src/main.js';

const scenarios = path.resolve('bench', 'session-timers');
const folder = await mkdtemp(path.join(tmpdir(), 'session-timers-'));
const app = await start(
  loadSettings({
    env: {
      TRUNKLINE_HTTP_PORT: '0',
      TRUNKLINE_SIP_PORT: '0',
      TRUNKLINE_RTP_PORTS: '30000-30099',
      TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0',
      TRUNKLINE_LOG_LEVEL: 'error',
      TRUNKLINE_DATA_DIR: folder,
    },
  }),
);
const port = app.sip.addresses[0]?.port ?? 0;

function sipp(name: string, mediaPort: number): Promise<{ name: string; code: number | null; seconds: number }> {
  const startedMs = performance.now();
  const fixed = ['-i', '127.0.0.1', '-m', '1', '-nostdin', '-timeout', '400s', '-timeout_error', '-trace_err'];
  const args = [
    `127.0.0.1:${port}`,
    '-sf',
    path.join(scenarios, `${name}.xml`),
    '-s',
    app.first?.number ?? '',
    ...fixed,
  ];
  const child = spawn('sipp', [...args, '-error_file', path.join(folder, `${name}.log`), '-mp', String(mediaPort)], {
    cwd: folder,
    stdio: 'ignore',
  });
  return new Promise((resolve, reject) => {
    child.once('error', () => reject(new Error('sipp is not installed (Debian: apt-get install sip-tester).')));
    child.once('exit', (code) => resolve({ name, code, seconds: (performance.now() - startedMs) / 1000 }));
  });
}

try {
  const runs = await Promise.all([sipp('they-refresh', 31_000), sipp('we-refresh', 31_100)]);
  for (const { name, code, seconds } of runs)
    console.log(`${name.padEnd(13)} ${code === 0 ? 'ok' : `sipp ended with ${code}`}, ${seconds.toFixed(1)} s`);
  // the record is closed a moment after the last BYE
  for (let i = 0; i < 40 && app.live.count > 0; i++) await wait(50);
  console.log(`calls left: ${app.live.count}`);
  process.exitCode = runs.every(({ code }) => code === 0) ? 0 : 1;
} finally {
  await app.stop(0);
  if (process.exitCode === 0) await rm(folder, { recursive: true, force: true });
  else console.log(`sipp's complaints: ${folder}`);
}
