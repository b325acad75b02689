import { isIP } from 'node:net';
import { isPublicAddress } from '../../../net/safe-lookup.js';
import { secretMask } from '../../store/tenants/secrets.js';

/** Text that parsers silently strip or that breaks a header. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern rejects them
const unclean = /[\s\u0000-\u001f\u007f]/;
const sipUri = /^sips?:(?:[^@<>"]+@)?(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?(?:;[^?<>"]*)?(?:\?[^<>"]*)?$/i;

export interface TargetRules {
  schemes: readonly string[];
  /** Whether literal private, loopback and link-local hosts are allowed. */
  allowPrivate: boolean;
  /** A clause that says where credentials belong. The target is visible to every reader of the record, so it must not contain a password. */
  credentialsGo?: string;
}

/** The problem of this address, or null. Names are resolved at every connect, not here. */
export function targetProblem(target: string, { schemes, allowPrivate, credentialsGo }: TargetRules): string | null {
  const expected = `must be a ${schemes.map((scheme) => `${scheme}:`).join(' or ')} address`;
  if (unclean.test(target)) return 'must not contain spaces or control characters';
  const scheme = /^([a-z]+):/i.exec(target)?.[1]?.toLowerCase() ?? '';
  if (!schemes.includes(scheme)) return expected;
  const host = scheme.startsWith('sip') ? sipHost(target) : urlHost(target);
  if (host === null) return expected;
  if (scheme === 'tcp' && !/^tcp:\/\/[^/?#]+:[1-9]\d{0,4}\/?$/i.test(target)) return 'must be tcp://HOST:PORT';
  if (credentialsGo !== undefined && hasPassword(target))
    return `must not contain a user and password, which every reader of the record would see; ${credentialsGo}`;
  if (!allowPrivate && isInternal(host)) return 'must not be a private, loopback or link-local address';
  return null;
}

/** In a URL the user may be a secret token; in a SIP URI it is part of the address. */
function hasPassword(target: string): boolean {
  if (/^sips?:/i.test(target)) return /^sips?:[^@:]*:[^@]*@/i.test(target);
  const { username, password } = new URL(target);
  return username !== '' || password !== '';
}

/** Removes the password from a target that an older version stored. */
export function withoutPassword(target: string): string {
  return target
    .replace(/^([a-z]+:\/\/)[^/?#@]*@/i, `$1${secretMask}@`)
    .replace(/^(sips?:[^@:]*):[^@]*@/i, `$1:${secretMask}@`);
}

function urlHost(target: string): string | null {
  if (!/^[a-z]+:\/\//i.test(target)) return null; // `new URL` also accepts `http:host`
  // Hosts of other schemes than the web's keep the spelling they have.
  const web = target.replace(/^tcp:/i, 'http:');
  return URL.canParse(web) ? new URL(web).hostname || null : null;
}

/** The host of a SIP URI in the normal form of URLs. */
function sipHost(target: string): string | null {
  const [, host, port] = sipUri.exec(target) ?? [];
  if (host === undefined || (port !== undefined && !(Number(port) > 0 && Number(port) < 65_536))) return null;
  return urlHost(`http://${host}`);
}

/** `host` is in the normal form of WHATWG URLs, in which decimal, octal and hexadecimal spellings of an address are normalized. */
function isInternal(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  if (name === 'localhost' || name.endsWith('.localhost')) return true;
  return isIP(name) !== 0 && !isPublicAddress(name);
}
