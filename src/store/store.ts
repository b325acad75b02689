import { CallReads } from './calls/call-reads.js';
import { Calls } from './calls/calls.js';
import { ExpiredCalls } from './calls/expired-calls.js';
import { ExpiredMonths } from './calls/expired-months.js';
import { RecordingLinks } from './calls/recording-links.js';
import { RecordingList } from './calls/recording-list.js';
import { RecordingRecords } from './calls/recordings.js';
import { RejectedInviteRecords } from './calls/rejected-invites.js';
import { type Clock, systemClock } from './database/clock.js';
import type { Transaction } from './database/database.js';
import { StoreError } from './database/errors.js';
import { installationSecret } from './database/installation-secret.js';
import { type StoreLog, silentLog } from './database/log.js';
import type { LongReader } from './database/long-reads.js';
import type { StoreDatabase } from './database/store-database.js';
import { NodeCommands } from './nodes/commands.js';
import { ConferenceOwners } from './nodes/conference-owners.js';
import { NodeLease } from './nodes/lease.js';
import { closeOrphans, type OrphanedCall } from './nodes/orphans.js';
import { NodeRoles } from './nodes/roles.js';
import { numberWaitingEvents } from './nodes/waiting-events.js';
import { Endpoints } from './routing/endpoints.js';
import { PhoneNumbers } from './routing/phone-numbers.js';
import { Trunks } from './routing/trunks.js';
import { WebhookDeliveries } from './routing/webhook-deliveries.js';
import type { Durability } from './sqlite/connection.js';
import { SqliteDatabase } from './sqlite/sqlite-database.js';
import { Accounts } from './tenants/accounts.js';
import { ApiKeys } from './tenants/api-keys.js';
import { Funds } from './tenants/funds.js';
import { Idempotency } from './tenants/idempotency.js';
import { Identities } from './tenants/identities.js';
import { Invitations } from './tenants/invitations.js';
import { Organizations } from './tenants/organizations.js';
import { RequestDays } from './tenants/request-days.js';
import { Vault } from './tenants/vault.js';

/** The minimum time between test writes, however often `writable` is called. */
const freshBeatMs = 1_000;
/** Between attempts to take a new lease after a loss. */
const rejoinEveryMs = 500;

export interface StoreOptions {
  /** The path of the SQLite file; the file and its folder are created if absent. */
  file?: string;
  /** Instead of `file`: the URL of a PostgreSQL database. */
  url?: string;
  /** Connections to PostgreSQL for the API and background work. */
  poolSize?: number;
  /** Called when another process that uses the same PostgreSQL database has changed settings. */
  onSettingsChanged?: () => void;
  /** The name of this node, unique among those that share the database; generated if absent. */
  nodeName?: string | null;
  /** The key that encrypts secrets in the file; if absent or null, they are stored in clear. */
  secretsKey?: string | null;
  /** How long a metered call goes on when no more money can be asked for. Default 60. */
  holdGraceSec?: number;
  /** Default: `normal`. */
  durability?: Durability;
  clock?: Clock;
  log?: StoreLog;
  /** Called when calls of a dead process were closed, at the start and later. */
  onOrphans?: (calls: OrphanedCall[]) => void;
  /** Called when another node has closed calls of this one, which was silent for too long: they must be hung up. */
  onLost?: (callIds: string[]) => void;
  /** Called when this node has taken or lost a role. */
  onRolesChanged?: () => void;
  /** Called after each batch of what calls write, with the time that it took. */
  onBatchWritten?: (ms: number) => void;
  /** Called after each answer to a command to another node, with the time that it took. */
  onCommandAnswered?: (ms: number) => void;
  /** The identity of this process on the machine; tests simulate several. */
  process?: { pid?: number; host?: string; isAlive?: (pid: number) => boolean };
}

/** All persistent data of Trunkline. One instance per process; several processes may share one file. */
export class Store {
  readonly organizations: Organizations;
  /** Invitations to organizations. */
  readonly invitations: Invitations;
  readonly apiKeys: ApiKeys;
  /** The users of API keys. */
  readonly identities: Identities;
  readonly endpoints: Endpoints;
  readonly phoneNumbers: PhoneNumbers;
  readonly trunks: Trunks;
  /** Writes call records and events. */
  readonly calls: Calls;
  /** Reads call records. */
  readonly records: CallReads;
  /** Runs long queries in a separate process. They see data on disk only: call `calls.flush()` first. */
  readonly longReads: LongReader;
  /** Finds and removes calls that their organization keeps no longer. */
  readonly expiredCalls: ExpiredCalls;
  /** null: the database keeps calls of all times together. */
  readonly expiredMonths: ExpiredMonths | null;
  readonly recordingLinks: RecordingLinks;
  /** Rate cards, balances and the ledger. */
  readonly accounts: Accounts;
  /** Reserves balance for calls and settles them. */
  readonly funds: Funds;
  /** The stored responses of POSTs with an `Idempotency-Key`. */
  readonly idempotency: Idempotency;
  readonly requestDays: RequestDays;
  readonly rejectedInvites: RejectedInviteRecords;
  readonly webhookDeliveries: WebhookDeliveries;
  /** Recordings of webhook actions. */
  readonly recordings: RecordingRecords;
  /** Recordings of calls and of webhook actions together. */
  readonly recordingList: RecordingList;
  readonly lease: NodeLease;
  readonly roles: NodeRoles;
  /** Commands to calls of other nodes; null: nodes cannot reach each other over this database. */
  readonly nodeCommands: NodeCommands | null;
  /** Which node has each conference; null: there is one node. */
  readonly conferenceOwners: ConferenceOwners | null;
  private readonly clock: Clock;
  private readonly log: StoreLog;
  private rejoining: Promise<void> | null = null;
  private leaseProblem: string | null = null;
  private closing: Promise<void> | null = null;

