/** Turns a trunk's gateway into the URIs an INVITE is sent to. */

import type { Stack } from '../drachtio/types.js';
import { escapeUser, type ParsedUri, parseUri } from '../inbound/identity.js';
import { type Gateway, type Peer, SipError } from '../leg.js';
import type { Binding } from '../registrar/bindings.js';
import { entryToken } from '../server/flows/flow-token.js';
import type { TransportEndpoint } from '../server/transport/path.js';
import type { TrunkTable } from '../trunk/trunk-table.js';

export interface InviteTarget {
  gateway: Gateway;
  requestUri: string;
  /** The called party, when the Request-URI does not name it: a registered contact is only a location, and a PBX has many numbers. */
  called?: string;
  /** The SIP server to send from, if it is connected: a registered phone is reached through the server it registered with. */
  server?: Stack;
  /** The URI of the next hop, when that is not the request-URI's host. */
  nextHop?: string;
  /** The proxies behind the next hop, up to a registered phone: values of Route. */
  routes?: readonly string[];
  /** Name or address of the next hop, to choose which of our addresses faces it. */
  host: string;
  /** A registered phone behind another node, as that node sees it: its audio comes from there. */
  phone?: Peer;
}

/** Knows the contacts of registered users. */
export interface PhoneLocations {
  of(username: string): readonly Binding[] | Promise<readonly Binding[]>;
}

/**
 * The targets of an INVITE with this Call-ID for this gateway, in order; empty when the gateway is a user without a current registration.
 * Rejects with `SipError` `protocol` when the gateway's URI or the number cannot be parsed.
 */
export async function targetsOf(
  gateway: Gateway,
  { to, callId }: { to: string; callId: string },
  trunks: TrunkTable,
  locations: PhoneLocations,
): Promise<InviteTarget[]> {
  const uri = parseUri(gateway.uri);
  if (!uri || uri.scheme === 'tel') {
    throw new SipError('protocol', 'unspecified', `The gateway "${gateway.uri}" is not a SIP URI.`);
  }
  if (uri.user !== '') return [{ gateway, requestUri: bare(gateway.uri), host: uri.host }];
  const registered = await registeredAt(gateway.uri, trunks, locations);
  if (registered) {
    return registered.map((binding) => ({
      gateway,
      ...placeOf(binding, to),
      ...hopToPhone(binding, callId),
      ...(binding.path ? { routes: binding.path } : {}),
      ...(binding.through ? { phone: binding.peer } : {}),
      ...(binding.server === undefined ? {} : { server: binding.server }),
    }));
  }
  return [{ gateway, requestUri: atHost(uri, calledUser(to)), host: uri.host }];
}

/**
 * A registered contact is used unchanged (RFC 3261 16.6). One without a user part is a PBX that takes any number: the called number becomes
 * the user part, as for a gateway (RFC 6140 5.2).
 */
function placeOf({ contact, domain }: Binding, to: string): Pick<InviteTarget, 'requestUri' | 'called'> {
  const uri = parseUri(contact);
  const user = parseUri(to)?.user === '' ? registeredName(to) : calledUser(to);
  return {
    requestUri: uri?.user === '' ? atHost(uri, user) : contact,
    called: `sip:${escapeUser(user)}@${bracketed(domain)}`,
  };
}

/** The contacts of the registered user that a gateway's URI names (`sip:<username>`); null when the URI names a host. */
export async function registeredAt(
  gateway: string,
  trunks: TrunkTable,
  locations: PhoneLocations,
): Promise<readonly Binding[] | null> {
  const uri = parseUri(gateway);
  if (uri?.user !== '' || uri.port !== null) return null;
  const name = registeredName(gateway);
  return trunks.withUsername(name) ? locations.of(name) : null;
}

/**
 * The way of a request with this Call-ID to a registered phone: to where its REGISTER came from (also when that is a proxy, whatever it says of
 * itself in Path), or to the node that can reach it.
 */
export function hopToPhone({ peer, through }: Binding, callId: string): { host: string; nextHop: string } {
  if (!through) return { host: peer.address, nextHop: hopTo(peer) };
  const { transport, address, port, secret } = through;
  const token = entryToken(secret, peer as TransportEndpoint, callId);
  const nextHop = `sip:${token}@${bracketed(address)}:${port};transport=${transport};lr`;
  return { host: address, nextHop };
}

/** The user part of a number or URI to call. Throws `SipError` when there is none. */
export function calledUser(to: string): string {
  const user = /^(sips?|tel):/i.test(to) ? parseUri(to)?.user : to.trim();
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a control character must not reach the start line
  if (!user || /[\x00-\x20<>"@]/.test(user)) {
    throw new SipError('protocol', 'not_found', `"${to}" is neither a number nor a SIP URI.`);
  }
  return user;
}

/**
 * The target of a 3xx when its Contact has the same user: a carrier that spreads its load. Null for another user: that is another number,
 * and whether it may be called was never checked.
 */
export function redirectTarget(from: InviteTarget, contact: string): InviteTarget | null {
  const uri = parseUri(contact);
  if (!uri || uri.scheme === 'tel' || uri.user !== parseUri(from.requestUri)?.user) return null;
  return { gateway: from.gateway, requestUri: bare(contact), host: uri.host };
}

/**
 * The URI of a peer as seen on the wire, for use as a next hop. `check`: the name to verify over TLS, and the trust settings; without it
 * only a connection that the peer opened is used. The parameters are for the SIP server; they are never sent.
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

/** User names are case-sensitive, hosts are not: the name is read from the text as written. */
function registeredName(uri: string): string {
  return /^sips?:([^;?]*)/i.exec(uri)?.[1] ?? '';
}

function bare(uri: string): string {
  return uri.split('?', 1)[0] ?? uri;
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
