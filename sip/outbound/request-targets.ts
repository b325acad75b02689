/** From a gateway of the record to the URIs an INVITE goes to. */

import type { Stack } from '../drachtio/types.js';
import { escapeUser, type ParsedUri, parseUri } from '../inbound/identity.js';
import { type Gateway, type Peer, SipError } from '../leg.js';
import type { Binding, Bindings } from '../registrar/bindings.js';
import type { TrunkTable } from '../trunk/trunk-table.js';

export interface InviteTarget {
  gateway: Gateway;
  requestUri: string;
  /** Who was called, where the Request-URI does not say it: a registered contact is a place, and behind a PBX are many numbers. */
  called?: string;
  /** The SIP server that has to send it, if it is there: a registered phone is reached where it registered. */
  server?: Stack;
  /** The URI of the next hop where that is not the request-URI's host. */
  nextHop?: string;
  /** Name or address of the next hop: which of our addresses faces it? */
  host: string;
}

/**
 * Where to send the INVITE for this gateway, in order; empty when the gateway is a registered user and he is nowhere now.
 * Throws `SipError` `protocol` when the gateway's URI or the number cannot be read.
 */
export function targetsOf(gateway: Gateway, to: string, trunks: TrunkTable, bindings: Bindings): InviteTarget[] {
  const uri = parseUri(gateway.uri);
  if (!uri || uri.scheme === 'tel') {
    throw new SipError('protocol', 'unspecified', `The gateway "${gateway.uri}" is not a SIP URI.`);
  }
  if (uri.user !== '') return [{ gateway, requestUri: bare(gateway.uri), host: uri.host }];
  const registered = registeredAt(gateway.uri, trunks, bindings);
  if (registered) {
    return registered.map((binding) => ({
      gateway,
      ...placeOf(binding, to),
      nextHop: hopTo(binding.peer),
      host: binding.peer.address,
      ...(binding.server === undefined ? {} : { server: binding.server }),
    }));
  }
  return [{ gateway, requestUri: atHost(uri, calledUser(to)), host: uri.host }];
}

/**
 * A registered contact stays as it was registered (RFC 3261 16.6). One without a user part is a PBX that takes any number: the number
 * becomes the user part, as of a gateway (RFC 6140 5.2).
 */
function placeOf({ contact, domain }: Binding, to: string): Pick<InviteTarget, 'requestUri' | 'called'> {
  const uri = parseUri(contact);
  const user = parseUri(to)?.user === '' ? registeredName(to) : calledUser(to);
  return {
    requestUri: uri?.user === '' ? atHost(uri, user) : contact,
    called: `sip:${escapeUser(user)}@${bracketed(domain)}`,
  };
}

/** Where the user is whom a gateway's URI names (`sip:<username>`), who registers with us; null when it is a host. */
export function registeredAt(gateway: string, trunks: TrunkTable, bindings: Bindings): Binding[] | null {
  const uri = parseUri(gateway);
  if (uri?.user !== '' || uri.port !== null) return null;
  const name = registeredName(gateway);
  return trunks.withUsername(name) ? bindings.of(name) : null;
}

/** The user part that a number or URI to call stands for. Throws `SipError` when there is none. */
export function calledUser(to: string): string {
  const user = /^(sips?|tel):/i.test(to) ? parseUri(to)?.user : to.trim();
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a control character must not reach the start line
  if (!user || /[\x00-\x20<>"@]/.test(user)) {
    throw new SipError('protocol', 'not_found', `"${to}" is neither a number nor a SIP URI.`);
  }
  return user;
}

/**
 * The URI that a 3xx sends us to, when it names the same user: a carrier that shares its load. Another user is another number, and
 * whether that one may be called was never asked; null then.
 */
export function redirectTarget(from: InviteTarget, contact: string): InviteTarget | null {
  const uri = parseUri(contact);
  if (!uri || uri.scheme === 'tel' || uri.user !== parseUri(from.requestUri)?.user) return null;
  return { gateway: from.gateway, requestUri: bare(contact), host: uri.host };
}

/**
 * The URI of a peer as it was seen, for use as a next hop. `check`: who has to be there when it is TLS, and whose authorities count; without
 * it only a connection that the peer made himself will do. The parameters are for the SIP server: nothing of a next hop is sent.
 */
export function hopTo(peer: Peer, check?: { name: string; trust: string }): string {
  const secured = peer.transport === 'tls' ? check : undefined;
  const tls = secured
    ? `;tls-name=${bracketed(secured.name)}${secured.trust === '' ? '' : `;tls-trust=${secured.trust}`}`
    : '';
  return `sip:${bracketed(peer.address)}:${peer.port};transport=${peer.transport}${tls}`;
}

function atHost(uri: ParsedUri, user: string): string {
  const port = uri.port === null ? '' : `:${uri.port}`;
  const params = Object.entries(uri.params).map(([name, value]) => (value === '' ? `;${name}` : `;${name}=${value}`));
  return `${uri.scheme}:${escapeUser(user)}@${bracketed(uri.host)}${port}${params.join('')}`;
}

/** User names are case-sensitive, hosts are not: the name is read from the text. */
function registeredName(uri: string): string {
  return /^sips?:([^;?]*)/i.exec(uri)?.[1] ?? '';
}

function bare(uri: string): string {
  return uri.split('?', 1)[0] ?? uri;
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
