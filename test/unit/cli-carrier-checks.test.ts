import { describe, expect, it } from 'vitest';
import { examineCertificate, examineTrunks, type SeenTrunk } from '../../src/cli/carrier-checks.js';
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
    ['of another key', look('server.pem', 'foreign.key'), 'failure', 'not that of the certificate'],
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
  ['lives in part', { health: 'degraded' }, 'warning', 'not all'],
  ['was not asked', { health: 'unknown' }, 'warning', 'not asked yet'],
  ['shows its keys', { srtp: 'require' }, 'warning', 'readable'],
  ['is called by nobody', { gateways: [], health: 'unknown' }, 'ok', 'come in only'],
])('a trunk that %s', (_what, change, level, says) => {
  const trunk = { name: 'T', direction: 'both', gateways: [{ uri: 'sip:gw' }], transport: 'udp', srtp: 'off' };
  const rest = { codecs: ['PCMU'], register: false, status: 'active', health: 'healthy' };
  const [finding] = examineTrunks([{ ...trunk, ...rest, ...change }]);
  expect(finding).toMatchObject({ check: 'trunk T', level, says: expect.stringContaining(says) });
  if (level !== 'ok') expect(finding?.fix).toBeTruthy();
});
