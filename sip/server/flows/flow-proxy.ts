/**
 * Passes the calls of other nodes on to phones that registered here, and those phones' requests back: a stateless proxy (RFC 3261 16.11) that
 * stays in the path (RFC 5626 5.3). Both hops are of one kind, datagrams or connections, so that retransmissions of the ends suffice.
 */
import { type Core, hostport } from '../assembly.js';
import { parseNameAddr, parseVia } from '../message/fields.js';
import type { Header, SipRequest, SipResponse } from '../message/message.js';
import { parseUri } from '../message/uri.js';
import { reasonPhrase, viaForResponse, writeMessage, writeResponse } from '../message/write.js';
import { MAGIC_COOKIE, replyPath } from '../transactions/transaction-table.js';
import type { LocalIdentity } from '../transport/network.js';
import type { Path, Source, TransportEndpoint } from '../transport/path.js';
import {
  dialogToken,
  looksLikeToken,
  mac,
  returnAddressOf,
  returnToken,
  type TokenTarget,
  targetOf,
} from './flow-token.js';

/** Written by this file, or copied in another place. */
const rewritten: ReadonlySet<string> = new Set(['via', 'route', 'max-forwards', 'content-length']);
const empty = Buffer.alloc(0);

export class FlowProxy {
  /** Requests passed on, in either direction. */
  forwarded = 0;

  constructor(
    private readonly core: Pick<Core, 'network' | 'sources'>,
    private readonly nodeKey: string,
    private readonly failed: (error: unknown) => void,
  ) {}

  /** Passes the request on, or refuses it, when its Route has a token; false: it is for this node itself. */
  request(request: SipRequest, source: Source, identity: LocalIdentity): boolean {
    const routes = request.list('route');
    const token = tokenIn(routes[0]);
    if (token === null || request.problem !== null || request.topVia?.version !== '2.0' || !request.cseq) return false;
    const call = { id: request.callId, opens: request.method === 'INVITE' && request.toTag === '' };
    const target = targetOf(this.nodeKey, token, call);
    if (!target) {
      this.refuse(request, source, 403, 'Not a route of this server');
      return true;
    }
    const hops = Number(request.get('max-forwards') ?? 70);
    if (!(hops > 0)) {
      this.refuse(request, source, 483, reasonPhrase(483));
      return true;
    }
    const path = this.core.network.pathTo(target.endpoint);
    if (!path || (target.kind === 'flow' && path.reliable && !path.alive)) {
      this.refuse(request, source, 430, 'Flow Failed');
      return true;
    }
    const second = tokenIn(routes[1]);
    // both of our Record-Route values are in the route set of either end
    const isOurs = second !== null && targetOf(this.nodeKey, second, { ...call, opens: false }) !== null;
    const left = routes.slice(isOurs ? 2 : 1);
    const send = (facing: LocalIdentity): void => {
      const hop = { source, identity, target, path, facing };
      const bytes = writeMessage(
        request.startLine,
        [
          ...this.vias(request, hop),
          { name: 'max-forwards', value: String(hops - 1) },
          ...left.map((value) => ({ name: 'route', value })),
          ...(call.opens ? this.recordRoutes(request, hop) : []),
          ...request.headers.filter(({ name }) => !rewritten.has(name)),
        ],
        request.body,
      );
      this.forwarded++;
      path.send(bytes, () => this.refuse(request, source, target.kind === 'flow' ? 430 : 503, 'Next hop unreachable'));
    };
    const facing = this.core.network.knownIdentity(path);
    if (facing) send(facing);
    else this.core.network.identity(path).then(send).catch(this.failed);
    return true;
  }

  /** Passes a response on to the sender of its request; false: it is not to a request that was passed on here. */
  response(response: SipResponse): boolean {
    const vias = response.list('via');
    const top = response.topVia;
    const token = top?.parameters.get('back');
    if (vias.length < 2 || !top || token === undefined || response.problem !== null) return false;
    const back = returnAddressOf(this.nodeKey, token, top.branch);
    const path = back && this.pathBack(back, vias[1] ?? '');
    if (!path) return false;
    const rest = vias.slice(1).map((value) => ({ name: 'via', value }));
    const others = response.headers.filter(({ name }) => name !== 'via' && name !== 'content-length');
    path.send(writeMessage(response.startLine, [...rest, ...others], response.body));
    return true;
  }

  /** Ours, and that of the sender with the address that it came from. The branch is the same for what repeats or cancels a request. */
  private vias(request: SipRequest, { source, path, facing }: Hop): Header[] {
    const { branch = '', host = '', port = null } = request.topVia ?? {};
    const seed = branch.startsWith(MAGIC_COOKIE) ? '' : `${request.callId} ${request.fromTag}`;
    const own = `${MAGIC_COOKIE}${mac(this.nodeKey, branch, `${host}:${port}`, String(request.cseq?.number), seed)}`;
    const { transport, address, port: sourcePort } = source;
    const back = returnToken(this.nodeKey, { transport, address, port: sourcePort }, own);
    const value = `SIP/2.0/${path.transport.toUpperCase()} ${hostport(facing)};branch=${own};rport;back=${back}`;
    return [value, ...viaForResponse(request, source)].map((each) => ({ name: 'via', value: each }));
  }

  /** One value for each side (RFC 5658): each end finds us by its own transport and address. */
  private recordRoutes(request: SipRequest, { source, identity, target, path, facing }: Hop): Header[] {
    const { transport, address } = source;
    const sender: TokenTarget = {
      kind: 'node',
      endpoint: { transport, address, port: request.topVia?.port ?? 5060 },
    };
    const value = (leadsTo: TokenTarget, at: LocalIdentity, by: string) =>
      `<sip:${dialogToken(this.nodeKey, leadsTo, request.callId)}@${hostport(at)};transport=${by};lr>`;
    return [value(sender, facing, path.transport), value(target, identity, transport)].map((each) => ({
      name: 'record-route',
      value: each,
    }));
  }

  /** The connection of the request, or (18.2.2) a new one to the port in its Via; null when there is neither. */
  private pathBack(back: TransportEndpoint, via: string): Path | null {
    const path = this.core.network.pathTo(back);
    if (!path?.reliable || path.alive) return path;
    return back.transport === 'tcp' ? this.core.network.pathTo({ ...back, port: parseVia(via)?.port ?? 5060 }) : null;
  }

  private refuse(request: SipRequest, source: Source, status: number, reason: string): void {
    if (request.method === 'ACK') return;
    const toTag = mac(this.nodeKey, 'tag', request.callId, request.topVia?.branch ?? '');
    const answer = { status, reason, source, toTag, extra: [], body: empty, isForgotten: true };
    replyPath(request, source).send(writeResponse(request, answer));
    this.core.sources.refused(source.address, status);
  }
}

interface Hop {
  source: Source;
  /** Our address towards the sender. */
  identity: LocalIdentity;
  target: TokenTarget;
  path: Path;
  /** Our address towards the receiver. */
  facing: LocalIdentity;
}

/** The user part of a Route value, when it may be a token of a node. */
function tokenIn(route: string | undefined): string | null {
  const user = route === undefined ? undefined : parseUri(parseNameAddr(route)?.uri ?? '')?.user;
  return user !== undefined && looksLikeToken(user) ? user : null;
}
