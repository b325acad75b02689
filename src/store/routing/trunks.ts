import { uuidv7 } from 'uuidv7';
import type { Clock } from '../database/clock.js';
import type { Database, Reads, Transaction } from '../database/database.js';
import type { TrunkRow } from '../database/tables.js';
import type { Page, Scope, Slice } from '../tenants/scope.js';
import { secretMask } from '../tenants/secrets.js';
import type { Vault } from '../tenants/vault.js';

export interface TrunkGateway {
  uri: string;
  /** Lower is tried first. */
  priority: number;
  /** Share among gateways of one priority. */
  weight: number;
}

/** How calls over a trunk write numbers. Templates know `{e164}` (`+15551234567`) and `{digits}` (`15551234567`). */
export interface OutboundIdentity {
  /** The called number: the user part of the request-URI. */
  to_format: string;
  /** The caller's number in From. */
  from_format: string;
  /** The host part of From; null for the address of this server. */
  from_domain: string | null;
  /** A whole URI for P-Asserted-Identity (RFC 3325); null: none. */
  asserted_identity: string | null;
  /** A whole URI for Diversion (RFC 5806); null: none. */
  diversion: string | null;
  /** With `id`, the identity of the caller is withheld from the callee. */
  privacy: 'none' | 'id';
  /** More header fields of each INVITE; their names begin with `X-`. */
  headers: Record<string, string>;
}

export const plainIdentity: OutboundIdentity = {
  to_format: '{e164}',
  from_format: '{e164}',
  from_domain: null,
  asserted_identity: null,
  diversion: null,
  privacy: 'none',
  headers: {},
};

/** What TLS connections to its gateways need, as PEM. */
export interface TrunkTls {
  /** The authorities that sign their certificates; null: the public ones. */
  ca: string | null;
  /** The client certificate; null for that of the server. */
  certificate: string | null;
  key: string | null;
}

export const plainTls: TrunkTls = { ca: null, certificate: null, key: null };

/** A carrier. From every method but `allForSip` its password and key are masked. */
export interface Trunk {
  id: string;
  /** null: shared by all organizations. */
  organizationId: string | null;
  name: string;
  direction: TrunkRow['direction'];
  addresses: string[];
  username: string | null;
  password: string | null;
  gateways: TrunkGateway[];
  transport: TrunkRow['transport'];
  srtp: TrunkRow['srtp'];
  tls: TrunkTls;
  register: boolean;
  codecs: string[];
  /** Maximum concurrent calls, and maximum new calls per second; null for no limit. */
  maxCalls: number | null;
  callsPerSecond: number | null;
  outbound: OutboundIdentity;
  status: TrunkRow['status'];
  health: TrunkRow['health'];
  createdAt: Date;
  updatedAt: Date;
}

export type TrunkSettings = Pick<
  Trunk,
  | 'name'
  | 'direction'
  | 'addresses'
  | 'username'
  | 'password'
  | 'gateways'
  | 'transport'
  | 'srtp'
  | 'tls'
  | 'register'
  | 'codecs'
  | 'maxCalls'
  | 'callsPerSecond'
  | 'outbound'
  | 'status'
>;

type Extras = 'maxCalls' | 'callsPerSecond' | 'outbound' | 'tls';
/** Defaults: no limits, numbers in E.164, TLS with the public authorities. */
export type NewTrunk = Omit<TrunkSettings, Extras> & Partial<Pick<TrunkSettings, Extras>> & { shared?: boolean };

/** Shared trunks belong to the platform: only its owner sees and changes them, with a live key. */
export interface TrunkScope extends Scope {
  shared: boolean;
}

/** The shared trunk of a first start with SIP on a loopback address. */
export const loopbackTrunk = { name: 'Loopback', addresses: ['127.0.0.0/8', '::1/128'] };

