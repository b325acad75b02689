/** The checks of `doctor` for SIP over TLS and for the trunks of a running server. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import ipaddr from 'ipaddr.js';
import type { Settings } from '../../../config/settings.js';
import type { Finding } from './finding.js';
import type { Machine } from './machine.js';

const dayMs = 86_400_000;
const warnDays = 14;

type TlsFiles = Pick<Settings, 'sipTlsPort' | 'sipTlsCertificate' | 'sipTlsKey'>;

/** Checks the certificate of SIP over TLS: presence, matching key, and validity. */
export function examineCertificate(machine: Pick<Machine, 'read' | 'wallMs'>, settings: TlsFiles): Finding {
  const check = 'tls';
  const { sipTlsPort, sipTlsCertificate: file, sipTlsKey } = settings;
  if (file === null || sipTlsKey === null) {
    const fix = 'set TRUNKLINE_SIP_TLS_CERTIFICATE and TRUNKLINE_SIP_TLS_KEY to PEM files';
    if (sipTlsPort !== null) return { check, level: 'failure', says: 'sip_tls_port without a certificate', fix };
    return { check, level: 'ok', says: 'no listener; outbound calls use TLS on trunks with transport tls' };
  }
  const pem = machine.read(file);
  const key = machine.read(sipTlsKey);
  if (pem === null || key === null) {
    const says = `${pem === null ? file : sipTlsKey} cannot be read`;
    return { check, level: 'failure', says, fix: 'make the file readable for the user of the server' };
  }
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(pem);
    if (!certificate.checkPrivateKey(createPrivateKey(key)))
      return {
        check,
        level: 'failure',
        says: 'the key does not match the certificate',
        fix: 'configure a matching certificate and key',
      };
  } catch {
    return {
      check,
      level: 'failure',
      says: `${file} or its key is not PEM`,
      fix: 'use PEM files such as fullchain.pem and privkey.pem',
    };
  }
  const names = certificate.subjectAltName?.replaceAll('DNS:', '').replaceAll('IP Address:', '') ?? 'no name';
  const fix = 'renew it; the server loads the new file within 30 s';
  return byDays(check, `for ${names}`, daysLeft(certificate, machine.wallMs()), fix);
}

/** The finding for the remaining days of a certificate. */
function byDays(check: string, of: string, days: number, fix: string): Finding {
  if (days < 0) return { check, level: 'failure', says: `the certificate ${of} expired ${-days} days ago`, fix };
  const says = `the certificate ${of} is valid for ${days} days`;
  return days < warnDays ? { check, level: 'warning', says, fix } : { check, level: 'ok', says };
}

const daysLeft = ({ validTo }: X509Certificate, nowMs: number) => Math.floor((Date.parse(validTo) - nowMs) / dayMs);

/** One finding for each TLS gateway: the validity of its certificate. Whether it is trusted shows in the OPTIONS check. */
export async function examineCarrierCertificates(
  machine: Pick<Machine, 'certificateAt' | 'secureHost' | 'wallMs'>,
  trunks: readonly SeenTrunk[],
): Promise<Finding[]> {
  const secure = trunks
    .filter((trunk) => trunk.status === 'active')
    .flatMap(({ gateways, transport }) => gateways.filter(({ uri }) => isSecure(uri, transport)).map(({ uri }) => uri));
  return Promise.all(
    [...new Set(secure)].map(async (uri): Promise<Finding> => {
      const check = 'carrier tls';
      const [, name = '', written] = /^sips?:(?:[^@]*@)?(\[[^\]]+\]|[^:;?]+)(?::(\d+))?/i.exec(uri) ?? [];
      const bare = name.replace(/^\[|\]$/g, '');
      const { host, port } =
        written === undefined ? await machine.secureHost(bare) : { host: bare, port: Number(written) };
      const found = await machine.certificateAt(host, port);
      if (typeof found === 'string')
        return { check, level: 'failure', says: `${host}:${port}: ${found}`, fix: 'check its host, port and firewall' };
      return byDays(check, `of ${host}:${port}`, daysLeft(found, machine.wallMs()), 'ask the carrier to renew it');
    }),
  );
}

function isSecure(uri: string, transport: string): boolean {
  const written = /;transport=(\w+)/i.exec(uri)?.[1]?.toLowerCase();
  return /^sips:/i.test(uri) || (written ?? transport) === 'tls';
}

/** A trunk as returned by the API. */
export interface SeenTrunk {
  name: string;
  direction: string;
  addresses: string[];
  username: string | null;
  gateways: { uri: string }[];
  transport: string;
  srtp: string;
  codecs: string[];
  register: boolean;
  status: string;
  health: string;
}

/**
 * One finding for each active trunk: whether its gateways answer OPTIONS, and problems to expect in calls. One more for a trunk that trusts
 * this host although `sipHost` is reachable from other hosts.
 */
export function examineTrunks(trunks: readonly SeenTrunk[], sipHost: string): Finding[] {
  const active = trunks.filter((trunk) => trunk.status === 'active');
  const open = isLoopback(sipHost) ? [] : active.flatMap((trunk) => trustOfThisHost(trunk, sipHost));
  return [...active.map(examineTrunk), ...open];
}

function trustOfThisHost({ name, direction, addresses }: SeenTrunk, sipHost: string): Finding[] {
  const own = direction === 'outbound' ? [] : addresses.filter((net) => isLoopback(net.split('/')[0] ?? ''));
  if (own.length === 0) return [];
  const says = `trusts ${own.join(', ')} while sip_host is ${sipHost}: every program on this host can place calls, and a proxy on it can forward calls of others`;
  return [{ check: `trunk ${name}`, level: 'warning', says, fix: 'keep it if intended; otherwise remove the address' }];
}

function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}

function examineTrunk({ name, username, gateways, transport, srtp, codecs, health }: SeenTrunk): Finding {
  const check = `trunk ${name}`;
  const where = gateways.map(({ uri }) => uri).join(', ');
  const how = `${transport}, srtp ${srtp}, ${codecs.join(' ')}`;
  if (gateways.length === 0)
    return { check, level: 'ok', says: `inbound calls only; srtp ${srtp}, ${codecs.join(' ')}` };
  if (health === 'down' && gateways.every(({ uri }) => uri === `sip:${username}`)) {
    const fix = 'register a phone with the address of this server and the user and password of the trunk';
    return { check, level: 'warning', says: `no responding phone is registered as ${username} (${how})`, fix };
  }
  if (health === 'down') {
    const fix =
      transport === 'tls'
        ? 'check its host, port, firewall and certificate; see the log line "gateway does not answer"'
        : 'check its host, port and firewall, and whether it accepts the address of this server; see the log line "gateway does not answer"';
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
    return {
      check,
      level: 'warning',
      says: `SRTP keys are sent unencrypted over ${transport}`,
      fix: 'set transport to tls',
    };
  }
  if (health === 'unknown') {
    return {
      check,
      level: 'warning',
      says: `${where} has not been probed yet (${how})`,
      fix: 'wait, or set TRUNKLINE_TRUNK_PROBE_SEC',
    };
  }
  return { check, level: 'ok', says: `${where} answers OPTIONS (${how})` };
}
