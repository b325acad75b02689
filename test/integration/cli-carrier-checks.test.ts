import { X509Certificate } from 'node:crypto';
import { createServer } from 'node:tls';
import { describe, expect, it } from 'vitest';
import {
  examineCarrierCertificates,
  examineCertificate,
  examineTrunks,
  type SeenTrunk,
} from '../../src/cli/doctor/carrier-checks.js';
import { thisMachine } from '../../src/cli/doctor/machine.js';
import { expired, foreign, server } from '../support/tls.js';

const dayMs = 86_400_000;
const files: Record<string, string> = {
  'server.pem': server.certificate,
  'server.key': server.key,
  'expired.pem': expired.certificate,
  'expired.key': expired.key,
  'foreign.key': foreign.key,
  junk: 'junk',
};

describe('the certificate', () => {
  const validTo = Date.parse('2125-06-15T00:00:00Z');
  const look = (certificate: string | null, key: string | null, atMs = Date.UTC(2030, 0)) =>
    examineCertificate(
      { read: (file) => files[file] ?? null, wallMs: () => atMs },
      { sipTlsPort: 5061, sipTlsCertificate: certificate, sipTlsKey: key },
    );

  it.each([
    ['none', look(null, null), 'failure', 'without a certificate'],
    ['not there', look('gone.pem', 'server.key'), 'failure', 'gone.pem cannot be read'],
    ['not PEM', look('junk', 'server.key'), 'failure', 'not PEM'],
    ['of another key', look('server.pem', 'foreign.key'), 'failure', 'does not match the certificate'],
    ['expired', look('expired.pem', 'expired.key'), 'failure', 'expired'],
    ['about to expire', look('server.pem', 'server.key', validTo - 5 * dayMs), 'warning', 'valid for'],
    ['fine', look('server.pem', 'server.key'), 'ok', 'for 127.0.0.1, localhost is valid for'],
  ])('%s', (_what, finding, level, says) => {
    expect(finding).toMatchObject({ level, says: expect.stringContaining(says) });
    if (level !== 'ok') expect(finding.fix).toBeTruthy();
  });
});

it.each<[string, Partial<SeenTrunk>, string, string]>([
  ['lives', {}, 'ok', 'answers OPTIONS (udp, srtp off, PCMU)'],
  ['is down', { health: 'down' }, 'failure', 'does not answer OPTIONS'],
  ['is down behind TLS', { health: 'down', transport: 'tls' }, 'failure', 'does not answer OPTIONS'],
  ['is a phone that is away', { health: 'down', username: 'gw' }, 'warning', 'registered as gw'],
  ['lives in part', { health: 'degraded' }, 'warning', 'not all'],
  ['was not asked', { health: 'unknown' }, 'warning', 'not been probed yet'],
  ['shows its keys', { srtp: 'require' }, 'warning', 'unencrypted'],
  ['is called by nobody', { gateways: [], health: 'unknown' }, 'ok', 'inbound calls only'],
])('a trunk that %s', (_what, change, level, says) => {
  const trunk = {
    name: 'T',
    direction: 'both',
    addresses: [],
    username: null,
    gateways: [{ uri: 'sip:gw' }],
    transport: 'udp',
    srtp: 'off',
  };
  const rest = { codecs: ['PCMU'], register: false, status: 'active', health: 'healthy' };
  const [finding] = examineTrunks([{ ...trunk, ...rest, ...change }], '127.0.0.1');
  expect(finding).toMatchObject({ check: 'trunk T', level, says: expect.stringContaining(says) });
  if (level !== 'ok') expect(finding?.fix).toBeTruthy();
});

describe('a trunk that trusts this host', () => {
  const look = (addresses: string[], sipHost: string, change: Partial<SeenTrunk> = {}) =>
    examineTrunks(
      [
        {
          ...{
            name: 'T',
            direction: 'inbound',
            addresses,
            username: null,
            gateways: [],
            transport: 'udp',
            srtp: 'off',
          },
          ...{ codecs: ['PCMU'], register: false, status: 'active', health: 'unknown', ...change },
        },
      ],
      sipHost,
    ).filter(({ level }) => level === 'warning');

  it('is reported while sip_host is open to others, and only then', () => {
    expect(look(['192.0.2.0/24', '127.0.0.1/32', '::1/128'], '0.0.0.0')).toEqual([
      expect.objectContaining({
        check: 'trunk T',
        says: expect.stringContaining('trusts 127.0.0.1/32, ::1/128 while sip_host is 0.0.0.0'),
      }),
    ]);
    expect(look(['127.0.0.1/32'], '127.0.0.1')).toEqual([]);
    expect(look(['192.0.2.0/24'], '0.0.0.0')).toEqual([]);
    expect(look(['127.0.0.1/32'], '0.0.0.0', { status: 'inactive' })).toEqual([]);
    expect(look(['127.0.0.1/32'], '0.0.0.0', { direction: 'outbound' })).toEqual([]);
  });
});

describe('the certificate of a carrier', () => {
  const seen = (uri: string, transport: string): SeenTrunk => ({
    ...{ name: 'T', addresses: [], direction: 'both', username: null, gateways: [{ uri }], transport, srtp: 'off' },
    ...{ codecs: ['PCMU'], register: false, status: 'active', health: 'healthy' },
  });
  const asked: string[] = [];
  const look = (trunk: SeenTrunk, found: X509Certificate | string, atMs = Date.UTC(2030, 0)) =>
    examineCarrierCertificates(
      {
        wallMs: () => atMs,
        secureHost: async (name) => ({ host: `edge.${name}`, port: 5071 }),
        certificateAt: async (host, port) => {
          asked.push(`${host}:${port}`);
          return found;
        },
      },
      [trunk],
    );
  const good = new X509Certificate(server.certificate);

  it.each<[string, SeenTrunk, X509Certificate | string, string, string, string]>([
    ['is good', seen('sip:gw.example:5061', 'tls'), good, 'ok', 'is valid for', 'gw.example:5061'],
    [
      'has expired',
      seen('sips:gw.example', 'udp'),
      new X509Certificate(expired.certificate),
      'failure',
      'expired',
      'edge.gw.example:5071',
    ],
    [
      'cannot be seen',
      seen('sip:[2001:db8::1]:5061;transport=tls', 'udp'),
      'ECONNREFUSED',
      'failure',
      'ECONNREFUSED',
      '2001:db8::1:5061',
    ],
  ])('%s', async (_what, trunk, found, level, says, host) => {
    const findings = await look(trunk, found);
    expect(findings).toEqual([
      expect.objectContaining({ check: 'carrier tls', level, says: expect.stringContaining(says) }),
    ]);
    expect(asked.at(-1)).toBe(host);
    if (level !== 'ok') expect(findings[0]?.fix).toBeTruthy();
  });

  it("is nobody's affair without TLS", async () => {
    expect(await look(seen('sip:gw.example;transport=tcp', 'tls'), good)).toEqual([]);
    expect(await look({ ...seen('sips:gw.example', 'tls'), status: 'inactive' }, good)).toEqual([]);
  });

  it('of a real server is seen', async () => {
    const listener = createServer({ cert: server.certificate, key: server.key });
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const { port } = listener.address() as { port: number };
    const found = await thisMachine.certificateAt('127.0.0.1', port);
    await new Promise((resolve) => listener.close(resolve));
    expect(found).toMatchObject({ fingerprint256: good.fingerprint256 });
    expect(await thisMachine.certificateAt('127.0.0.1', port)).toBe('ECONNREFUSED');
  });
});
