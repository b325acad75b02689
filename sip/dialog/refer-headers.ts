/** Reads and writes the header fields and bodies of REFER (RFC 3515) and its NOTIFYs. Pure functions. */
import { nameAddress } from '../drachtio/header.js';
import { escapeUser, parseUri } from '../inbound/identity.js';

export interface ReferTarget {
  /** The URI without its headers. */
  to: string;
  /** The dialog to replace (RFC 3891), unescaped; null for a blind transfer. */
  replaces: string | null;
}

/** The target in a `Refer-To` value; null when it cannot be parsed. */
export function referTarget(value: string | undefined): ReferTarget | null {
  const address = nameAddress(value);
  const uri = address && parseUri(address.uri);
  if (!address || !uri) return null;
  const written = uri.headers.split('&').find((header) => /^replaces=/i.test(header));
  const question = address.uri.indexOf('?');
  return {
    to: question < 0 ? address.uri : address.uri.slice(0, question),
    replaces: written === undefined ? null : unescaped(written.slice('replaces='.length)),
  };
}

/** The URI for `Refer-To`: a URI unchanged, a bare number at the far side's own host. */
export function referUri(to: string, remoteTarget: string): string | null {
  if (/^(sips?|tel):/i.test(to)) return /[\s<>"]/.test(to) ? null : to;
  const far = parseUri(remoteTarget);
  if (!far?.host || to === '' || /[\s<>"@]/.test(to)) return null;
  const host = far.host.includes(':') ? `[${far.host}]` : far.host;
  return `sip:${escapeUser(to)}@${host}${far.port === null ? '' : `:${far.port}`}`;
}

/** The status in a `message/sipfrag` body; null when it has none. */
export function sipfragStatus(body: string): number | null {
  const match = /^\s*SIP\/2\.0\s+([1-6]\d\d)\b/i.exec(body);
  return match ? Number(match[1]) : null;
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