  private constructor(
    private readonly database: StoreDatabase,
    private readonly options: StoreOptions,
    parts: { clock: Clock; vault: Vault; log: StoreLog; recordingLinks: RecordingLinks },
  ) {
    const { clock, vault, log } = parts;
    this.clock = clock;
    this.log = log;
    this.lease = new NodeLease({
      ...{ database, clock, ...options.process },
      ...(options.nodeName == null ? {} : { name: options.nodeName }),
      onRenewed: async () => {
        await this.closeOrphans();
        await this.roles.takeFree();
        await this.nodeCommands?.takeAll();
        await this.numberWaitingEvents();
      },
      onLost: () => this.rejoin(),
    });
    const { notifier } = database;
    this.nodeCommands =
      notifier === null ? null : new NodeCommands(database, this.lease, notifier, options.onCommandAnswered);
    this.conferenceOwners = notifier === null ? null : new ConferenceOwners(database, this.lease);
    this.roles = new NodeRoles(database, this.lease, () => options.onRolesChanged?.());
    this.organizations = new Organizations(database, clock);
    this.invitations = new Invitations(database, clock, this.organizations);
    this.apiKeys = new ApiKeys(database, clock);
    this.identities = new Identities(this.apiKeys, this.organizations, clock);
    this.endpoints = new Endpoints(database, clock, vault);
    this.phoneNumbers = new PhoneNumbers(database, clock, this.endpoints);
    this.trunks = new Trunks(database, clock, vault);
    this.accounts = new Accounts(database, clock);
    this.funds = new Funds(database, this.accounts, options.holdGraceSec ?? 60, (callId, data) =>
      this.calls.event(callId, 'balance.reserved', data),
    );
    this.requestDays = new RequestDays(database, clock, log);
    this.rejectedInvites = new RejectedInviteRecords(database, clock);
    this.idempotency = new Idempotency(clock);
    this.calls = new Calls({
      write: async (instanceId, number, entries) => {
        const startedMs = performance.now();
        const answer = await database.writeBatch(instanceId, number, entries);
        options.onBatchWritten?.(performance.now() - startedMs);
        return answer;
      },
      ...{ clock, instanceId: this.lease.id, log },
      onFenced: () => this.rejoin(),
      events: database.events,
    });
    this.records = new CallReads(database, () => this.calls.flush());
    this.expiredCalls = new ExpiredCalls(database, this.organizations, clock);
    this.expiredMonths =
      database.callMonths &&
      new ExpiredMonths(database, database.callMonths, this.organizations, this.expiredCalls, clock);
    this.longReads = database.longReads;
    this.recordingLinks = parts.recordingLinks;
    this.webhookDeliveries = new WebhookDeliveries(database, clock);
    this.recordings = new RecordingRecords(database, (callId) => this.calls.flushCall(callId));
    this.recordingList = new RecordingList(database);
  }

  /** Opens and migrates the database, takes a lease, and closes the calls of dead processes. Rejects with `StoreError`, a clear sentence. */
  static async open(options: StoreOptions): Promise<Store> {
    const { clock = systemClock, log = silentLog } = options;
    const database = await openDatabase(options, { clock, log });
    const vault = new Vault(options.secretsKey ?? null);
    try {
      await vault.protect(database);
      const recordingLinks = await RecordingLinks.open(database);
      const store = new Store(database, options, { clock, vault, log, recordingLinks });
      await store.endpoints.completeEventsUrls();
      await store.lease.take((deadId) => store.closeOrphans(deadId));
      await store.closeOrphans();
      await store.roles.takeFree();
      store.lease.start();
      return store;
    } catch (error) {
      await database.close();
      throw error;
    }
  }

  /** Starts the checkpoint thread now, for a process that will write much. */
  startCheckpoints(): void {
    this.database.startCheckpoints();
  }

