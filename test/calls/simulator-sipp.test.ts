import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { placeCall } from '../../src/simulator/place-call.js';
import { freeMediaPort, freePort } from '../support/port-ranges.js';

/** The simulator against sipp, which echoes RTP: somebody else's idea of SIP, SDP and RTP. */
let sipp: ChildProcess;
let folder: string;
let port: number;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'simulator-sipp-'));
  port = await freePort();
  const args = [
    '-sn',
    'uas',
    '-i',
    '127.0.0.1',
    '-p',
    String(port),
    '-mi',
    '127.0.0.1',
    '-mp',
    String(await freeMediaPort()),
    '-rtp_echo',
  ];
  sipp = spawn('sipp', [...args, '-nostdin'], { cwd: folder, stdio: 'ignore' });
  await Promise.race([
    once(sipp, 'spawn'),
    once(sipp, 'error').then(() =>
      Promise.reject(new Error('sipp is not installed (Debian: apt-get install sip-tester).')),
    ),
  ]);
});

afterAll(async () => {
  if (sipp.exitCode === null) {
    sipp.kill('SIGKILL');
    await once(sipp, 'exit');
  }
  await rm(folder, { recursive: true, force: true });
});

it('talks with sipp and hears itself at once', async () => {
  const recording = await placeCall({
    to: 'service',
    durationMs: 6000,
    speech: { kind: 'tone', frequencyHz: 1004 },
    target: { host: '127.0.0.1', port, transport: 'udp' },
  });
  const report = recording.report();
  expect(report).toMatchObject({ answered: true, ok: true, codec: 'PCMU', endedBy: 'us' });
  expect(report.ringMs).toBeLessThan(report.setupMs! + 0.1);
  expect(report.received.lost).toBeLessThanOrEqual(1);
  expect(report.received.packets).toBeGreaterThan(report.sent.packets * 0.98);
  expect(report.roundTrip?.sent).toBeGreaterThanOrEqual(2);
  expect(report.roundTrip?.found).toBe(report.roundTrip?.sent);
  expect(report.roundTrip?.leastMs).toBeLessThan(5);
  expect(Math.round(report.heard.frequencyHz!)).toBeGreaterThan(1001);
  expect(Math.round(report.heard.frequencyHz!)).toBeLessThan(1007);
});
