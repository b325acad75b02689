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

/** Who asks often whether the database writes does not make it write more often than this. */
const freshBeatMs = 1_000;

export interface StoreOptions {
  /** Path of the SQLite file, made with its folder when absent. */
  file: string;
  /** A UUIDv7 of this process; made here when absent. */
  instanceId?: string;
  /** Encrypts secrets in the file; absent or null: they are in clear. */
  secretsKey?: string | null;
  clock?: Clock;
  log?: StoreLog;
  /** Told when calls of a dead process were closed, at the start and while we run. */
  onOrphans?: (calls: OrphanedCall[]) => void;
  /** How this process is known to others on the same machine; tests play several. */
  process?: { pid?: number; host?: string; isAlive?: (pid: number) => boolean };
}

/** Everything Trunkline keeps. One per process; several processes may share one file. */
export class Store {
  readonly organizations: Organizations;
  /** How organizations gain members. */
  readonly invitations: Invitations;
  readonly apiKeys: ApiKeys;
  /** Whom keys stand for. */
  readonly identities: Identities;
  readonly endpoints: Endpoints;
  readonly phoneNumbers: PhoneNumbers;
  readonly trunks: Trunks;
  /** Writes what happens to calls. */
  readonly calls: Calls;
  /** Reads call records. */
  readonly records: CallReads;
  /** Answers what may take long, in a thread of its own; of what is on disk: `calls.flush()` goes before. */
  readonly longReads: LongReadThread;
  readonly recordingLinks: RecordingLinks;
  /** Rate cards, balances and the ledger. */
  readonly accounts: Accounts;
  /** Holds money for calls and settles them. */
  readonly funds: Funds;
  /** What POSTs with an `Idempotency-Key` were answered. */
  readonly idempotency: Idempotency;
  readonly requestDays: RequestDays;
  readonly rejectedInvites: RejectedInviteRecords;
  readonly webhookDeliveries: WebhookDeliveries;
  /** Recordings that calls make by the way. */
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
    store.instances.start();
    store.closeOrphans();
    return store;
  }

  /** For a process that will write much: the thread of checkpoints is there from now on. */
  startCheckpoints(): void {
    this.database.startCheckpoints();
  }

  /** Several writes as one. */
  transaction<T>(work: () => T): T {
    return this.database.transaction(work);
  }

  /** Can this process write now, and to the file of its path? Known from the last heartbeat if that is fresh, else tried. */
  writable(): boolean {
    if (!this.database.isInPlace()) return false; // what is written would be gone with the process
    return this.instances.beatWithin(freshBeatMs) || this.instances.beat();
  }

  /** Closes what dead processes left `in_progress`; runs by itself at the start and after every heartbeat. */
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

  /** Writes what waits, stops the heartbeat, closes the file. Idempotent. */
  /** Nothing is read or written any more when it returns; the thread of checkpoints is gone when it resolves. */
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
