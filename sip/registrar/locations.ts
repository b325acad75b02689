/**
 * Where registered phones are (the location service of RFC 3261 10): the contacts that registered with this node, and, with a directory that
 * nodes share, those of all.
 */
import { isIP } from 'node:net';
import type { Stack } from '../drachtio/types.js';
import { parseUri } from '../inbound/identity.js';
import type { Peer } from '../leg.js';
import { rateLimited, type SipLog } from '../log.js';
import { type Binding, type Bindings, contactKey, inOrder } from './bindings.js';

export { contactKey };

/** Who can send requests to a phone. */
export type Reach =
  /** Any node, at the address that the phone registered from. */
  | { kind: 'direct' }
  /** The node that it registered with: the others send through that node, which wants their tokens made with the secret. */
  | { kind: 'flow'; secret: string }
  /** Any node that is connected to this external SIP server (host and port of its control port). */
  | { kind: 'server'; server: string };

/** A contact as the nodes share it. */
export interface SharedBinding
  extends Pick<Binding, 'contact' | 'domain' | 'peer' | 'callId' | 'cseq' | 'priority' | 'path'> {
  /** Until it expires. */
  leftMs: number;
  /** The node that it registered with. */
  node: string;
  reach: Reach;
}

/** The contacts of all nodes, by user. Its promises reject while it cannot be used; then each node goes by its own. */
export interface LocationDirectory {
  /** The name of this node in it, never used before. */
  readonly node: string;
  /** The unexpired contacts of a user. */
  find(username: string): Promise<SharedBinding[]>;
  change(username: string, change: { set: readonly SharedBinding[]; removed: readonly string[] }): Promise<void>;
  /** Adds contacts that it has lost; what expires later than they do stays. */
  restore(username: string, bindings: readonly SharedBinding[]): Promise<void>;
  /** Where a node takes SIP; null: the node is gone, and its connections with it. */
  addressesOf(node: string): readonly SipAddress[] | null;
  /** Called when it can be used again. */
  onRestored(listener: () => void): void;
}

export interface SipAddress {
  transport: string;
  host: string;
  port: number;
}

export interface LocationOptions {
  /** Absent: this node knows its own phones only. */
  directory?: LocationDirectory;
  /** Networks in which an address is the phone's own, and not that of a router that lets only us in. */
  isLocal(address: string): boolean;
  /** The secret of a flow of the embedded server; null: an external server is in use. */
  secretOf(peer: Peer): string | null;
  /** Names an external server, and finds it by that name. */
  nameOf(server: Stack | undefined): string;
  serverOf(name: string): Stack | undefined;
  log: SipLog;
}

/** What a REGISTER changes. */
export interface LocationChange {
  set: readonly Binding[];
  removed: readonly Binding[];
}

export class Locations {
  readonly #warnCutOff: SipLog['warn'];
  /** While it is above 0 the directory may not have our contacts again yet. */
  #restoring = 0;

