import type { Entry } from '../journal/entries.js';
import type { BatchAnswer } from '../journal/writer-protocol.js';
import type { Database } from './database.js';
import type { LongReader } from './long-reads.js';

/** A database that the store owns. */
export interface StoreDatabase extends Database {
  readonly longReads: LongReader;
  /** Milliseconds since 1970 that all processes of this database agree on. */
  now(): number;
  /** Writes entries of calls in one transaction. The same number may be sent again after `unavailable`: it takes effect once. */
  writeBatch(number: number, entries: readonly Entry[]): Promise<BatchAnswer>;
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
