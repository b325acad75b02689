import { isIP } from 'node:net';
import { isPublicAddress } from '../../../net/safe-lookup.js';
import { secretMask } from '../../store/tenants/secrets.js';

/** Text that parsers silently strip or that breaks a header. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused
const unclean = /[\s\u0000-\u001f\u007f]/;
const sipUri = /^sips?:(?:[^@<>"]+@)?(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?(?:;[^?<>"]*)?(?:\?[^<>"]*)?$/i;

export interface TargetRules {
  schemes: readonly string[];
  /** Literal private, loopback and link-local hosts may be named. */
  allowPrivate: boolean;
  /** It is kept and shown to who may read the record, so it must not carry a password; where credentials go instead, as a clause. */
  credentialsGo?: string;
}

/** What is wrong with this address; null when nothing is. Names are not looked up here: that is done at every connect. */
export function targetProblem(target: string, { schemes, allowPrivate, credentialsGo }: TargetRules): string | null {
  const expected = `must be a ${schemes.map((scheme) => `${scheme}:`).join(' or ')} address`;
  if (unclean.test(target)) return 'must not contain spaces or control characters';
  const scheme = /^([a-z]+):/i.exec(target)?.[1]?.toLowerCase() ?? '';
  if (!schemes.includes(scheme)) return expected;
  const host = scheme.startsWith('sip') ? sipHost(target) : urlHost(target);
  if (host === null) return expected;
  if (credentialsGo !== undefined && hasPassword(target))
    return `must not carry a user and password: everybody who reads the record would see them; ${credentialsGo}`;
  if (!allowPrivate && isInternal(host)) return 'must not be a private, loopback or link-local address';
  return null;
}

/** In a URL a user alone may be a token too; in a SIP URI it is a part of the address. */
function hasPassword(target: string): boolean {
  if (/^sips?:/i.test(target)) return /^sips?:[^@:]*:[^@]*@/i.test(target);
  const { username, password } = new URL(target);
  return username !== '' || password !== '';
}

/** What records of older versions have kept, fit to be shown. */
export function withoutPassword(target: string): string {
  return target
    .replace(/^([a-z]+:\/\/)[^/?#@]*@/i, `$1${secretMask}@`)
    .replace(/^(sips?:[^@:]*):[^@]*@/i, `$1:${secretMask}@`);
}

function urlHost(target: string): string | null {
  if (!/^[a-z]+:\/\//i.test(target)) return null; // `new URL` would take `http:host` too
  return URL.canParse(target) ? new URL(target).hostname || null : null;
}

/** The host of a SIP URI, spelled as a URL would spell it. */
function sipHost(target: string): string | null {
  const [, host, port] = sipUri.exec(target) ?? [];
  if (host === undefined || (port !== undefined && !(Number(port) > 0 && Number(port) < 65_536))) return null;
  return urlHost(`http://${host}`);
}

/** `host` as WHATWG URLs write it: decimal, octal and hexadecimal spellings of an address are plain by then. */
function isInternal(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  if (name === 'localhost' || name.endsWith('.localhost')) return true;
  return isIP(name) !== 0 && !isPublicAddress(name);
}
