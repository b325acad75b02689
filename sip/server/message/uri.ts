import { type Parameters, parseHostPort, parseParameters } from './fields.js';

/** A SIP or SIPS URI (RFC 3261 19.1). */
export interface SipUri {
  scheme: 'sip' | 'sips';
  /** Escaped as written, including a password; empty when absent. */
  user: string;
  /** In lower case, IPv6 in brackets. */
  host: string;
  port: number | null;
  parameters: Parameters;
  /** The headers after `?`. */
  headers: string;
}

/** The scheme of any URI, in lower case; empty when it has none. */
export function schemeOf(uri: string): string {
  return /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(uri)?.[1]?.toLowerCase() ?? '';
}

/** Null for another scheme or an invalid host. */
export function parseUri(text: string): SipUri | null {
  const scheme = schemeOf(text);
  if ((scheme !== 'sip' && scheme !== 'sips') || text.length > 8192) return null;
  const rest = text.slice(scheme.length + 1);
  const at = rest.lastIndexOf('@');
  const user = at < 0 ? '' : rest.slice(0, at);
  const afterUser = rest.slice(at + 1);
  const question = afterUser.indexOf('?');
  const headers = question < 0 ? '' : afterUser.slice(question + 1);
  const beforeHeaders = question < 0 ? afterUser : afterUser.slice(0, question);
  const semicolon = beforeHeaders.indexOf(';');
  const hostPort = parseHostPort(semicolon < 0 ? beforeHeaders : beforeHeaders.slice(0, semicolon));
  if (!hostPort || /[\s<>"]/.test(user)) return null;
  const parameters = parseParameters(semicolon < 0 ? '' : beforeHeaders.slice(semicolon));
  return { scheme, user, host: hostPort.host.toLowerCase(), port: hostPort.port, parameters, headers };
}

/** The host in the form of `net` and `dgram`: IPv6 without brackets. */
export function bareHost(host: string): string {
  return host.startsWith('[') ? host.slice(1, -1) : host;
}

/** The address in the form of URIs and Via: IPv6 in brackets. */
export function hostInUri(address: string): string {
  return address.includes(':') ? `[${address}]` : address;
}
