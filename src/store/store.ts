import { uuidv7 } from 'uuidv7';
import { CallReads } from './calls/call-reads.js';
import { Calls } from './calls/calls.js';
import { Instances } from './calls/instances.js';
import { closeOrphans, type OrphanedCall } from './calls/orphans.js';
import { RecordingLinks } from './calls/recording-links.js';
import { RecordingRecords } from './calls/recordings.js';
import { RejectedInviteRecords } from './calls/rejected-invites.js';
import { type Clock, systemClock } from './database/clock.js';
import { Database } from './database/database.js';
import { StoreError } from './database/errors.js';
import { type StoreLog, silentLog } from './database/log.js';
import { LongReadThread } from './database/long-read-thread.js';
import { Endpoints } from './routing/endpoints.js';
import { PhoneNumbers } from './routing/phone-numbers.js';
import { Trunks } from './routing/trunks.js';
import { WebhookDeliveries } from './routing/webhook-deliveries.js';
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

export interface StoreOptions {
  /** The path of the SQLite file; the file and its folder are created if absent. */
  file: string;
  /** A UUIDv7 of this process; generated if absent. */
  instanceId?: string;
  /** The key that encrypts secrets in the file; if absent or null, they are stored in clear. */
  secretsKey?: string | null;
  clock?: Clock;
  log?: StoreLog;
  /** Called when calls of a dead process were closed, at the start and later. */
  onOrphans?: (calls: OrphanedCall[]) => void;
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
  /** Runs long queries in a separate thread. They see data on disk only: call `calls.flush()` first. */
  readonly longReads: LongReadThread;
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
  readonly instances: Instances;
  private closed = false;

  private constructor(
    private readonly database: Database,
    private readonly options: StoreOptions,
    clock: Clock,
    vault: Vault,
    private readonly log: StoreLog,
  ) {
    const instanceId = options.instanceId ?? uuidv7();
    this.organizations = new Organizations(database, clock);
    this.invitations = new Invitations(database, clock, this.organizations);
    this.apiKeys = new ApiKeys(database, clock);
    this.identities = new Identities(this.apiKeys, this.organizations, clock);
    this.endpoints = new Endpoints(database, clock, vault);
    this.phoneNumbers = new PhoneNumbers(database, clock, this.endpoints);
    this.trunks = new Trunks(database, clock, vault);
    this.accounts = new Accounts(database, clock);
    this.funds = new Funds(database, this.accounts, {
      rated: (callId) => this.calls.rated(callId),
      reserved: (callId, data) => this.calls.event(callId, 'balance.reserved', data),
    });
    this.requestDays = new RequestDays(database, clock);
    this.rejectedInvites = new RejectedInviteRecords(database, clock);
    this.idempotency = new Idempotency(database, clock);
    const settle = (callId: string, durationSec: number) => this.funds.settle(callId, durationSec);
    this.calls = new Calls(database, clock, instanceId, log, settle);
    this.records = new CallReads(database, () => this.calls.flush());
    this.longReads = new LongReadThread(options.file);
    this.recordingLinks = new RecordingLinks(database);
    this.webhookDeliveries = new WebhookDeliveries(database, clock);
    this.recordings = new RecordingRecords(database);
    this.instances = new Instances({
      database,
      clock,
      id: instanceId,
      ...options.process,
      onBeat: () => this.closeOrphans(),
    });
  }

  /** Opens and migrates the file, begins the heartbeat, and closes the calls of dead processes. Throws `StoreError` with a clear sentence. */
  static open(options: StoreOptions): Store {
    const clock = options.clock ?? systemClock;
    const database = Database.open(options.file, () => clock.now());
    const vault = new Vault(options.secretsKey ?? null);
    try {
      vault.protect(database);
    } catch (error) {
      database.close();
      throw error;
    }
    const store = new Store(database, options, clock, vault, options.log ?? silentLog);
    store.endpoints.completeEventsUrls();
    store.instances.start();
    store.closeOrphans();
    return store;
  }

  /** Starts the checkpoint thread now, for a process that will write much. */
  startCheckpoints(): void {
    this.database.startCheckpoints();
  }

  /** Runs several writes in one transaction. */
  transaction<T>(work: () => T): T {
    return this.database.transaction(work);
  }

  /** Whether this process can write to the file at its path. Known from a recent heartbeat, else tested by a write. */
  writable(): boolean {
    if (!this.database.isInPlace()) return false; // writes to an unlinked file are lost with the process
    return this.instances.beatWithin(freshBeatMs) || this.instances.beat();
  }

  /** Closes calls that dead processes left `in_progress`; runs automatically at the start and after every heartbeat. */
  closeOrphans(): OrphanedCall[] {
    try {
      const closed = closeOrphans(this.database, this.instances, (callId, durationSec) =>
        this.funds.settle(callId, durationSec),
      );
      if (closed.length > 0) {
        this.log.warn({ calls: closed.length }, 'closed the calls of a process that died');
        this.options.onOrphans?.(closed);
      }
      return closed;
    } catch (error) {
      if (error instanceof StoreError) return []; // locked: the next heartbeat tries again
      throw error;
    }
  }

  /** Writes the queued data, stops the heartbeat, closes the file. Idempotent. */
  /** The file is closed when this returns; the checkpoint thread has ended when it resolves. */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    this.longReads.close();
    this.calls.close();
    this.requestDays.close();
    this.instances.stop();
    await this.database.close();
  }
}
