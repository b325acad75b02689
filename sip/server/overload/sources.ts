/**
 * What each source address may cost. Known peers (networks of trunks, addresses that we call or accepted a call or registration from) have
 * budgets of their own; all strangers together share one, so a scan from a thousand addresses costs no more than a scan from one.
 * Everything here happens before a message is parsed.
 */
import { PrefixTable } from './prefix-table.js';

export interface SourceLimits {
  /** Messages a second of one stranger's address; twice as many at once. */
  strangerPerSec: number;
  /** Messages a second of all strangers together; as many at once. */
  strangersPerSec: number;
  /** Messages a second of an address that we called or accepted but that no trunk names; twice as many at once. */
  acquaintancePerSec: number;
  /** Refusals an address may collect; one is forgiven every `forgiveMs`. */
  offences: number;
  forgiveMs: number;
  /** How long an offender hears nothing; what it sends meanwhile counts from the start. */
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
/** This machine does not attack itself. */
export const LOOPBACK_NETS = ['127.0.0.0/8', '::1/128'];

/** UDP senders can write any source address: no table grows beyond twice these sizes. */
const MAX_STRANGERS = 10_000;
const MAX_ACQUAINTANCES = 25_000;
const MAX_TRUSTED_SEEN = 10_000;
/** Answers that a peer who belongs here does not get. A wrong number or a busy line are none. */
const OFFENSIVE: ReadonlySet<number> = new Set([400, 401, 403, 405, 407, 416, 481, 489, 501, 505]);

/** Tokens that refill with time; a message takes one. */
class Bucket {
  private filledMs: number;

  constructor(
    now: number,
    private tokens: number,
  ) {
    this.filledMs = now;
  }

  /** Adds what time has brought. False: it is empty. */
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
  private readonly strangers = new Remembered<Stranger>(MAX_STRANGERS);
  private readonly acquaintances = new Remembered<Bucket>(MAX_ACQUAINTANCES);
  /** Addresses of the trusted networks that were looked up already: the look-up in the networks costs more than a packet may. */
  private readonly trustedSeen = new Remembered<true>(MAX_TRUSTED_SEEN);
  private trusted = new PrefixTable<true>();
  private readonly limits: SourceLimits;
  private readonly allStrangers: Bucket;
  /** Dropped unread: the address is silenced. */
  silenced = 0;
  /** Dropped unread: the address sends too fast. */
  limited = 0;
  /** Dropped unread: all strangers together send too fast. */
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

  /** Networks whose messages are not counted: those of trunks. A net that cannot be read is left out; the trunk table reports it. */
  trust(nets: readonly string[]): void {
    this.trusted = new PrefixTable();
    this.trustedSeen.forget(() => true);
    for (const net of nets) this.trusted.add(net, true);
    // an address that was silenced as a stranger is heard again at once when a trunk names it
    this.strangers.forget((_, address) => this.inTrusted(address));
  }

  /** Whether a message of this address is read at all, request or response: our own requests made their receivers acquaintances. */
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
    // an address of its own for each packet must not cost a table entry each once the crowd is over its budget
    if (!this.allStrangers.fill(now, strangersPerSec, strangersPerSec)) {
      this.crowded++;
      return false;
    }
    const { bucket } = stranger ?? this.meet(address, now);
    if (!this.passes(bucket, now, strangerPerSec)) return false;
    this.allStrangers.take();
    return true;
  }

  /** Whether it is no stranger. */
  knows(address: string): boolean {
    return (
      this.trustedSeen.get(address) === true ||
      this.acquaintances.get(address) !== undefined ||
      (this.strangers.get(address) === undefined && this.isTrusted(address))
    );
  }

  /** Its request had this final answer. */
  refused(address: string, status: number): void {
    const stranger = OFFENSIVE.has(status) ? this.strangers.get(address) : undefined;
    if (!stranger) return;
    const { offences, forgiveMs, silenceMs } = this.limits;
    const now = this.now();
    if (stranger.silentUntilMs > now) return; // answers to what it asked before
    stranger.offences = Math.max(0, stranger.offences - (now - stranger.offendedMs) / forgiveMs) + 1;
    stranger.offendedMs = now;
    if (stranger.offences <= offences) return;
    stranger.offences = 0;
    stranger.silentUntilMs = now + silenceMs;
    this.offenders++;
  }

  /** A call or registration of this address was accepted, or a request of ours goes there. */
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

/** Keeps at most twice `max`, and forgets by halves what was not asked for since: an eviction one by one would cost more than the packet. */
class Remembered<V> {
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
