/**
 * The trunks as the SIP layer needs them: which sources may call in, by address or by user name and password. Compiled once per change, so
 * that a packet from an unknown source costs a few map look-ups.
 */
import type { TrunkMatch } from '../leg.js';
import { PrefixTable } from '../server/overload/prefix-table.js';

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
  #byPrefix = new PrefixTable<TrunkRecord>();
  #byUsername = new Map<string, TrunkRecord>();
  #byId = new Map<string, TrunkRecord>();
  #challengesInvites = false;

  /**
   * Replaces all records; inactive ones are left out. When two trunks match the same source, the earlier in the list comes first. Returns
   * one sentence for each address that could not be read (and was left out).
   */
  replace(records: readonly TrunkRecord[]): string[] {
    const problems: string[] = [];
    const byPrefix = new PrefixTable<TrunkRecord>();
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

  /** The trunks that list this source for calls to us, all with the longest matching prefix; empty when none does. */
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

  /** The active trunks. */
  all(): Iterable<TrunkRecord> {
    return this.#byId.values();
  }

  /** True when an INVITE from an unknown source may prove itself by digest: some inbound trunk has a user name and a password. */
  get challengesInvites(): boolean {
    return this.#challengesInvites;
  }
}

/** The trunk as an incoming call carries it. */
export function asMatch(record: TrunkRecord, trustedBy: TrunkMatch['trustedBy']): TrunkMatch {
  return { trunkId: record.id, organizationId: record.organizationId, name: record.name, trustedBy };
}
