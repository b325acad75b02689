import { copyFileSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLog } from '../../src/log.js';
import { TlsFiles } from '../../src/tls-files.js';
import { carrier, server, tlsFile } from '../support/tls.js';

let folder: string;
let changes: number;
let files: TlsFiles | null;
let stamp = 1_700_000_000;
const at = (name: string) => path.join(folder, name);

/** As a renewal does it: another file, and another time. */
function put(name: string, source: string): void {
  copyFileSync(tlsFile(source), at(name));
  stamp += 60;
  utimesSync(at(name), stamp, stamp);
}

const settings = (ca: string | null = null) => ({
  ...{ sipTlsPort: 5061, sipTlsCertificate: at('cert.pem'), sipTlsKey: at('key.pem') },
  ...{ sipTlsCa: ca, sipTlsClientCertificates: false },
});
const open = (ca: string | null = null) => new TlsFiles(settings(ca), createLog('silent'), () => changes++, 3_600_000);

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'tls-files-'));
  put('cert.pem', 'server.pem');
  put('key.pem', 'server.key');
  changes = 0;
  files = null;
});
afterEach(() => {
  files?.close();
  rmSync(folder, { recursive: true });
});

describe('certificate files', () => {
  it('are read, and again when they have changed, once', () => {
    files = open();
    expect(files.current).toMatchObject({ ...server, requireClientCertificate: false });
    files.look();
    expect(changes).toBe(0);
    put('cert.pem', 'carrier.pem');
    put('key.pem', 'carrier.key');
    files.look();
    files.look();
    expect(changes).toBe(1);
    expect(files.current).toMatchObject(carrier);
  });

  it('that do not go together are not taken: the old ones stay until both are there', () => {
    files = open();
    put('cert.pem', 'carrier.pem');
    files.look();
    expect([changes, files.current.certificate]).toEqual([0, server.certificate]);
    put('key.pem', 'carrier.key');
    files.look();
    expect([changes, files.current.certificate]).toEqual([1, carrier.certificate]);
    rmSync(at('key.pem'));
    files.look();
    expect([changes, files.current.key]).toEqual([1, carrier.key]);
  });

  it.each([
    ['is not there', () => rmSync(at('cert.pem')), 'TRUNKLINE_SIP_TLS_CERTIFICATE: '],
    ['is no PEM', () => writeFileSync(at('cert.pem'), 'junk'), 'TRUNKLINE_SIP_TLS_CERTIFICATE: the file is not'],
    ['belongs to another key', () => put('key.pem', 'foreign.key'), 'does not belong to'],
  ])('one that %s at the start is one clear sentence', (_what, break_, says) => {
    break_();
    expect(() => open()).toThrow(says);
  });

  it('of authorities count as well', () => {
    put('ca.pem', 'authority.pem');
    files = open(at('ca.pem'));
    put('ca.pem', 'stranger.pem');
    files.look();
    expect(changes).toBe(1);
  });
});
