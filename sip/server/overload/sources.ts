/**
 * Rate limits by source address. Known peers (networks of trunks, and addresses that we called or accepted a call or registration from)
 * have budgets of their own. All strangers share one, so that a scan from a thousand addresses costs no more than a scan from one.
 * Everything here happens before a message is parsed.
 */
import { PrefixTable } from './prefix-table.js';

export interface SourceLimits {
  /** Messages per second from one stranger's address; the burst is twice that. */
  strangerPerSec: number;
  /** Messages per second from all strangers together; the burst is the same. */
  strangersPerSec: number;
  /** Messages per second from an address that we called or accepted but that no trunk lists; the burst is twice that. */
  acquaintancePerSec: number;
  /** Refusals allowed per address; one is forgiven every `forgiveMs`. */
  offences: number;
  forgiveMs: number;
  /** How long messages of an offender are dropped; they do not prolong the time. */
  silenceMs: number;
}

export const DEFAULT_SOURCE_LIMITS: SourceLimits = {
  strangerPerSec: 50,
  strangersPerSec: 500,
  acquaintancePerSec: 2000,
  offences: 20,
  forgiveMs: 5000,
  silenceMs: 600_000,
};
/** This machine counts as trusted. */
export const LOOPBACK_NETS = ['127.0.0.0/8', '::1/128'];

/** Source addresses of UDP can be forged: no table grows beyond twice these sizes. */
const MAX_STRANGERS = 10_000;
const MAX_ACQUAINTANCES = 25_000;
const MAX_TRUSTED_SEEN = 10_000;
/** Statuses that count as offences: a legitimate peer does not get them. A wrong number or a busy line is no offence. */
const OFFENSIVE: ReadonlySet<number> = new Set([400, 401, 403, 405, 407, 416, 481, 489, 501, 505]);

/** A token bucket; each message takes one token. */
class Bucket {
  private filledMs: number;

  constructor(
    now: number,
    private tokens: number,
  ) {
    this.filledMs = now;
  }

  /** Adds the tokens of the time passed. Returns false when the bucket is empty. */
  fill(now: number, perSec: number, most: number): boolean {
    this.tokens = Math.min(most, this.tokens + ((now - this.filledMs) * perSec) / 1000);
    this.filledMs = now;
    return this.tokens >= 1;
  }

  take(): void {
    this.tokens--;
  }
}

interface Stranger {
  bucket: Bucket;
  offences: number;
  offendedMs: number;
  silentUntilMs: number;
}

export class Sources {
  private readonly strangers = new ProviderState<Stranger>(MAX_STRANGERS);
  private readonly acquaintances = new ProviderState<Bucket>(MAX_ACQUAINTANCES);
  /** Trusted addresses that were looked up already: the look-up in the networks is too expensive for every packet. */
  private readonly trustedSeen = new ProviderState<true>(MAX_TRUSTED_SEEN);
  private trusted = new PrefixTable<true>();
  private readonly limits: SourceLimits;
  private readonly allStrangers: Bucket;
  /** Messages dropped unread because the address is silenced. */
  silenced = 0;
  /** Messages dropped unread because the address sends too fast. */
  limited = 0;
  /** Messages dropped unread because all strangers together send too fast. */
  crowded = 0;
  /** How often an address was silenced. */
  offenders = 0;

  constructor(
    private readonly now: () => number,
    limits: Partial<SourceLimits> = {},
    trustedNets: readonly string[] = LOOPBACK_NETS,
  ) {
    this.limits = { ...DEFAULT_SOURCE_LIMITS, ...limits };
    this.allStrangers = new Bucket(now(), this.limits.strangersPerSec);
    this.trust(trustedNets);
  }

  /**
   * Sets the trusted networks (those of trunks), whose messages are not counted. A network that cannot be parsed is left out; the trunk
   * table reports it.
   */
  trust(nets: readonly string[]): void {
    this.trusted = new PrefixTable();
    this.trustedSeen.forget(() => true);
    for (const net of nets) this.trusted.add(net, true);
    // an address silenced as a stranger is accepted again as soon as a trunk lists it
    this.strangers.forget((_, address) => this.inTrusted(address));
  }

