import type { Compilable, RawBuilder } from 'kysely';
import type { Entry } from '../journal/entries.js';
import type { BatchAnswer } from '../journal/writer-protocol.js';
import type { Mode } from '../tenants/scope.js';
import type { CallMonths } from './call-months.js';
import type { Database } from './database.js';
import type { LongReader } from './long-reads.js';
import type { CallEventRow } from './tables.js';

/** For how long a node's lease holds, in milliseconds. */
export interface LeaseTimes {
  renewEveryMs: number;
  /** After a renewal that failed. */
  retryAfterMs: number;
  /** A node that did not renew its lease for so long is dead. */
  lengthMs: number;
  /** So long after a renewal a node does what only one node may do, by its own clock; less than the lease. */
  actsForMs: number;
  /** A node that has renewed its own lease in time for so long may judge others. */
  judgesAfterMs: number;
  /** Whether a node may judge others at its start. */
  judgesAtStart: boolean;
}

/** Messages between the processes that share a database; they arrive with the commit. null: some may have been lost. */
export interface Notifier {
  on(channel: string, handle: (payload: string | null) => void): void;
}

/** An event as it is written, and whose it is. */
export type StoredEvent = CallEventRow & { organization_id: string; mode: Mode };

/** The events of all processes in the order of their commits. */
export interface StoredEvents {
  /** `onEvents` gets the events, and answers whether somebody follows them still. */
  publishTo(onEvents: (events: readonly StoredEvent[]) => boolean): void;
  /** Resolves when everything that is committed from now on will be published. */
  begin(): Promise<void>;
}

/** A database that the store owns. */
export interface StoreDatabase extends Database {
  readonly longReads: LongReader;
  /** null: processes that share this database do not reach each other. */
  readonly notifier: Notifier | null;
  /** null: only events of this process can be followed. */
  readonly events: StoredEvents | null;
  readonly leaseTimes: LeaseTimes;
  /** null: the database keeps calls of all times together. */
  readonly callMonths: CallMonths | null;
  /** The database's own time, in milliseconds since 1970, as a part of a statement. */
  nowSql(): RawBuilder<number>;
  /** One statement that waits for no other work of this process; fails within two seconds. Returns the number of changed rows. */
  runAtOnce(query: Compilable<unknown>): Promise<number>;
  /**
   * Writes entries of calls in one transaction, if the lease `instanceId` holds. The same number may be sent again after `unavailable`: it
   * takes effect once.
   */
  writeBatch(instanceId: string, number: number, entries: readonly Entry[]): Promise<BatchAnswer>;
  /** How often the thread that writes died and was replaced. */
  readonly writersReplaced: number;
  /** What keeps records from being written, in a sentence; null: nothing known. */
  readonly problem: string | null;
  /** Whether what is written goes where it was opened; an unlinked file accepts writes that are lost. */
  isInPlace(): boolean;
  /** Starts now what keeps the files in order, for a process that will write much. */
  startCheckpoints(): void;
  /** Ends the thread that writes, between two statements; for tests. */
  killWriter(): Promise<void>;
  /** Resolves when everything sent before is written, and threads and connections are closed. Idempotent. */
  close(): Promise<void>;
}
