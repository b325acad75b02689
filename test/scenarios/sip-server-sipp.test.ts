import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type Srf from 'drachtio-srf';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestServer, SDP, type TestServer } from '../support/sip-server.js';

/** Of Debian's sip-tester. */
const SIPP = 'sipp';

let t: TestServer;
let directory: string;
let destroyed = 0;

beforeAll(async () => {
  try {
    execFileSync('which', [SIPP]);
  } catch {
    throw new Error('These scenarios need sipp: apt-get install sip-tester');
  }
  directory = mkdtempSync(path.join(tmpdir(), 'sipp-'));
  t = await openTestServer({ timersMs: { t1: 500, t2: 4000, t4: 500 } });
  t.srf.invite((req, res) => {
    // by callback: a promise would be told after a BYE that came along with the news of the 200
    t.srf.createUAS(req, res, { localSdp: SDP }, (error: unknown, dialog: Srf.Dialog) => {
      if (!error) dialog.on('destroy', () => destroyed++);
    });
  });
});
afterAll(async () => {
  await t?.close();
  if (directory) rmSync(directory, { recursive: true });
});

/** Exit code 0 means that every call went as the scenario says. */
function sipp(...options: string[]): Promise<number> {
  const common = [`127.0.0.1:${t.port}`, '-i', '127.0.0.1', '-nostdin', '-timeout', '50s', '-timeout_error'];
  return new Promise((resolve) => {
    execFile(SIPP, [...common, ...options], { cwd: directory, maxBuffer: 2 ** 26 }, (error) =>
      resolve(error ? Number(error.code) : 0),
    );
  });
}

describe('sipp as caller', () => {
  it.each([
    ['UDP', 'u1', 1000],
    ['one TCP connection', 't1', 300],
    ['a TCP connection for each call', 'tn', 200],
  ])(
    'over %s: every call is answered and ended',
    async (_what, transport, calls) => {
      const before = destroyed;
      expect(
        await sipp('-sn', 'uac', '-t', transport, '-max_socket', '1000', '-m', String(calls), '-r', '100', '-l', '200'),
      ).toBe(0);
      await expect.poll(() => destroyed - before, { timeout: 5000 }).toBe(calls);
      const { live } = await t.server.stats();
      expect([live.dialogs, live.tcpConnections]).toEqual([0, 0]);
    },
    60_000,
  );
});
