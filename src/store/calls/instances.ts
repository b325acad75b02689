import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Clock } from '../database/clock.js';
import type { Database } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { InstanceRow } from '../database/tables.js';

const beatEveryMs = 5_000;
/** An instance that has not been heard of for this long is dead. */
export const deadAfterMs = 15_000;

export interface InstancesOptions {
  database: Database;
  clock: Clock;
  id: string;
  pid?: number;
  host?: string;
  isAlive?: (pid: number) => boolean;
  /** After a beat of ours that came in time. Not after a late one: what froze us (a locked database, a suspended machine) may have
   * frozen the others too, and they get their chance to beat first. */
  onBeat(): void;
}

/** Which processes use this database, and which of them are alive. */
export class Instances {
  private readonly pid: number;
  private readonly host: string;
  private readonly isAlive: (pid: number) => boolean;
  private cancelBeat: (() => void) | null = null;
  private lastBeatMs: number | null = null;

  constructor(private readonly options: InstancesOptions) {
    this.pid = options.pid ?? process.pid;
    this.host = options.host ?? hostIdentity();
    this.isAlive = options.isAlive ?? processExists;
  }

  get id(): string {
    return this.options.id;
  }

  /** Registers us and beats every 5 s until `stop`. */
  start(): void {
    this.beat();
    this.cancelBeat = this.options.clock.after(beatEveryMs, () => this.tick());
  }

  /** One heartbeat. False when the database would not take it. */
  beat(): boolean {
    const { database, clock, id } = this.options;
    const now = clock.now();
    const row: InstanceRow = { id, host: this.host, pid: this.pid, started_at: now, heartbeat_at: now };
    try {
      database.transaction(
        () =>
          database.run(
            database.sql
              .insertInto('instances')
              .values(row)
              .onConflict((conflict) => conflict.column('id').doUpdateSet({ heartbeat_at: now })),
          ),
        { wait: false },
      );
    } catch (error) {
      if (error instanceof StoreError) return false;
      throw error;
    }
    this.lastBeatMs = now;
    return true;
  }

  /** Was a heartbeat of ours written in this time? */
  beatWithin(ms: number): boolean {
    return this.lastBeatMs !== null && Math.abs(this.options.clock.now() - this.lastBeatMs) < ms;
  }

  /** Is the process behind this row gone, or silent for so long that it must be taken for gone? Never true for ourselves. */
  isDead(row: InstanceRow): boolean {
    if (row.id === this.options.id) return false;
    if (row.heartbeat_at < this.options.clock.now() - deadAfterMs) return true;
    return row.host === this.host && row.pid !== this.pid && !this.isAlive(row.pid);
  }

  /** Stops beating and leaves, unless calls of ours are still open: then another instance, or the next start, closes them. */
  stop(): void {
    this.cancelBeat?.();
    this.cancelBeat = null;
    const { database, id } = this.options;
    const running = database.sql
      .selectFrom('calls')
      .select('id')
      .where('instance_id', '=', id)
      .where('status', '=', 'in_progress');
    try {
      database.run(
        database.sql
          .deleteFrom('instances')
          .where('id', '=', id)
          .where(({ not, exists }) => not(exists(running))),
      );
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
  }

  private tick(): void {
    const previousMs = this.lastBeatMs;
    const inTime = this.beat() && previousMs !== null && this.options.clock.now() - previousMs < 2 * beatEveryMs;
    this.cancelBeat = this.options.clock.after(beatEveryMs, () => this.tick());
    if (inTime) this.options.onBeat();
  }
}

/** A process id means something within one boot of one machine and one PID namespace: containers may share a host name. */
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
