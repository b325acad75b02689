/** Messages between the thread of calls and the thread that writes. */

import type { Want } from '../database/database.js';
import type { BatchOutcome, Entry } from './entries.js';

/** What the thread starts with, beside the settings of its database. `dies`: 1 once a test asks the thread to die: before its next statement or answer. */
export interface WriterData {
  dies: Int32Array;
}

/** What calls have to write, under the lease of their node; numbered within it. */
export interface Batch {
  instanceId: string;
  number: number;
  entries: readonly Entry[];
}

/** `id` names the request in its answer. */
export type WriterRequest =
  | ({ id: number; kind: 'batch' } & Batch)
  /** Opens a transaction when its turn has come; statements and the end follow with the same `transaction`. */
  | { id: number; kind: 'begin' }
  | { id: number; kind: 'statement'; transaction: number; sql: string; parameters: readonly unknown[]; want: Want }
  | { id: number; kind: 'end'; transaction: number; commit: boolean }
  /** A statement in a transaction of its own. */
  | { id: number; kind: 'single'; sql: string; parameters: readonly unknown[] }
  /** Wakes the thread, so that it sees that it is to die. */
  | { id: number; kind: 'wake' }
  /** Closes the connection; everything sent before is done first. */
  | { id: number; kind: 'close' };

export interface BatchAnswer extends BatchOutcome {
  /** The lease is gone: nothing was written. */
  isFenced: boolean;
  /** Entries that the database rejects for good, by their index. */
  dropped: { index: number; message: string }[];
}

export type WriterAnswer =
  | { id: number; value: unknown }
  | { id: number; problem: { message: string; code: string | null; isPassing: boolean } };
