/** Completes a request and finds its path: next hop, transport by size, Via, and missing headers. */
import { randomUUID } from 'node:crypto';
import { asAddress, type Core, contactUri, hostport } from '../assembly.js';
import type { Header, SipRequest } from '../message/message.js';
import { schemeOf } from '../message/uri.js';
import { writeMessage } from '../message/write.js';
import { MAGIC_COOKIE } from '../transactions/transaction-table.js';
import type { LocalIdentity } from '../transport/network.js';
import type { Path, TlsPeer, TransportName } from '../transport/path.js';
import { addressOf, hopOf, LocateError, tlsPeerOf } from './locate.js';

/** RFC 3261 18.1.1: a larger request may exceed the datagram size of some network on the path. */
const MAX_DATAGRAM_REQUEST_BYTES = 1300;
/** How long no TCP connection is tried to a peer that refused one. */
const NO_TCP_MS = 600_000;
const MAX_NO_TCP = 1000;

export interface Draft {
  method: string;
  uri: string;
  routes: readonly string[];
  /** URI of the next hop. */
  next: string;
  /** Set when the path is already known: a connection, or an address behind NAT. */
  path: Path | null;
  /** The transport when the next hop's URI names none; null: UDP if available. */
  transport: TransportName | null;
  /** The identity to verify over TLS; null: only a connection that the far end opened is used. */
  peer: TlsPeer | null;
  /** Headers in order, without Via, Max-Forwards, Route and Content-Length; made once our address is known. */
  headers(identity: LocalIdentity, path: Path): Header[];
  maxForwards: string;
  body: Buffer;
}

/** A request ready to be sent. */
export interface OutgoingRequest {
  bytes: Buffer;
  path: Path;
  identity: LocalIdentity;
  branch: string;
  via: string;
  uri: string;
  routes: readonly string[];
  headers: Header[];
}

export class Outbox {
  private readonly noTcp = new Map<string, number>();
  private readonly lookingUp = new Map<string, Promise<string>>();

  constructor(private readonly core: Core) {}

  /**
   * Calls back once, with the request or with the reason why it cannot be sent. Synchronous when no look-up is needed, so that the
   * application's requests keep their order.
   */
  prepare(draft: Draft, ready: (outgoing: OutgoingRequest) => void, refused: (reason: string) => void): void {
    try {
      const path = draft.path ?? this.directPath(draft);
      const identity = path && this.core.network.knownIdentity(path);
      if (path && identity) {
        const outgoing = this.write(draft, path, identity);
        if (!this.wantsTcp(outgoing, draft)) {
          ready(outgoing);
          return;
        }
      }
    } catch (error) {
      refused(reasonOf(error));
      return;
    }
    this.prepareLater(draft).then(ready, (error) => refused(reasonOf(error)));
  }

  /** Restores a request that a server before this one sent, and its path. Rejects when there is no path. */
  async sentBefore(invite: SipRequest, next: string): Promise<OutgoingRequest> {
    const hop = hopOf(next);
    const transport = this.transportFor(hop.transport);
    const path = this.pathFor(await this.addressOf(hop.host), hop.port, transport, tlsPeerOf(next));
    return {
      bytes: Buffer.alloc(0), // it is not sent again
      path,
      identity: await this.core.network.identity(path),
      branch: invite.topVia?.branch ?? '',
      via: invite.get('via') ?? '',
      uri: invite.uri,
      routes: invite.list('route'),
      headers: [...invite.headers],
    };
  }

  private async prepareLater(draft: Draft): Promise<OutgoingRequest> {
    const path = draft.path ?? (await this.lookedUpPath(draft));
    const outgoing = this.write(draft, path, await this.core.network.identity(path));
    if (!this.wantsTcp(outgoing, draft)) return outgoing;
    const { address, port } = path;
    try {
      await this.core.network.connect(address, port);
      const tcp = this.core.network.pathTo({ transport: 'tcp', address, port });
      if (tcp) return this.write(draft, tcp, await this.core.network.identity(tcp));
    } catch {
      this.rememberNoTcp(`${address} ${port}`);
    }
    // 18.1.1: no TCP there; a datagram that may be fragmented is better than none
    return outgoing;
  }

