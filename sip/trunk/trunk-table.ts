/**
 * The trunks as the SIP layer needs them: who may call in, by source address or by name and password. Compiled once per change, so
 * that a packet from nowhere costs a few map look-ups.
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
   * Takes the place of all earlier records; inactive ones are left out. Where two trunks say the same, the earlier in the list comes
   * first. Returns one sentence for each address that could not be read (and was left out).
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
