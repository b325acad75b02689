/** What `doctor` says of SIP over TLS and of the trunks of a running server. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { Settings } from '../../config/settings.js';
import type { Finding } from './checks.js';
import type { Machine } from './machine.js';

const dayMs = 86_400_000;
const warnDays = 14;

type TlsFiles = Pick<Settings, 'sipTlsPort' | 'sipTlsCertificate' | 'sipTlsKey'>;

/** The certificate of SIP over TLS: there, ours, and for how long. */
export function examineCertificate(machine: Pick<Machine, 'read' | 'wallMs'>, settings: TlsFiles): Finding {
  const check = 'tls';
  const { sipTlsPort, sipTlsCertificate: file, sipTlsKey } = settings;
  if (file === null || sipTlsKey === null) {
    const fix = 'TRUNKLINE_SIP_TLS_CERTIFICATE and TRUNKLINE_SIP_TLS_KEY: PEM files';
    if (sipTlsPort !== null) return { check, level: 'failure', says: 'sip_tls_port without a certificate', fix };
    return { check, level: 'ok', says: 'no listener; calls of ours go over TLS where a trunk says so' };
  }
  const pem = machine.read(file);
  const key = machine.read(sipTlsKey);
  if (pem === null || key === null) {
    const says = `${pem === null ? file : sipTlsKey} cannot be read`;
    return { check, level: 'failure', says, fix: 'let the user of the server read it' };
  }
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(pem);
    if (!certificate.checkPrivateKey(createPrivateKey(key)))
      return {
        check,
        level: 'failure',
        says: 'the key is not that of the certificate',
        fix: 'name the two that belong together',
      };
  } catch {
    return { check, level: 'failure', says: `${file} or its key is not PEM`, fix: 'fullchain.pem and privkey.pem' };
  }
  const days = Math.floor((Date.parse(certificate.validTo) - machine.wallMs()) / dayMs);
  const names = certificate.subjectAltName?.replaceAll('DNS:', '').replaceAll('IP Address:', '') ?? 'no name at all';
  const fix = 'renew it; the server takes the new file within 30 s';
  if (days < 0) return { check, level: 'failure', says: `the certificate for ${names} expired ${-days} days ago`, fix };
  const says = `the certificate for ${names} is valid for ${days} days`;
  return days < warnDays ? { check, level: 'warning', says, fix } : { check, level: 'ok', says };
}

/** A trunk as the API shows it. */
export interface SeenTrunk {
  name: string;
  direction: string;
  gateways: { uri: string }[];
  transport: string;
  srtp: string;
  codecs: string[];
  register: boolean;
  status: string;
  health: string;
}

/** One finding for each active trunk: whether its gateways answer OPTIONS, and what would go wrong in a call. */
export function examineTrunks(trunks: readonly SeenTrunk[]): Finding[] {
  return trunks.filter((trunk) => trunk.status === 'active').map(examineTrunk);
}

function examineTrunk({ name, gateways, transport, srtp, codecs, health }: SeenTrunk): Finding {
  const check = `trunk ${name}`;
  const where = gateways.map(({ uri }) => uri).join(', ');
  const how = `${transport}, srtp ${srtp}, ${codecs.join(' ')}`;
  if (gateways.length === 0)
    return { check, level: 'ok', says: `calls come in only; srtp ${srtp}, ${codecs.join(' ')}` };
  if (health === 'down') {
    const fix =
      transport === 'tls'
        ? 'its host, port and firewall, and its certificate: the log line "gateway does not answer" says which'
        : 'its host, port and firewall; whether it knows our address; the log line "gateway does not answer" says more';
    return { check, level: 'failure', says: `${where} does not answer OPTIONS (${how})`, fix };
  }
  if (health === 'degraded') {
    return {
      check,
      level: 'warning',
      says: `not all of ${where} answer OPTIONS (${how})`,
      fix: 'calls fail over; ask the carrier',
    };
  }
  if (srtp !== 'off' && transport !== 'tls') {
    return { check, level: 'warning', says: `the keys of SRTP go over ${transport}, readable`, fix: 'transport: tls' };
  }
  if (health === 'unknown') {
    return {
      check,
      level: 'warning',
      says: `${where} was not asked yet (${how})`,
      fix: 'wait, or set TRUNKLINE_TRUNK_PROBE_SEC',
    };
  }
  return { check, level: 'ok', says: `${where} answers OPTIONS (${how})` };
}
