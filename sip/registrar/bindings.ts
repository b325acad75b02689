/** The contacts of registered users. One timer, set to the next expiry, serves all of them. */

import type { Stack } from '../drachtio/types.js';
import { parseUri } from '../inbound/identity.js';
import type { Peer } from '../leg.js';

export interface Binding {
  /** The contact URI, which becomes the request-URI of calls to the user. */
  contact: string;
  /** The host of its address of record: our domain as the phone knows it. */
  domain: string;
  /** The source of the REGISTER: behind NAT the only way back. */
  peer: Peer;
  /** The SIP server that took the REGISTER: of several, the one with an open path to the phone. */
  server?: Stack;
  callId: string;
  cseq: number;
  /** The `q` value, 0 to 1. */
  priority: number;
  /** On the clock of `performance.now()`. */
  expiresAtMs: number;
  /** The proxies between us and the phone, the nearest first: the values of Path (RFC 3327). */
  path?: readonly string[];
  /** The node that it registered with; absent: this one. */
  node?: string;
  /** That node must pass requests on, since only its socket or connection reaches the phone. */
  through?: NodeFlow;
}

/** A flow of another node (`sip/server/flows/`). */
export interface NodeFlow {
  /** The node's own SIP address. */
  transport: 'udp' | 'tcp';
  address: string;
  port: number;
  secret: string;
}

export class Bindings {
  readonly #byUser = new Map<string, Binding[]>();
  readonly #userBySource = new Map<string, string>();
  #count = 0;
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;

  /** @param maxBindings limit for all users together. */
  constructor(private readonly maxBindings = 10_000) {}

  /** The unexpired bindings of a user, the preferred and newest first. */
  of(username: string): Binding[] {
    const now = performance.now();
    return (this.#byUser.get(username) ?? []).filter((binding) => binding.expiresAtMs > now);
  }

  /** The user registered from exactly this transport, address and port. */
  userAt(source: Peer): string | undefined {
    const username = this.#userBySource.get(sourceKey(source));
    const lives =
      username !== undefined && this.of(username).some((binding) => sourceKey(binding.peer) === sourceKey(source));
    return lives ? username : undefined;
  }

  /** Replaces all bindings of a user; false (and no change) when the table is full. */
  replace(username: string, bindings: readonly Binding[]): boolean {
    const before = this.#byUser.get(username) ?? [];
    const count = this.#count - before.length + bindings.length;
    if (count > this.maxBindings && bindings.length > before.length) return false;
    for (const binding of before) {
      if (this.#userBySource.get(sourceKey(binding.peer)) === username) {
        this.#userBySource.delete(sourceKey(binding.peer));
      }
    }
    this.#count = count;
    if (bindings.length === 0) this.#byUser.delete(username);
    else {
      this.#byUser.set(username, inOrder(bindings));
      for (const binding of bindings) {
        this.#userBySource.set(sourceKey(binding.peer), username);
        this.#schedule(binding.expiresAtMs);
      }
    }
    return true;
  }

  get count(): number {
    return this.#count;
  }

  get users(): string[] {
    return [...this.#byUser.keys()];
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerAtMs = Number.POSITIVE_INFINITY;
    this.#byUser.clear();
    this.#userBySource.clear();
    this.#count = 0;
  }

  /** Arms the timer for this expiry unless it already fires sooner. */
  #schedule(expiresAtMs: number): void {
    if (expiresAtMs >= this.#timerAtMs) return;
    clearTimeout(this.#timer);
    this.#timerAtMs = expiresAtMs;
    // Up to a second late, so that expiries close together share one pass.
    this.#timer = setTimeout(() => this.#expire(), Math.max(0, expiresAtMs - performance.now()) + 1000);
    this.#timer.unref();
  }

  #expire(): void {
    const now = performance.now();
    this.#timerAtMs = Number.POSITIVE_INFINITY;
    for (const [username, bindings] of [...this.#byUser]) {
      const living = bindings.filter((binding) => binding.expiresAtMs > now);
      if (living.length !== bindings.length) this.replace(username, living);
      else for (const binding of living) this.#schedule(binding.expiresAtMs);
    }
  }
}

/** The preferred and newest first. */
export function inOrder(bindings: readonly Binding[]): Binding[] {
  return [...bindings].sort((a, b) => b.priority - a.priority || b.expiresAtMs - a.expiresAtMs);
}

/** Two contacts are equal when user, host, port and transport are (a short form of the comparison in RFC 3261 19.1.4). */
export function contactKey(contact: string): string {
  const uri = parseUri(contact);
  if (!uri) return contact;
  return `${uri.scheme}:${uri.user}@${uri.host}:${uri.port ?? ''};${uri.params.transport?.toLowerCase() ?? ''}`;
}

function sourceKey(peer: Peer): string {
  return `${peer.transport}|${peer.address}|${peer.port}`;
}
