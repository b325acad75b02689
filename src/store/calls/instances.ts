import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Clock } from '../database/clock.js';
import type { Database } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { InstanceRow } from '../database/tables.js';

const beatEveryMs = 5_000;
/** An instance without a heartbeat for this long is dead. */
export const deadAfterMs = 15_000;

export interface InstancesOptions {
  database: Database & { now(): number };
  clock: Clock;
  id: string;
  pid?: number;
  host?: string;
  isAlive?: (pid: number) => boolean;
  /** After a beat of ours that came in time. Not after a late one: what froze us (a locked database, a suspended machine) may have
   * frozen the others too, and they get their chance to beat first. */
  onBeat(): void;
}

/** The processes that use this database, and whether they are alive. */
export class Instances {
  private readonly pid: number;
  private readonly host: string;
  private readonly isAlive: (pid: number) => boolean;
  private cancelBeat: (() => void) | null = null;
  private lastBeatMs: number | null = null;
  private isStopped = false;

  constructor(private readonly options: InstancesOptions) {
    this.pid = options.pid ?? process.pid;
    this.host = options.host ?? hostIdentity();
    this.isAlive = options.isAlive ?? processExists;
  }

  get id(): string {
    return this.options.id;
  }

  /** Registers this process and writes a heartbeat every 5 s until `stop`. */
  async start(): Promise<void> {
    await this.beat();
    this.schedule();
  }

  /** Writes one heartbeat. False if the database is not writable. */
  async beat(): Promise<boolean> {
    const { database, id } = this.options;
    const now = database.now();
    const row: InstanceRow = { id, host: this.host, pid: this.pid, started_at: now, heartbeat_at: now };
    const upsert = database.sql
      .insertInto('instances')
      .values(row)
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ heartbeat_at: now }));
    try {
      await database.run(upsert);
    } catch {
      return false; // locked, full, or stopping
    }
    this.lastBeatMs = now;
    return true;
  }

  /** Whether a heartbeat of this process was written within this time. */
  beatWithin(ms: number): boolean {
    return this.lastBeatMs !== null && Math.abs(this.options.database.now() - this.lastBeatMs) < ms;
  }

  /** Whether the process of this row is dead, or silent for so long that it counts as dead. Never true for this process. */
  isDead(row: InstanceRow): boolean {
    if (row.id === this.options.id) return false;
    if (row.heartbeat_at < this.options.database.now() - deadAfterMs) return true;
    return row.host === this.host && row.pid !== this.pid && !this.isAlive(row.pid);
  }

  /** Stops the heartbeat and removes the row, unless this process has open calls, which another instance or the next start closes. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.cancelBeat?.();
    this.cancelBeat = null;
    const { database, id } = this.options;
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

  private schedule(): void {
    if (!this.isStopped) this.cancelBeat = this.options.clock.after(beatEveryMs, () => void this.tick());
  }

  private async tick(): Promise<void> {
    const previousMs = this.lastBeatMs;
    const startedMs = this.options.database.now();
    this.schedule();
    const inTime = (await this.beat()) && previousMs !== null && startedMs - previousMs < 2 * beatEveryMs;
    if (inTime && !this.isStopped) this.options.onBeat();
  }
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
