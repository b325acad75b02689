import { randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { uuidv7 } from 'uuidv7';
import { type Clock, systemClock } from '../database/clock.js';
import { StoreError } from '../database/errors.js';
import type { StoreDatabase } from '../database/store-database.js';
import type { InstanceRow } from '../database/tables.js';

/** Another node's row, with the moment of the database at which it was read. */
export type SeenInstance = InstanceRow & { now: number };

export interface LeaseOptions {
  database: StoreDatabase;
  clock: Clock;
  /** Unique among the running nodes; made from the host name if absent. */
  name?: string;
  /** Of the first lease; made if absent. */
  id?: string;
  pid?: number;
  host?: string;
  isAlive?: (pid: number) => boolean;
  /** After each renewal. */
  onRenewed(): Promise<void>;
  /** The lease is gone: another node has closed our calls. `take` begins a new one. */
  onLost(): void;
}

const lookForNameMs = 500;

/**
 * This node's row in `instances`, renewed by the thread that runs the calls. Its id is the epoch: every write of a call carries it, and a node
 * that takes a new lease gets a new one. Times are compared on the database's clock; what this node may do itself goes by its own monotonic one.
 */
export class NodeLease {
  readonly name: string;
  private readonly pid: number;
  private readonly host: string;
  private readonly isAlive: (pid: number) => boolean;
  private current: string;
  private cancelTick: (() => void) | null = null;
  private renewedMs: number | null = null;
  private unbrokenSinceMs: number | null = null;
  private readonly ticks = new Set<Promise<void>>();
  private isStopped = false;

  constructor(private readonly options: LeaseOptions) {
    this.pid = options.pid ?? process.pid;
    this.host = options.host ?? hostIdentity();
    this.isAlive = options.isAlive ?? processExists;
    this.current = options.id ?? uuidv7();
    this.name = options.name ?? madeNodeName();
  }

  /** Of the lease in force; another one after a loss. */
  get id(): string {
    return this.current;
  }

  /** Since the lease was renewed; 0 before it was taken. */
  get ageMs(): number {
    return this.renewedMs === null ? 0 : this.nowMs() - this.renewedMs;
  }

  /** Whether this node may do what only one node may do: its lease cannot have run out, whatever became of the database meanwhile. */
  get mayAct(): boolean {
    return this.renewedWithin(this.options.database.leaseTimes.actsForMs);
  }

  /** Whether this node may call others dead for their silence. Not soon after an outage of the database: the others need time to renew. */
  get mayJudge(): boolean {
    const { judgesAfterMs } = this.options.database.leaseTimes;
    return this.unbrokenSinceMs !== null && this.nowMs() - this.unbrokenSinceMs >= judgesAfterMs;
  }

  /** Renews the lease regularly, from now on until `stop`. */
  start(): void {
    this.schedule(this.options.database.leaseTimes.renewEveryMs);
  }

  /**
   * Takes a lease under our name. `closeDead` closes the calls of a node of the same name that is dead. Rejects with `StoreError` `name_taken`
   * when that one is alive, after as long as a lease lasts.
   */
  async take(closeDead: (id: string | null) => Promise<unknown>): Promise<void> {
    const { database } = this.options;
    const sentMs = this.nowMs();
    const id = this.renewedMs === null ? this.current : uuidv7();
    if (!(await this.insert(id))) {
      await closeDead(null); // of a process that is gone from this machine
      if (!(await this.insert(id))) {
        const held = await this.holderOfName();
        if (held !== undefined) await this.awaitSilence(held);
        await closeDead(held?.id ?? null);
        if (!(await this.insert(id))) throw this.nameTaken(held);
      }
    }
    this.current = id;
    this.renewedMs = sentMs;
    this.unbrokenSinceMs = database.leaseTimes.judgesAtStart ? Number.NEGATIVE_INFINITY : this.nowMs();
  }

  /** Renews the lease once. False if the database cannot be written, or the lease is lost. */
  async renew(): Promise<boolean> {
    const { database } = this.options;
    const { id } = this;
    const sentMs = this.nowMs();
    const renewal = database.sql.updateTable('instances').set({ heartbeat_at: database.nowSql() }).where('id', '=', id);
    let changed: number;
    try {
      changed = await database.runAtOnce(renewal);
    } catch {
      return false; // locked, full, gone, or stopping
    }
    if (id !== this.current) return false;
    if (changed === 0) {
      if (!this.isStopped) this.options.onLost();
      return false;
    }
    const { renewEveryMs } = database.leaseTimes;
    if (this.renewedMs === null || sentMs - this.renewedMs >= 2 * renewEveryMs) this.unbrokenSinceMs = sentMs;
    this.renewedMs = Math.max(sentMs, this.renewedMs ?? sentMs);
    return true;
  }

  /** Whether the lease was renewed within this time. */
  renewedWithin(ms: number): boolean {
    return this.renewedMs !== null && this.nowMs() - this.renewedMs < ms;
  }

  /** Whether this is another node that is dead: its process is gone from this machine, or it was silent for a whole lease and we may judge. */
  isDead(row: SeenInstance): boolean {
    if (row.id === this.current) return false;
    if (row.host === this.host && row.pid !== this.pid && !this.isAlive(row.pid)) return true;
    return this.mayJudge && row.heartbeat_at < row.now - this.options.database.leaseTimes.lengthMs;
  }

  /** Resolves when the renewals under way and what follows them are over; for tests. */
  async settled(): Promise<void> {
    while (this.ticks.size > 0) await Promise.all(this.ticks);
  }

  /** Ends the renewals and the lease, unless this node has open calls, which another node or the next start closes. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.cancelTick?.();
    this.cancelTick = null;
    const { id } = this;
    const { database } = this.options;
    const { sql } = database;
    const running = sql
      .selectFrom('calls')
      .select('id')
      .where('instance_id', '=', id)
      .where('status', '=', 'in_progress');
    try {
      await database.transaction(async (transaction) => {
        await transaction.run(sql.deleteFrom('journal_positions').where('instance_id', '=', id));
        await transaction.run(
          sql
            .deleteFrom('instances')
            .where('id', '=', id)
            .where(({ not, exists }) => not(exists(running))),
        );
      });
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
  }

  private schedule(ms: number): void {
    if (this.isStopped) return;
    this.cancelTick = this.options.clock.after(ms, () => {
      const tick = this.tick().finally(() => this.ticks.delete(tick));
      this.ticks.add(tick);
    });
  }

  private async tick(): Promise<void> {
    const { renewEveryMs, retryAfterMs } = this.options.database.leaseTimes;
    this.schedule(renewEveryMs);
    if (await this.renew()) {
      if (!this.isStopped) await this.options.onRenewed();
    } else if (retryAfterMs < renewEveryMs) {
      this.cancelTick?.();
      this.schedule(retryAfterMs);
    }
  }

  /** False: the name is taken. */
  private async insert(id: string): Promise<boolean> {
    const { database } = this.options;
    const row = { id, name: this.name, host: this.host, pid: this.pid };
    const added = database.sql
      .insertInto('instances')
      .values({ ...row, started_at: database.nowSql(), heartbeat_at: database.nowSql() })
      .onConflict((conflict) => conflict.column('name').doNothing());
    return (await database.run(added)) === 1;
  }

  private holderOfName(): Promise<InstanceRow | undefined> {
    const { sql } = this.options.database;
    return this.options.database.get(sql.selectFrom('instances').selectAll().where('name', '=', this.name));
  }

  /** Resolves when the row was not renewed for a whole lease, by our clock, or is gone. */
  private async awaitSilence(held: InstanceRow): Promise<void> {
    const { lengthMs } = this.options.database.leaseTimes;
    const endMs = performance.now() + lengthMs;
    while (performance.now() < endMs) {
      await sleep(lookForNameMs);
      const now = await this.holderOfName();
      if (now?.id !== held.id) return;
      if (now.heartbeat_at !== held.heartbeat_at) throw this.nameTaken(now);
    }
  }

  private nameTaken(row: InstanceRow | undefined): StoreError {
    const where = row === undefined ? '' : ` (process ${row.pid} on ${row.host.split('/')[0]})`;
    return new StoreError(
      'name_taken',
      `Another process${where} runs under the node name ${JSON.stringify(this.name)}: give each node a TRUNKLINE_NODE_NAME of its own`,
    );
  }

  private nowMs(): number {
    const { clock } = this.options;
    return clock === systemClock ? performance.now() : clock.now();
  }
}

/** A name that no other process has. */
export function madeNodeName(): string {
  return `${hostname()}-${randomBytes(4).toString('hex')}`;
}

/** Identifies the boot, machine and PID namespace in which a process id is unique; containers may share a host name. */
function hostIdentity(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${hostname()}/${boot}/${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname(); // not Linux: no containers that share it
  }
}

function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
