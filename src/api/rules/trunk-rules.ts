import { createPrivateKey, X509Certificate } from 'node:crypto';
import ipaddr from 'ipaddr.js';
import {
  type OutboundIdentity,
  plainIdentity,
  plainTls,
  type Trunk,
  type TrunkSettings,
  type TrunkTls,
} from '../../store/routing/trunks.js';
import { secretMask } from '../../store/tenants/secrets.js';
import { type FieldError, invalid } from '../errors.js';
import { targetProblem } from './targets.js';

export type TrunkInput = Partial<
  Omit<TrunkSettings, 'gateways' | 'maxCalls' | 'callsPerSecond' | 'outbound' | 'tls'>
> & {
  max_calls?: number | null;
  calls_per_second?: number | null;
  /** Omitted fields keep their value. */
  outbound?: Partial<OutboundIdentity>;
  tls?: Partial<TrunkTls>;
  gateways?: { uri: string; priority?: number; weight?: number }[];
};

const defaults: Omit<TrunkSettings, 'name'> = {
  direction: 'both',
  addresses: [],
  username: null,
  password: null,
  gateways: [],
  transport: 'udp',
  srtp: 'off',
  tls: plainTls,
  register: false,
  codecs: ['PCMU', 'PCMA'],
  maxCalls: null,
  callsPerSecond: null,
  outbound: plainIdentity,
  status: 'active',
};

/** The settings of a new trunk, defaults filled in. Throws 400 with every problem found. */
export function newTrunk(input: TrunkInput & { name: string }): TrunkSettings {
  const problems: FieldError[] = [];
  const settings = { ...defaults, ...read(input, defaults, problems), name: input.name };
  if (input.tls?.key === secretMask) problems.push({ path: 'tls.key', message: 'is the mask, not a secret' });
  if (input.password === secretMask) problems.push({ path: 'password', message: 'is the mask, not a secret' });
  return judged(settings, settings, problems);
}

/** The changes of a PATCH; the resulting trunk must be valid. Throws 400 with every problem found. */
export function trunkChange(trunk: Trunk, input: TrunkInput): Partial<TrunkSettings> {
  const problems: FieldError[] = [];
  const change = read(input, trunk, problems);
  if (input.password === secretMask && trunk.password === null) {
    problems.push({ path: 'password', message: 'is the mask, but no secret is stored' });
  }
  return judged(change, { ...trunk, ...change }, problems);
}

function read(
  input: TrunkInput,
  before: Pick<TrunkSettings, 'outbound' | 'tls'>,
  problems: FieldError[],
): Partial<TrunkSettings> {
  const { gateways, addresses, max_calls: maxCalls, calls_per_second: callsPerSecond, outbound, tls, ...rest } = input;
  const settings: Partial<TrunkSettings> = rest;
  if (maxCalls !== undefined) settings.maxCalls = maxCalls;
  if (callsPerSecond !== undefined) settings.callsPerSecond = callsPerSecond;
  if (outbound) settings.outbound = { ...before.outbound, ...outbound };
  if (tls) {
    settings.tls = { ...before.tls, ...tls };
    problems.push(...tlsProblems(settings.tls, tls));
  }
  if (addresses) {
    settings.addresses = addresses.map((address, index) => {
      const network = normalNetwork(address);
      if (!network)
        problems.push({
          path: `addresses.${index}`,
          message: 'must be an IP address or a network such as 192.0.2.0/24',
        });
      return network ?? address;
    });
  }
  if (gateways) {
    settings.gateways = gateways.map(({ uri, priority = 0, weight = 1 }, index) => {
      // Carriers may have private addresses; only agents and webhooks may not.
      const message = targetProblem(uri, {
        schemes: ['sip', 'sips'],
        allowPrivate: true,
        credentialsGo: 'set username and password of the trunk instead',
      });
      if (message) problems.push({ path: `gateways.${index}.uri`, message });
      return { uri, priority, weight };
    });
  }
  return settings;
}

function judged<T>(result: T, whole: Omit<TrunkSettings, 'name'>, problems: FieldError[]): T {
  const { direction, addresses, username, password, gateways, register } = whole;
  if (direction !== 'inbound' && gateways.length === 0 && (direction === 'outbound' || register)) {
    problems.push({ path: 'gateways', message: 'must name at least one gateway for outbound calls' });
  }
  if (direction === 'inbound' && addresses.length === 0 && username === null) {
    problems.push({ path: 'addresses', message: 'must not be empty without a username: no source would be trusted' });
  }
  if ((username === null) !== (password === null)) {
    problems.push({
      path: username === null ? 'username' : 'password',
      message: 'username and password are required together',
    });
  }
  if (register && (username === null || gateways.length === 0)) {
    problems.push({ path: 'register', message: 'requires a gateway, username and password' });
  }
  if (addresses.some((network) => network.endsWith('/0'))) {
    problems.push({ path: 'addresses', message: 'must not cover all addresses' });
  }
  if (problems.length > 0) throw invalid(...problems);
  return result;
}

/** Problems of the given PEM texts: unreadable ones, or a key that does not match its certificate. */
function tlsProblems({ certificate, key }: TrunkTls, given: Partial<TrunkTls>): FieldError[] {
  const problems: FieldError[] = [];
  if ((certificate === null) !== (key === null))
    problems.push({
      path: key === null ? 'tls.key' : 'tls.certificate',
      message: 'certificate and key are required together',
    });
  for (const name of ['ca', 'certificate'] as const) {
    const pem = given[name];
    if (pem && !canRead(() => new X509Certificate(pem)))
      problems.push({ path: `tls.${name}`, message: 'must be a certificate in PEM' });
  }
  if (!given.key || given.key === secretMask || problems.length > 0) return problems;
  const pem = given.key;
  if (!canRead(() => createPrivateKey(pem)))
    problems.push({ path: 'tls.key', message: 'must be a private key in PEM' });
  else if (certificate !== null && !new X509Certificate(certificate).checkPrivateKey(createPrivateKey(pem)))
    problems.push({ path: 'tls.key', message: 'does not belong to the certificate' });
  return problems;
}

function canRead(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch {
    return false;
  }
}

/** `192.0.2.7` as `192.0.2.7/32`; undefined when it is neither an address nor a network. */
function normalNetwork(text: string): string | undefined {
  if (ipaddr.isValidCIDR(text)) return text;
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return `${text}/32`;
  return ipaddr.IPv6.isValid(text) ? `${text}/128` : undefined;
}
