/**
 * Tokens for the flows of a node (RFC 5626 section 5.2): the address, connection or NAT binding from which a phone registered, and over which
 * alone it can be reached. A token is the user part of a Route URI, is worth something for one Call-ID only, and says by itself where the request
 * goes: a node keeps no state for the calls that it passes on.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { TransportEndpoint, TransportName } from '../transport/path.js';

/** Where a token leads. `flow`: only over what the phone opened; `node`: to a node, which can be connected to. */
export interface TokenTarget {
  kind: 'flow' | 'node';
  endpoint: TransportEndpoint;
}

const transports: ReadonlySet<string> = new Set<TransportName>(['udp', 'tcp', 'tls']);
const macBytes = 16;
/** An entry token opens a call this long after it was made, by clocks that may differ. */
const entrySec = 120;

/** What another node must know to send calls over this flow: it derives from the key of the node that has the flow, which nobody else knows. */
export function flowSecret(nodeKey: string, flow: TransportEndpoint): string {
  return mac(nodeKey, 'flow', written(flow));
}

/** The token with which a node that knows the flow's secret sends one call over it. */
export function entryToken(secret: string, flow: TransportEndpoint, callId: string, nowMs = Date.now()): string {
  const sec = Math.floor(nowMs / 1000).toString(36);
  return `call.${encoded(flow)}.${sec}.${mac(secret, 'call', sec, callId)}`;
}

/** The token that keeps a node in the path of a call which it passes on. */
export function dialogToken(nodeKey: string, { kind, endpoint }: TokenTarget, callId: string): string {
  return `${kind}.${encoded(endpoint)}.${mac(nodeKey, kind, written(endpoint), callId)}`;
}

/** The address of a request's sender, for the Via of the node that passes it on: responses go there. */
export function returnToken(nodeKey: string, endpoint: TransportEndpoint, branch: string): string {
  return `${encoded(endpoint)}.${mac(nodeKey, 'via', written(endpoint), branch)}`;
}

/**
 * Where a request with this token goes; null when it is not one of ours, or of another call. `opens`: the request begins a call, for which
 * an entry token must be fresh.
 */
export function targetOf(nodeKey: string, token: string, call: { id: string; opens: boolean }): TokenTarget | null {
  const parts = token.split('.');
  const [kind = '', where = '', third = '', fourth = ''] = parts;
  const endpoint = decoded(where);
  if (!endpoint) return null;
  if (kind === 'call' && parts.length === 4) {
    const isOurs = isEqual(fourth, mac(flowSecret(nodeKey, endpoint), 'call', third, call.id));
    const ageSec = Date.now() / 1000 - Number.parseInt(third, 36);
    return isOurs && (!call.opens || Math.abs(ageSec) <= entrySec) ? { kind: 'flow', endpoint } : null;
  }
  if ((kind !== 'flow' && kind !== 'node') || parts.length !== 3) return null;
  return isEqual(third, mac(nodeKey, kind, written(endpoint), call.id)) ? { kind, endpoint } : null;
}

/** True for a user part that may be a token. */
export function looksLikeToken(user: string): boolean {
  return /^(?:call|flow|node)\.[\w-]+\./.test(user);
}

/** The address in a `returnToken`; null when it is not one of ours. */
export function returnAddressOf(nodeKey: string, token: string, branch: string): TransportEndpoint | null {
  const [where = '', proof = ''] = token.split('.');
  const endpoint = decoded(where);
  return endpoint && isEqual(proof, mac(nodeKey, 'via', written(endpoint), branch)) ? endpoint : null;
}

/** Short keyed digest of some texts; URI-safe. */
export function mac(key: string, ...texts: string[]): string {
  const hmac = createHmac('sha256', key);
  for (const text of texts) hmac.update(`${text.length}:${text}`);
  return hmac.digest().subarray(0, macBytes).toString('base64url');
}

function isEqual(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}

function written({ transport, address, port }: TransportEndpoint): string {
  return `${transport} ${address} ${port}`;
}

function encoded(endpoint: TransportEndpoint): string {
  return Buffer.from(written(endpoint)).toString('base64url');
}

function decoded(text: string): TransportEndpoint | null {
  const [transport = '', address = '', port = ''] = Buffer.from(text, 'base64url').toString().split(' ');
  return transports.has(transport) && address !== '' && /^\d{1,5}$/.test(port)
    ? { transport: transport as TransportName, address, port: Number(port) }
    : null;
}
