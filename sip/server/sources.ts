/** What each address may cost: a stranger's requests are counted before they are read, and who is only ever refused hears nothing more. */
import { BlockList, isIPv6 } from 'node:net';

export interface SourceLimits {
  /** Requests a second of an address that no call or registration was ever accepted from; as many again at once. */
  strangerPerSec: number;
  /** Refusals an address may collect; one is forgiven every `forgiveMs`. */
  offences: number;
  forgiveMs: number;
  /** How long an offender hears nothing; what it sends meanwhile counts from the start. */
  silenceMs: number;
}

export const DEFAULT_SOURCE_LIMITS: SourceLimits = {
  strangerPerSec: 50,
  offences: 20,
  forgiveMs: 5000,
  silenceMs: 600_000,
};
/** This machine does not attack itself. */
export const LOOPBACK_NETS = ['127.0.0.0/8', '::1/128'];

/** An attacker may write any source address into UDP: the tables stay of this size whatever comes. */
const MAX_STRANGERS = 10_000;
const MAX_KNOWN = 25_000;
/** Answers that nobody gets who belongs here: by the server itself or by the application. A wrong number or a busy line are none. */
const OFFENSIVE: ReadonlySet<number> = new Set([400, 401, 403, 405, 407, 416, 481, 489, 501, 505]);

interface Stranger {
  tokens: number;
  filledMs: number;
  offences: number;
  offendedMs: number;
  silentUntilMs: number;
}

export class Sources {
  private readonly strangers = new Remembered<Stranger>(MAX_STRANGERS);
  /** Addresses that nothing is counted for: of a trusted network, or once accepted. */
  private readonly known = new Remembered<'trusted' | 'accepted'>(MAX_KNOWN);
  private trusted = new BlockList();
  private readonly limits: SourceLimits;
  /** Dropped unread since the address is silenced. */
  silenced = 0;
  /** Dropped unread since the address sends too fast. */
  limited = 0;
  /** How often an address was silenced. */
  offenders = 0;

  constructor(
    private readonly now: () => number,
    limits: Partial<SourceLimits> = {},
    trustedNets: readonly string[] = LOOPBACK_NETS,
  ) {
    this.limits = { ...DEFAULT_SOURCE_LIMITS, ...limits };
    this.trust(trustedNets);
  }

  /** Networks nothing is counted for: their messages are as many as their calls. Those that cannot be read are left out. */
  trust(nets: readonly string[]): void {
    this.trusted = new BlockList();
    this.known.forget((why) => why === 'trusted');
    for (const net of nets) {
      const [address = '', bits] = net.trim().split('/');
      const v6 = isIPv6(address);
      try {
        this.trusted.addSubnet(address, bits === undefined ? (v6 ? 128 : 32) : Number(bits), v6 ? 'ipv6' : 'ipv4');
      } catch {
        // the trunk table told the operator
      }
    }
    // who was a stranger, and perhaps silenced, until now
    this.strangers.forget((_, address) => this.isTrusted(address));
  }

  /** Whether a request of this address is read at all. */
  mayAsk(address: string): boolean {
    if (this.known.get(address)) return true;
    const now = this.now();
    const stranger = this.strangers.get(address) ?? this.meet(address, now);
    if (!stranger) return true;
    if (stranger.silentUntilMs > now) {
      this.silenced++;
      return false;
    }
    const { strangerPerSec } = this.limits;
    const filled = stranger.tokens + ((now - stranger.filledMs) * strangerPerSec) / 1000;
    stranger.filledMs = now;
    stranger.tokens = Math.min(filled, 2 * strangerPerSec);
    if (stranger.tokens < 1) {
      this.limited++;
      return false;
    }
    stranger.tokens--;
    return true;
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

  /** A call or registration of this address was accepted, or it accepted one of ours. */
  accepted(address: string): void {
    if (this.known.get(address)) return;
    this.strangers.delete(address);
    this.known.set(address, 'accepted');
  }

  private isTrusted(address: string): boolean {
    return this.trusted.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
  }

  private meet(address: string, now: number): Stranger | null {
    if (this.isTrusted(address)) {
      this.known.set(address, 'trusted');
      return null;
    }
    const tokens = 2 * this.limits.strangerPerSec;
    const stranger = { tokens, filledMs: now, offences: 0, offendedMs: now, silentUntilMs: 0 };
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