  constructor(
    private readonly own: Bindings,
    private readonly options: LocationOptions,
  ) {
    this.#warnCutOff = rateLimited((fields, text) => options.log.warn(fields, text), 5000);
    options.directory?.onRestored(() => void this.#restore());
  }

  /** The unexpired bindings of a user that can be called from here, the preferred and newest first. Never rejects. */
  async of(username: string): Promise<readonly Binding[]> {
    const { directory } = this.options;
    const asked = this.own.of(username);
    const found = await directory?.find(username).catch(() => null);
    const own = this.own.of(username);
    if (!directory || !found) return own;
    const here = new Set<string>();
    const elsewhere = new Map<string, SharedBinding>();
    for (const shared of found) {
      const key = contactKey(shared.contact);
      if (shared.node === directory.node) here.add(key);
      else elsewhere.set(key, shared);
    }
    /** It registered here after the directory was asked. */
    const isNewer = (binding: Binding) => !asked.includes(binding);
    const kept = own.filter((binding) => isNewer(binding) || !elsewhere.has(contactKey(binding.contact)));
    if (kept.length < own.length) this.own.replace(username, kept); // the others have moved to another node
    for (const { contact } of kept) elsewhere.delete(contactKey(contact));
    const isUsable = (binding: Binding) => isNewer(binding) || here.has(contactKey(binding.contact));
    return inOrder([
      ...(this.#restoring > 0 ? kept : kept.filter(isUsable)),
      ...[...elsewhere.values()].flatMap((shared) => this.#elsewhere(username, shared) ?? []),
    ]);
  }

  /** False, and nothing changed, when this node has too many. */
  async change(username: string, { set, removed }: LocationChange): Promise<boolean> {
    const changed = new Set([...set, ...removed].map(({ contact }) => contactKey(contact)));
    const kept = this.own.of(username).filter(({ contact }) => !changed.has(contactKey(contact)));
    if (!this.own.replace(username, [...kept, ...set])) return false;
    const { directory } = this.options;
    if (!directory || set.length + removed.length === 0) return true;
    const change = {
      set: set.map((binding) => this.#shared(directory, binding)),
      removed: removed.map(({ contact }) => contact),
    };
    await directory.change(username, change).catch(() => undefined); // it gets them when it can be used again
    return true;
  }

  async #restore(): Promise<void> {
    const { directory, log } = this.options;
    if (!directory) return;
    this.#restoring += 1;
    try {
      for (const username of this.own.users) {
        const shared = this.own.of(username).map((binding) => this.#shared(directory, binding));
        if (shared.length > 0) await directory.restore(username, shared);
      }
    } catch (error) {
      log.warn({ err: error instanceof Error ? error.message : String(error) }, 'registrations were not shared again');
    } finally {
      this.#restoring -= 1;
    }
  }

  #shared({ node }: LocationDirectory, binding: Binding): SharedBinding {
    const { contact, domain, peer, callId, cseq, priority, path, expiresAtMs } = binding;
    const leftMs = Math.max(1, Math.round(expiresAtMs - performance.now()));
    const found = { contact, domain, peer, callId, cseq, priority, ...(path === undefined ? {} : { path }) };
    return { ...found, leftMs, node, reach: this.#reachOf(binding) };
  }

  /** An address of a local network that the phone gives itself can be reached by all; any other may be a hole in a NAT, for one sender. */
  #reachOf({ contact, peer, server, path }: Binding): Reach {
    const uri = parseUri(contact);
    const isItsOwn = uri?.host === peer.address && (uri.port ?? 5060) === peer.port && uri.params.ob === undefined;
    const isKnown = isItsOwn || path !== undefined; // a proxy takes calls from anyone whom it knows
    if (peer.transport === 'udp' && isKnown && this.options.isLocal(peer.address)) return { kind: 'direct' };
    const secret = this.options.secretOf(peer);
    return secret === null ? { kind: 'server', server: this.options.nameOf(server) } : { kind: 'flow', secret };
  }

  /** A binding of another node; null when it cannot be used from here. */
  #elsewhere(username: string, { leftMs, node, reach, ...shared }: SharedBinding): Binding | null {
    const binding: Binding = { ...shared, node, expiresAtMs: performance.now() + leftMs };
    if (reach.kind === 'direct') return binding;
    if (reach.kind === 'server') {
      const server = this.options.serverOf(reach.server);
      if (server) return { ...binding, server };
      this.#warnCutOff(
        { user: username, server: reach.server },
        'a phone is at a SIP server that this node does not use',
      );
      return null;
    }
    const wanted = binding.peer.transport === 'udp' ? 'udp' : 'tcp';
    const at = this.options.directory
      ?.addressesOf(node)
      ?.find(({ transport, host }) => transport === wanted && isIP(host));
    if (at)
      return { ...binding, through: { transport: wanted, address: at.host, port: at.port, secret: reach.secret } };
    this.#warnCutOff({ user: username, node }, 'a phone cannot be reached: the node that it registered with is gone');
    return null;
  }
}