export class Trunks {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly vault: Vault,
  ) {}

  /** Every active trunk with its password in clear, for the SIP server. Oldest first, shared ones last. */
  async allForSip(): Promise<Trunk[]> {
    const rows = await this.database.all(
      this.database.sql
        .selectFrom('trunks')
        .selectAll()
        .where('status', '=', 'active')
        .where('mode', '=', 'live')
        .orderBy((is) => is('organization_id', 'is', null))
        .orderBy('created_at')
        .orderBy('id'),
    );
    return rows.map((row) => {
      const open = this.vault.open('trunks', row);
      const trunk = toTrunk(row);
      return { ...trunk, password: open.password, tls: { ...trunk.tls, key: open.tls_key } };
    });
  }

  async list(scope: TrunkScope, filter: { direction?: string; status?: string }, slice: Slice): Promise<Page<Trunk>> {
    const filtered = this.within(scope)
      .$if(filter.direction !== undefined, (query) =>
        query.where('direction', '=', filter.direction as TrunkRow['direction']),
      )
      .$if(filter.status !== undefined, (query) => query.where('status', '=', filter.status as TrunkRow['status']));
    const rows = await this.database.all(
      filtered.selectAll().orderBy('created_at', 'desc').orderBy('id', 'desc').limit(slice.limit).offset(slice.offset),
    );
    const counted = await this.database.get(filtered.select((is) => is.fn.countAll<number>().as('total')));
    return { data: rows.map(toTrunk), total: counted?.total ?? 0 };
  }

  async get(scope: TrunkScope, id: string, reads: Reads = this.database): Promise<Trunk | undefined> {
    const row = await this.row(scope, id, reads);
    return row && toTrunk(row);
  }

  async create(scope: TrunkScope, trunk: NewTrunk, within?: Transaction): Promise<Trunk> {
    const now = this.clock.now();
    const row: TrunkRow = {
      id: uuidv7(),
      organization_id: trunk.shared ? null : scope.organizationId,
      mode: trunk.shared ? 'live' : scope.mode,
      name: trunk.name,
      direction: trunk.direction,
      addresses: JSON.stringify(trunk.addresses),
      username: trunk.username,
      password: trunk.password,
      gateways: JSON.stringify(trunk.gateways),
      transport: trunk.transport,
      srtp: trunk.srtp,
      tls_ca: trunk.tls?.ca ?? null,
      tls_certificate: trunk.tls?.certificate ?? null,
      tls_key: trunk.tls?.key ?? null,
      register: trunk.register ? 1 : 0,
      codecs: JSON.stringify(trunk.codecs),
      max_calls: trunk.maxCalls ?? null,
      calls_per_second: trunk.callsPerSecond ?? null,
      outbound: JSON.stringify(trunk.outbound ?? plainIdentity),
      status: trunk.status,
      health: 'unknown',
      created_at: now,
      updated_at: now,
    };
    await this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      await transaction.run(transaction.sql.insertInto('trunks').values(this.vault.seal('trunks', row)));
    }, within);
    return toTrunk(row);
  }

  /** `asked`: the change, or what makes it of the trunk; what that throws is thrown. A masked password or key keeps the stored one. */
  update(
    scope: TrunkScope,
    id: string,
    asked: Partial<TrunkSettings> | ((current: Trunk) => Partial<TrunkSettings>),
  ): Promise<Trunk | undefined> {
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      const current = await this.get(scope, id, transaction);
      if (!current) return undefined;
      const change = typeof asked === 'function' ? asked(current) : asked;
      const set: Partial<TrunkRow> = {
        name: change.name,
        direction: change.direction,
        addresses: change.addresses && JSON.stringify(change.addresses),
        username: change.username,
        password: change.password === secretMask ? undefined : change.password,
        gateways: change.gateways && JSON.stringify(change.gateways),
        transport: change.transport,
        srtp: change.srtp,
        tls_ca: change.tls?.ca,
        tls_certificate: change.tls?.certificate,
        tls_key: change.tls?.key === secretMask ? undefined : change.tls?.key,
        register: change.register === undefined ? undefined : change.register ? 1 : 0,
        codecs: change.codecs && JSON.stringify(change.codecs),
        max_calls: change.maxCalls,
        calls_per_second: change.callsPerSecond,
        outbound: change.outbound && JSON.stringify(change.outbound),
        status: change.status,
        updated_at: this.clock.now(),
      };
      await transaction.run(
        transaction.sql.updateTable('trunks').set(this.vault.seal('trunks', set)).where('id', '=', id),
      );
      return this.get(scope, id, transaction);
    });
  }

  /** Sets the observed health; not a change of the trunk. */
  async observe(id: string, health: TrunkRow['health']): Promise<void> {
    const query = this.database.sql.updateTable('trunks').set({ health }).where('id', '=', id);
    await this.database.run(query.where('health', '!=', health));
  }

  /**
   * Sets the trunk of the first start inactive, unless an operator has changed it since. False if it is changed or not active.
   */
  async retireLoopback(): Promise<boolean> {
    const query = this.database.sql
      .updateTable('trunks')
      .set({ status: 'inactive', updated_at: this.clock.now() })
      .where('organization_id', 'is', null)
      .where('name', '=', loopbackTrunk.name)
      .where('addresses', '=', JSON.stringify(loopbackTrunk.addresses))
      .where('status', '=', 'active')
      .whereRef('created_at', '=', 'updated_at');
    return (await this.database.run(query)) > 0;
  }

  delete(scope: TrunkScope, id: string): Promise<boolean> {
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      if (!(await this.row(scope, id, transaction))) return false;
      return (await transaction.run(transaction.sql.deleteFrom('trunks').where('id', '=', id))) === 1;
    });
  }

  private within(scope: TrunkScope) {
    const seesShared = scope.shared && scope.mode === 'live';
    return this.database.sql
      .selectFrom('trunks')
      .where('mode', '=', scope.mode)
      .where((is) => {
        const own = is('organization_id', '=', scope.organizationId);
        return seesShared ? is.or([own, is('organization_id', 'is', null)]) : own;
      });
  }

  private row(scope: TrunkScope, id: string, reads: Reads = this.database): Promise<TrunkRow | undefined> {
    return reads.get(this.within(scope).selectAll().where('id', '=', id));
  }
}

function toTrunk(row: TrunkRow): Trunk {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    direction: row.direction,
    addresses: JSON.parse(row.addresses) as string[],
    username: row.username,
    password: row.password === null ? null : secretMask,
    gateways: JSON.parse(row.gateways) as TrunkGateway[],
    transport: row.transport,
    srtp: row.srtp,
    tls: { ca: row.tls_ca, certificate: row.tls_certificate, key: row.tls_key === null ? null : secretMask },
    register: row.register === 1,
    codecs: JSON.parse(row.codecs) as string[],
    maxCalls: row.max_calls,
    callsPerSecond: row.calls_per_second,
    outbound: { ...plainIdentity, ...(JSON.parse(row.outbound) as Partial<OutboundIdentity>) },
    status: row.status,
    health: row.health,
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
  };
}