  /** The path without a look-up; null when a name must be resolved. */
  private directPath(draft: Draft): Path | null {
    const hop = hopOf(draft.next);
    if (!/^[\d.]+$|:/.test(hop.host)) return null;
    return this.pathFor(hop.host, hop.port, this.transportFor(hop.transport ?? draft.transport), draft.peer);
  }

  private async lookedUpPath(draft: Draft): Promise<Path> {
    const hop = hopOf(draft.next);
    const transport = this.transportFor(hop.transport ?? draft.transport);
    return this.pathFor(await this.addressOf(hop.host), hop.port, transport, draft.peer);
  }

  /** Requests to the same name share one look-up, and so keep their order. */
  private addressOf(host: string): Promise<string> {
    let asking = this.lookingUp.get(host);
    if (!asking) {
      asking = addressOf(host, this.core.closing).finally(() => this.lookingUp.delete(host));
      this.lookingUp.set(host, asking);
    }
    return asking;
  }

  private transportFor(named: TransportName | null): TransportName {
    return named ?? (this.core.network.has('udp') ? 'udp' : 'tcp');
  }

  private pathFor(address: string, port: number, transport: TransportName, peer: TlsPeer | null): Path {
    const path = this.core.network.pathTo({ transport, address, port }, transport === 'tls' ? peer : null);
    if (!path) throw new LocateError('requested protocol/transport not available');
    return path;
  }

  private wantsTcp({ path, bytes }: OutgoingRequest, draft: Draft): boolean {
    if (path.transport !== 'udp' || bytes.length <= MAX_DATAGRAM_REQUEST_BYTES || !this.core.network.has('tcp'))
      return false;
    if (draft.path || /;transport=udp/i.test(draft.next)) return false;
    const until = this.noTcp.get(`${path.address} ${path.port}`);
    return until === undefined || until < this.core.clock.now();
  }

  private rememberNoTcp(peer: string): void {
    if (this.noTcp.size >= MAX_NO_TCP) this.noTcp.clear();
    this.noTcp.set(peer, this.core.clock.now() + NO_TCP_MS);
  }

  private write(draft: Draft, path: Path, identity: LocalIdentity): OutgoingRequest {
    const branch = `${MAGIC_COOKIE}${randomUUID().replaceAll('-', '')}`;
    // RFC 5923 section 5: a proxy may send requests for that address back over this connection
    const alias = path.transport === 'tls' ? ';alias' : '';
    const via = `SIP/2.0/${path.transport.toUpperCase()} ${hostport(identity)};branch=${branch};rport${alias}`;
    const scheme = schemeOf(draft.uri) === 'sips' ? 'sips' : 'sip';
    const headers = draft.headers(identity, path).map((header) => asAddress(header, identity, path.transport, scheme));
    const { product } = this.core;
    if (product && !headers.some((header) => header.name === 'user-agent'))
      headers.push({ name: 'user-agent', value: product });
    const bytes = writeMessage(
      `${draft.method} ${draft.uri} SIP/2.0`,
      [
        { name: 'via', value: via },
        { name: 'max-forwards', value: draft.maxForwards },
        ...draft.routes.map((value) => ({ name: 'route', value })),
        ...headers,
      ],
      draft.body,
    );
    return { bytes, path, identity, branch, via, uri: draft.uri, routes: draft.routes, headers };
  }
}

function reasonOf(error: unknown): string {
  return error instanceof LocateError ? error.message : `request not sent: ${(error as Error).message}`;
}

/** The Contact for a dialog-forming request or response when the application sets none. */
export function ourContact(identity: LocalIdentity, path: Path, scheme: 'sip' | 'sips' = 'sip'): Header {
  return { name: 'contact', value: `<${contactUri(identity, path.transport, scheme)}>` };
}