  /** True when a message from this address may be read, request or response. The receivers of our own requests are acquaintances. */
  mayBeRead(address: string): boolean {
    if (this.trustedSeen.get(address)) return true;
    const now = this.now();
    const { acquaintancePerSec, strangerPerSec, strangersPerSec } = this.limits;
    const acquaintance = this.acquaintances.get(address);
    if (acquaintance) return this.passes(acquaintance, now, acquaintancePerSec);
    const stranger = this.strangers.get(address);
    if (stranger && stranger.silentUntilMs > now) {
      this.silenced++;
      return false;
    }
    if (!stranger && this.isTrusted(address)) return true;
    // over the common budget a new address gets no table entry: forged sources would fill the table
    if (!this.allStrangers.fill(now, strangersPerSec, strangersPerSec)) {
      this.crowded++;
      return false;
    }
    const { bucket } = stranger ?? this.meet(address, now);
    if (!this.passes(bucket, now, strangerPerSec)) return false;
    this.allStrangers.take();
    return true;
  }

  /** True when the address is not a stranger's. */
  knows(address: string): boolean {
    return (
      this.trustedSeen.get(address) === true ||
      this.acquaintances.get(address) !== undefined ||
      (this.strangers.get(address) === undefined && this.isTrusted(address))
    );
  }

  /** The address's request got this final response. */
  refused(address: string, status: number): void {
    const stranger = OFFENSIVE.has(status) ? this.strangers.get(address) : undefined;
    if (!stranger) return;
    const { offences, forgiveMs, silenceMs } = this.limits;
    const now = this.now();
    if (stranger.silentUntilMs > now) return; // responses to requests sent before the silence
    stranger.offences = Math.max(0, stranger.offences - (now - stranger.offendedMs) / forgiveMs) + 1;
    stranger.offendedMs = now;
    if (stranger.offences <= offences) return;
    stranger.offences = 0;
    stranger.silentUntilMs = now + silenceMs;
    this.offenders++;
  }

  /** A call or registration from this address was accepted, or we send it a request. */
  acquainted(address: string): void {
    if (this.acquaintances.get(address) || this.trustedSeen.get(address)) return;
    this.strangers.delete(address);
    this.acquaintances.set(address, new Bucket(this.now(), 2 * this.limits.acquaintancePerSec));
  }

  private passes(bucket: Bucket, now: number, perSec: number): boolean {
    if (!bucket.fill(now, perSec, 2 * perSec)) {
      this.limited++;
      return false;
    }
    bucket.take();
    return true;
  }

  private isTrusted(address: string): boolean {
    if (!this.inTrusted(address)) return false;
    this.trustedSeen.set(address, true);
    return true;
  }

  private inTrusted(address: string): boolean {
    return this.trusted.longest(address).length > 0;
  }

  private meet(address: string, now: number): Stranger {
    const bucket = new Bucket(now, 2 * this.limits.strangerPerSec);
    const stranger = { bucket, offences: 0, offendedMs: now, silentUntilMs: 0 };
    this.strangers.set(address, stranger);
    return stranger;
  }
}

/** A cache of at most twice `max` entries that drops the unused half at once: single evictions would cost more than the packet. */
class ProviderState<V> {
  private young = new Map<string, V>();
  private old = new Map<string, V>();

  constructor(private readonly max: number) {}

  get(key: string): V | undefined {
    const value = this.young.get(key);
    if (value !== undefined) return value;
    const older = this.old.get(key);
    if (older !== undefined) this.set(key, older);
    return older;
  }

  set(key: string, value: V): void {
    if (this.young.size >= this.max) {
      this.old = this.young;
      this.young = new Map();
    }
    this.young.set(key, value);
  }

  delete(key: string): void {
    this.young.delete(key);
    this.old.delete(key);
  }

  forget(test: (value: V, key: string) => boolean): void {
    for (const map of [this.young, this.old]) for (const [key, value] of map) if (test(value, key)) map.delete(key);
  }

  get size(): number {
    return this.young.size + this.old.size;
  }
}