  /**
   * Runs several writes together or not at all. Each of them gets the transaction as an argument; nothing joins it silently. Await nothing
   * else within `work`.
   */
  transaction<T>(work: (transaction: Transaction) => Promise<T>, within?: Transaction): Promise<T> {
    return this.database.transaction(work, within);
  }

  /** Whether this process can write to the file at its path. Known from a recent heartbeat, else tested by a write. */
  async writable(): Promise<boolean> {
    if (!this.database.isInPlace()) return false; // writes to an unlinked file are lost with the process
    return this.lease.renewedWithin(freshBeatMs) || this.lease.renew();
  }

  /** By which the nodes of this database know each other; null: there is one node. */
  async nodeSecret(): Promise<Buffer | null> {
    return this.nodeCommands === null ? null : installationSecret(this.database, 'nodes');
  }

  /** What keeps records from being written, in a sentence; null: nothing known. */
  get problem(): string | null {
    return this.database.problem ?? this.leaseProblem;
  }

  /** How often the thread that writes died and was replaced. */
  get writersReplaced(): number {
    return this.database.writersReplaced;
  }

  /** Ends the thread that writes, between two statements; for tests. */
  killWriter(): Promise<void> {
    return this.database.killWriter();
  }

  /** Closes calls that dead processes left `in_progress`; runs automatically at the start and after every renewal of the lease. */
  async closeOrphans(deadId: string | null = null): Promise<OrphanedCall[]> {
    try {
      const { database, lease } = this;
      const closed = await closeOrphans({ database, lease, deadId, nowMs: this.clock.now() });
      if (closed.length > 0) {
        this.log.warn({ calls: closed.length }, 'closed the calls of a process that died');
        this.options.onOrphans?.(closed);
      }
      return closed;
    } catch (error) {
      if (error instanceof StoreError) return []; // locked: the next renewal tries again
      throw error;
    }
  }

  /** Events about calls of other processes that have ended by now; runs automatically after every renewal of the lease. */
  private async numberWaitingEvents(): Promise<void> {
    try {
      this.calls.publishLate(await numberWaitingEvents(this.database, this.clock.now()));
    } catch (error) {
      if (!(error instanceof StoreError)) throw error; // the next renewal tries again
    }
  }

  /** After the loss of the lease: calls that another node has closed are over, and everything else goes on under a new lease. */
  private rejoin(): void {
    this.rejoining ??= this.rejoinAtLast().finally(() => {
      this.rejoining = null;
    });
  }

  private async rejoinAtLast(): Promise<void> {
    const begun = await this.calls.fence();
    let hasLease = false;
    while (this.closing === null) {
      try {
        if (!hasLease) await this.lease.take((deadId) => this.closeOrphans(deadId));
        hasLease = true;
        const lost = this.calls.continueUnder(this.lease.id, await this.unwrittenOf(begun));
        this.leaseProblem = null;
        this.log.error({ calls: lost.length }, 'this node was silent for too long: other nodes have closed its calls');
        this.options.onLost?.(lost);
        await this.roles.takeFree();
        return;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        if (error.code === 'name_taken') this.leaseProblem = error.message;
        await new Promise<void>((resolve) => this.clock.after(rejoinEveryMs, resolve));
      }
    }
  }

  private async unwrittenOf(callIds: readonly string[]): Promise<Set<string>> {
    const unwritten = new Set(callIds);
    for (const id of callIds)
      if ((await this.database.row('select 1 from calls where id = ?', id)) !== undefined) unwritten.delete(id);
    return unwritten;
  }

  /** Writes the queued data, stops the renewals, closes the file and ends its threads. Idempotent. */
  close(): Promise<void> {
    this.closing ??= this.closeAll();
    return this.closing;
  }

  private async closeAll(): Promise<void> {
    await this.calls.close();
    await this.requestDays.close();
    await this.lease.stop();
    await this.database.close();
  }
}

async function openDatabase(
  { file, url, poolSize, durability, onSettingsChanged }: StoreOptions,
  { clock, log }: { clock: Clock; log: StoreLog },
): Promise<StoreDatabase> {
  const onWriterDeath = (reason: string): void =>
    log.error({ reason }, 'the thread that writes the database died; it is replaced');
  const onUpgrade = (migrations: readonly string[]): void =>
    log.info({ migrations }, 'the database of an older version is brought up to date; a million calls take a minute');
  if (url !== undefined) {
    const { PostgresDatabase } = await import('./postgres/postgres-database.js'); // most installations never load it
    return PostgresDatabase.open({ url, clock, poolSize, onWriterDeath, onUpgrade, onSettingsChanged });
  }
  if (file === undefined) throw new Error('neither a file nor a URL of the database is given');
  return SqliteDatabase.open({ file, durability, now: () => clock.now(), onWriterDeath, onUpgrade });
}
