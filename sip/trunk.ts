/**
 * The trunks as the SIP layer needs them: who may call in, by source address or by name and password. Compiled once per change, so
 * that a packet from nowhere costs a few map look-ups.
 */
import ipaddr from 'ipaddr.js';
import type { TrunkMatch } from './leg.js';

export interface TrunkRecord {
  id: string;
  organizationId: string | null;
  name: string;
  direction: 'inbound' | 'outbound' | 'both';
  status: 'active' | 'inactive';
  /** CIDRs or plain addresses, v4 and v6. */
  addresses: string[];
  username: string | null;
  password: string | null;
  gateways: { uri: string; priority: number; weight: number }[];
}

export class TrunkTable {
  #byPrefix: PrefixTable = new PrefixTable();
  #byUsername = new Map<string, TrunkRecord>();
  #byId = new Map<string, TrunkRecord>();
  #challengesInvites = false;

  /**
   * Takes the place of all earlier records; inactive ones are left out. Where two trunks say the same, the earlier in the list comes
   * first. Returns one sentence for each address that could not be read (and was left out).
   */
  replace(records: readonly TrunkRecord[]): string[] {
    const problems: string[] = [];
    const byPrefix = new PrefixTable();
    const byUsername = new Map<string, TrunkRecord>();
    const byId = new Map<string, TrunkRecord>();
    let challengesInvites = false;
    for (const record of records) {
      if (record.status !== 'active') continue;
      byId.set(record.id, record);
      if (record.username && record.password) {
        if (!byUsername.has(record.username)) byUsername.set(record.username, record);
        challengesInvites ||= record.direction !== 'outbound';
      }
      if (record.direction === 'outbound') continue;
      for (const address of record.addresses) {
        if (!byPrefix.add(address, record)) {
          problems.push(`The address "${address}" of trunk "${record.name}" is neither an IP address nor a CIDR.`);
        }
      }
    }
    this.#byPrefix = byPrefix;
    this.#byUsername = byUsername;
    this.#byId = byId;
    this.#challengesInvites = challengesInvites;
    return problems;
  }

  /** The trunks that trust this source for calls to us, all of the longest prefix that matches; empty when nobody does. */
  trusting(address: string): TrunkMatch[] {
    return this.#byPrefix.longest(address).map((record) => asMatch(record, 'address'));
  }

  /** The active trunk with this user name and a password. */
  withUsername(username: string): TrunkRecord | undefined {
    return this.#byUsername.get(username);
  }

  /** The active trunk with this id. */
  withId(id: string): TrunkRecord | undefined {
    return this.#byId.get(id);
  }

  /** True when an INVITE of an unknown source may prove itself by digest: some inbound trunk has a name and a password. */
  get challengesInvites(): boolean {
    return this.#challengesInvites;
  }
}

/** The words about a trunk that an incoming call carries. */
export function asMatch(record: TrunkRecord, trustedBy: TrunkMatch['trustedBy']): TrunkMatch {
  return { trunkId: record.id, organizationId: record.organizationId, name: record.name, trustedBy };
}

/** One map per prefix length in use, longest first; keys are masked addresses. */
class PrefixTable {
  readonly #v4: { mask: number; bits: number; records: Map<number, TrunkRecord[]> }[] = [];
  readonly #v6: { bits: number; records: Map<string, TrunkRecord[]> }[] = [];

  add(cidr: string, record: TrunkRecord): boolean {
    const parsed = parseCidr(cidr.trim());
    if (!parsed) return false;
    const [bytes, bits] = parsed;
    if (bytes.length === 4) {
      let level = this.#v4.find((l) => l.bits === bits);
      if (!level) {
        level = { bits, mask: bits === 0 ? 0 : (0xffffffff << (32 - bits)) >>> 0, records: new Map() };
        this.#v4.push(level);
        this.#v4.sort((a, b) => b.bits - a.bits);
      }
      append(level.records, (asNumber(bytes) & level.mask) >>> 0, record);
    } else {
      let level = this.#v6.find((l) => l.bits === bits);
      if (!level) {
        level = { bits, records: new Map() };
        this.#v6.push(level);
        this.#v6.sort((a, b) => b.bits - a.bits);
      }
      append(level.records, maskedKey(bytes, bits), record);
    }
    return true;
  }

  longest(address: string): readonly TrunkRecord[] {
    const bytes = addressBytes(address);
    if (bytes?.length === 4) {
      const value = asNumber(bytes);
      for (const level of this.#v4) {
        const found = level.records.get((value & level.mask) >>> 0);
        if (found) return found;
      }
    } else if (bytes) {
      for (const level of this.#v6) {
        const found = level.records.get(maskedKey(bytes, level.bits));
        if (found) return found;
      }
    }
    return [];
  }
}

/** A set of CIDRs that only answers whether an address lies inside. Addresses that cannot be read lie outside. */
export class AddressRanges {
  readonly #ranges: (readonly [number[], number])[] = [];

  /** Throws one clear sentence for a CIDR that cannot be read. */
  constructor(cidrs: readonly string[]) {
    for (const cidr of cidrs) {
      const parsed = parseCidr(cidr.trim());
      if (!parsed) throw new Error(`"${cidr}" is neither an IP address nor a CIDR.`);
      this.#ranges.push(parsed);
    }
  }

  has(address: string): boolean {
    const bytes = addressBytes(address);
    if (!bytes) return false;
    return this.#ranges.some(
      ([range, bits]) => range.length === bytes.length && maskedKey(range, bits) === maskedKey(bytes, bits),
    );
  }
}

function append<K>(map: Map<K, TrunkRecord[]>, key: K, record: TrunkRecord): void {
  const list = map.get(key);
  if (!list) map.set(key, [record]);
  else if (!list.includes(record)) list.push(record);
}

function parseCidr(text: string): [number[], number] | null {
  const slash = text.indexOf('/');
  const bytes = addressBytes(slash < 0 ? text : text.slice(0, slash));
  if (!bytes) return null;
  const bitsText = slash < 0 ? String(bytes.length * 8) : text.slice(slash + 1);
  if (!/^\d{1,3}$/.test(bitsText)) return null;
  const bits = Number(bitsText);
  return bits <= bytes.length * 8 ? [bytes, bits] : null;
}

/** Four or sixteen bytes; an IPv4 address mapped into IPv6 is the IPv4 address. */
function addressBytes(text: string): number[] | null {
  if (!text.includes(':')) {
    const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
    if (!match) return null;
    const bytes = [Number(match[1]), Number(match[2]), Number(match[3]), Number(match[4])];
    return bytes.every((byte) => byte <= 255) ? bytes : null;
  }
  const bare = text.replace(/^\[|\]$/g, '');
  return ipaddr.IPv6.isValid(bare) ? ipaddr.process(bare).toByteArray() : null;
}

function asNumber(bytes: readonly number[]): number {
  return (((bytes[0] ?? 0) << 24) | ((bytes[1] ?? 0) << 16) | ((bytes[2] ?? 0) << 8) | (bytes[3] ?? 0)) >>> 0;
}

function maskedKey(bytes: readonly number[], bits: number): string {
  const whole = bits >> 3;
  const rest = bits & 7;
  const kept = bytes.slice(0, whole);
  if (rest) kept.push((bytes[whole] ?? 0) & (0xff << (8 - rest)));
  return kept.join('.');
}
