import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type Srf from 'drachtio-srf';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openTestServer, SDP, type TestServer } from '../support/sip-server.js';

/** Of Debian's sip-tester. */
const SIPP = 'sipp';

let t: TestServer;
let directory: string;
let destroyed: number;

beforeAll(() => {
  try {
    execFileSync('which', [SIPP]);
  } catch {
    throw new Error('These scenarios need sipp: apt-get install sip-tester');
  }
});
// a server for each try: the calls of a failed one may live on in theirs
beforeEach(async () => {
  destroyed = 0;
  directory = mkdtempSync(path.join(tmpdir(), 'sipp-'));
  // a machine that runs other tests too is not overload
  const limits = { waitMs: 30_000, foreseenWaitMs: 30_000, mainWaitMs: 30_000, lagMs: 30_000 };
  t = await openTestServer({ timersMs: { t1: 500, t2: 4000, t4: 500 }, limits });
  t.srf.invite((req, res) => {
    // by callback: a promise would be told after a BYE that came along with the news of the 200
    t.srf.createUAS(req, res, { localSdp: SDP }, (error: unknown, dialog: Srf.Dialog) => {
      if (!error) dialog.on('destroy', () => destroyed++);
    });
  });
});
afterEach(async () => {
  await t?.close();
  if (directory) rmSync(directory, { recursive: true });
});

/** Why a call did not go as the scenario says; empty: all did. */
function sipp(...options: string[]): Promise<string> {
  const common = [`127.0.0.1:${t.port}`, '-i', '127.0.0.1', '-nostdin', '-timeout', '50s', '-timeout_error'];
  const errors = path.join(directory, 'errors.log');
  return new Promise((resolve) => {
    execFile(
      SIPP,
      [...common, '-trace_err', '-error_file', errors, ...options],
      { cwd: directory, maxBuffer: 2 ** 26 },
      (error) =>
        resolve(
          error ? `exit ${error.code}: ${existsSync(errors) ? readFileSync(errors, 'utf8').slice(0, 2000) : ''}` : '',
        ),
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
      const failure = await sipp(
        ...['-sn', 'uac', '-t', transport, '-max_socket', '1000', '-m', String(calls), '-r', '100', '-l', '200'],
      );
      const { shed } = await t.server.stats();
      expect({ failure, shed: shed.overload }).toEqual({ failure: '', shed: 0 });
      await expect.poll(() => destroyed, { timeout: 10_000 }).toBe(calls);
      const { live } = await t.server.stats();
      expect([live.dialogs, live.tcpConnections]).toEqual([0, 0]);
    },
    60_000,
  );
});
