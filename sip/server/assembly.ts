/** The parts that the user agent client and the user agent server share. */
import { randomUUID } from 'node:crypto';
import type { ControlServer } from './control/control.js';
import type { DialogTable } from './dialogs/dialogs.js';
import { splitList } from './message/fields.js';
import type { Header } from './message/message.js';
import type { InviteAdmission } from './overload/admission.js';
import type { Sources } from './overload/sources.js';
import type { TimerValues, TransactionClock } from './transactions/timers.js';
import type { TransactionTable } from './transactions/transaction-table.js';
import type { LocalIdentity, Network } from './transport/network.js';
import type { TransportName } from './transport/path.js';

export interface Core {
  clock: TransactionClock;
  timers: TimerValues;
  transactions: TransactionTable;
  dialogs: DialogTable;
  network: Network;
  control: ControlServer;
  sources: Sources;
  admission: InviteAdmission;
  /** Product token for User-Agent and Server; null: neither header is sent. */
  product: string | null;
  /** Aborts when the server closes. */
  closing: AbortSignal;
}

/** Methods that reach an application; the server handles the other methods of RFC 3261 itself. */
export const ALLOW = 'INVITE, ACK, CANCEL, BYE, OPTIONS, PRACK, UPDATE, INFO, REFER, NOTIFY, MESSAGE, REGISTER';

/** Option tags (RFC 3261 19.2) that this server and the library on top of it support. */
export const OPTION_TAGS: ReadonlySet<string> = new Set(['100rel', 'timer', 'replaces']);

export function newTag(): string {
  return randomUUID().replaceAll('-', '').slice(0, 20);
}

/** Our address as a URI, with the parameter that makes a peer use the same transport. */
export function contactUri(identity: LocalIdentity, transport: TransportName, scheme: 'sip' | 'sips'): string {
  return `${scheme}:${hostport(identity)}${transportParameter(transport)}`;
}

function transportParameter(transport: TransportName): string {
  return transport === 'udp' ? '' : `;transport=${transport}`;
}

export function hostport(identity: LocalIdentity): string {
  return `${identity.host.includes(':') ? `[${identity.host}]` : identity.host}:${identity.port}`;
}

const ADDRESS_HEADERS: ReadonlySet<string> = new Set(['from', 'to', 'contact', 'p-asserted-identity']);
const AT_LOCALHOST = /@localhost(?::\d+)?(?=[;>?\s,]|$)/gi;

/**
 * An address header of the application as it is sent: `@localhost`, which an application writes when it does not know our address, becomes
 * the sending socket's address, and a bare URI gets angle brackets, so that its parameters are clearly the header's. `scheme`: of the
 * Contact (8.1.1.8).
 */
export function asAddress(
  header: Header,
  identity: LocalIdentity,
  transport: TransportName,
  scheme: 'sip' | 'sips' = 'sip',
): Header {
  if (!ADDRESS_HEADERS.has(header.name)) return header;
  let { value } = header;
  if (!value.includes('<') && value !== '*') value = splitList(value).map(bracketed).join(', ');
  if (!value.toLowerCase().includes('@localhost')) return { ...header, value };
  const isContact = header.name === 'contact';
  const needsTransport = isContact && !/;transport=/i.test(value);
  const ours = `@${hostport(identity)}${needsTransport ? transportParameter(transport) : ''}`;
  if (isContact && scheme === 'sips') value = value.replace(/<sip:(?=[^>]*@localhost)/gi, '<sips:');
  return { ...header, value: value.replace(AT_LOCALHOST, ours) };
}

function bracketed(address: string): string {
  const semicolon = address.indexOf(';');
  return semicolon < 0 ? `<${address}>` : `<${address.slice(0, semicolon)}>${address.slice(semicolon)}`;
}

/** The Content-Type to add: SDP for a body without one that looks like SDP, nothing when none is needed, null when the type is unknown. */
export function contentType(headers: readonly Header[], body: Buffer): Header[] | null {
  if (body.length === 0 || headers.some((header) => header.name === 'content-type')) return [];
  return body.toString('latin1', 0, 3) === 'v=0' ? [{ name: 'content-type', value: 'application/sdp' }] : null;
}

/** A copy in its own memory: a slice of what was read from a socket would keep the whole chunk alive. */
export function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

export function isSdp(body: Buffer): boolean {
  return body.length > 0 && body.toString('latin1', 0, 3) === 'v=0';
}
