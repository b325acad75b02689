/** The caller and the called party: From, P-Asserted-Identity, To and the request-URI as a `PhoneIdentity`. */
import { type HeaderLines, hasToken, listElements, nameAddress, parameters } from '../drachtio/header.js';
import type { PhoneIdentity } from '../leg.js';

export interface ParsedUri {
  scheme: 'sip' | 'sips' | 'tel';
  /** Unescaped, without password and user parameters; for a tel URI the number without visual separators. */
  user: string;
  /** Parameters inside the user part (RFC 3261 19.1.6: `;phone-context=…` of a telephone subscriber). */
  userParams: Readonly<Record<string, string>>;
  /** Lower case, IPv6 without brackets; empty for tel. */
  host: string;
  port: number | null;
  params: Readonly<Record<string, string>>;
  /** The headers after `?`, still escaped. */
  headers: string;
}

const sipUri = /^(sips?):(?:([^@]*)@)?(\[[0-9a-f:.]+\]|[^\s:;?@[\]]+)(?::(\d{1,5}))?((?:;[^?]*)?)(?:\?(.*))?$/i;
const telUri = /^tel:([^;]+)(;.*)?$/i;

/** A `sip:`, `sips:` or `tel:` URI; null for anything else. */
export function parseUri(uri: string): ParsedUri | null {
  const tel = telUri.exec(uri);
  if (tel) {
    const params = parameters(tel[2] ?? '');
    const user = unescapeText(tel[1] ?? '').replace(/[-.() ]/g, '');
    return user ? { scheme: 'tel', user, userParams: params, host: '', port: null, params, headers: '' } : null;
  }
  const sip = sipUri.exec(uri);
  if (!sip) return null;
  const port = sip[4] === undefined ? null : Number(sip[4]);
  if (port !== null && (port < 1 || port > 65535)) return null;
  const written = sip[2] ?? '';
  const semicolon = written.indexOf(';');
  const name = semicolon < 0 ? written : written.slice(0, semicolon);
  const userParams = semicolon < 0 ? {} : parameters(written.slice(semicolon));
  const params = parameters(sip[5] ?? '');
  const user = unescapeText(name.split(':', 1)[0] ?? '');
  // `user=phone` marks the user part as a telephone number, which may contain visual separators (RFC 3966 5.1.1).
  const isPhone = params.user?.toLowerCase() === 'phone' || userParams['phone-context'] !== undefined;
  return {
    scheme: (sip[1] ?? '').toLowerCase() as 'sip' | 'sips',
    user: isPhone && /^\+?[0-9a-f*#().\- ]+$/i.test(user) ? user.replace(/[-.() ]/g, '') : user,
    userParams,
    host: (sip[3] ?? '').replace(/^\[|\]$/g, '').toLowerCase(),
    port,
    params,
    headers: sip[6] ?? '',
  };
}

/** The identity in a URI; null for a URI that `parseUri` cannot read. */
export function identityOfUri(uri: string, displayName: string | null = null): PhoneIdentity | null {
  const parsed = parseUri(uri);
  if (!parsed) return null;
  const anonymous = parsed.user.toLowerCase() === 'anonymous' || parsed.host === 'anonymous.invalid';
  return { number: anonymous ? 'anonymous' : parsed.user || parsed.host, uri, displayName };
}

/**
 * The caller. P-Asserted-Identity (RFC 3325) is used only from a trusted source and when the caller does not ask for privacy; otherwise
 * From counts. Of several asserted identities a tel URI is preferred, else the first one.
 */
export function callerIdentity(headers: HeaderLines, trusted: boolean): PhoneIdentity | null {
  const from = nameAddress(headers.get('from')?.[0]);
  const shown = from && identityOfUri(from.uri, from.displayName);
  if (!trusted || wantsPrivacy(headers)) return shown;
  const asserted = listElements(headers.get('p-asserted-identity'))
    .map((element) => nameAddress(element))
    .map((address) => address && identityOfUri(address.uri, address.displayName))
    .filter((identity) => identity !== null);
  const best = asserted.find((identity) => /^tel:/i.test(identity.uri)) ?? asserted[0];
  if (!best) return shown;
  return { ...best, displayName: best.displayName ?? asserted[0]?.displayName ?? shown?.displayName ?? null };
}

/** The called party: the request-URI; To only when the request-URI has no user part. */
export function calledIdentity(requestUri: string, headers: HeaderLines): PhoneIdentity | null {
  const to = nameAddress(headers.get('to')?.[0]);
  const parsed = parseUri(requestUri);
  if (!parsed) return null;
  if (parsed.user) return identityOfUri(requestUri, to?.displayName ?? null);
  const fallback = to && identityOfUri(to.uri, to.displayName);
  return fallback && parseUri(fallback.uri)?.user ? fallback : identityOfUri(requestUri, to?.displayName ?? null);
}

/** A user part for a URI: characters that RFC 3261 25.1 does not allow there are escaped. */
export function escapeUser(user: string): string {
  return user.replace(/[^A-Za-z0-9\-_.!~*'()&=+$,;?/]/g, (c) =>
    Array.from(new TextEncoder().encode(c), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}

function wantsPrivacy(headers: HeaderLines): boolean {
  const wishes = (headers.get('privacy') ?? []).flatMap((line) => line.split(/[;,]/));
  return ['id', 'user', 'header'].some((wish) => hasToken(wishes, wish));
}

function unescapeText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
