/** Runs in a thread of its own: the only connection of this process that writes. */
import { parentPort, workerData } from 'node:worker_threads';
import { Statements } from '../database/database.js';
import { StoreError, sqliteCode } from '../database/errors.js';
import { applyEntries, nothingWritten } from '../journal/apply-entries.js';
import type { Entry } from '../journal/entries.js';
import { SqliteConnection, sqliteQueries } from './connection.js';
import type { BatchAnswer, WriterAnswer, WriterData, WriterRequest } from './writer-protocol.js';

/** How long a transaction waits for another process. The thread of calls does not wait with it. */
const lockWaitMs = 100;
/** A transaction of the thread of calls that takes longer is rolled back, so that it cannot hold up every call's record. */
const transactionLimitMs = 5_000;

const { file, durability, instanceId, dies } = workerData as WriterData;
const connection = SqliteConnection.writing(file, durability);
const statements = new Statements(sqliteQueries, async (sql, parameters, want) => {
  dieIfAsked();
  return connection.execute(sql, parameters, want);
});
const waiting: WriterRequest[] = [];
let isBusy = false;
/** The open transaction of the thread of calls. */
let open: { id: number; limit: NodeJS.Timeout } | null = null;

function dieIfAsked(): void {
  if (Atomics.load(dies, 0) === 1) process.exit(1); // ends this thread
}

parentPort?.on('message', (request: WriterRequest) => {
  dieIfAsked();
  if (request.kind === 'wake') return;
  if (request.kind === 'statement' || request.kind === 'end') return inOpenTransaction(request);
  waiting.push(request);
  void next();
});

async function next(): Promise<void> {
  if (isBusy || open !== null) return;
  const request = waiting.shift();
  if (request === undefined) return;
  isBusy = true;
  try {
    const value = await carryOut(request);
    answer({ id: request.id, value });
  } catch (error) {
    answer({ id: request.id, problem: problemOf(error) });
  }
  isBusy = false;
  void next();
}

async function carryOut(request: WriterRequest): Promise<unknown> {
  if (request.kind === 'batch') return writeBatch(request.number, request.entries);
  if (request.kind === 'single')
    return together(() => Promise.resolve(connection.execute(request.sql, request.parameters, 'changes')));
  if (request.kind === 'begin') {
    connection.begin(lockWaitMs);
    open = { id: request.id, limit: setTimeout(() => end(false), transactionLimitMs) };
    return null;
  }
  connection.close();
  setImmediate(() => parentPort?.close());
  return null;
}

function inOpenTransaction(request: Extract<WriterRequest, { kind: 'statement' | 'end' }>): void {
  try {
    if (open?.id !== request.transaction)
      throw new StoreError('unavailable', `The transaction took longer than ${transactionLimitMs / 1000} s`);
    const value =
      request.kind === 'statement'
        ? connection.execute(request.sql, request.parameters, request.want)
        : end(request.commit);
    answer({ id: request.id, value });
  } catch (error) {
    answer({ id: request.id, problem: problemOf(error) });
  }
  if (open === null) void next();
}

function end(commit: boolean): null {
  if (open !== null) clearTimeout(open.limit);
  open = null;
  try {
    if (commit) connection.commit();
  } finally {
    connection.rollback(); // what a failed commit left
    void next();
  }
  return null;
}

async function together<T>(work: () => Promise<T>): Promise<T> {
  connection.begin(lockWaitMs);
  try {
    const result = await work();
    connection.commit();
    return result;
  } catch (error) {
    connection.rollback();
    throw error;
  }
}

/** A batch that is written already, by a thread of this process that died before it could say so, is not written again. */
async function writeBatch(number: number, entries: readonly Entry[]): Promise<BatchAnswer> {
  const done = await statements.row<{ number: number }>(position, instanceId);
  if (done !== undefined && done.number >= number) return { ...nothingWritten(), hasDeliveries: true, dropped: [] };
  try {
    const outcome = await together(async () => {
      await statements.write(keepPosition, instanceId, number);
      return applyEntries(statements, entries);
    });
    return { ...outcome, dropped: [] };
  } catch (error) {
    if (isPassing(error) || entries.length === 0) throw error;
    return oneByOne(number, entries);
  }
}

/** Writes what can be written; one entry that the database rejects does not hold up the others. */
async function oneByOne(number: number, entries: readonly Entry[]): Promise<BatchAnswer> {
  return together(async () => {
    const all: BatchAnswer = { ...nothingWritten(), dropped: [] };
    await statements.write(keepPosition, instanceId, number);
    for (const [index, entry] of entries.entries()) {
      connection.execute('savepoint entry', [], 'changes');
      try {
        const { admissions, closedElsewhere, settled, late, hasDeliveries } = await applyEntries(statements, [entry]);
        all.late.push(...late);
        all.admissions.push(...admissions);
        all.closedElsewhere.push(...closedElsewhere);
        all.settled.push(...settled);
        all.hasDeliveries ||= hasDeliveries;
      } catch (error) {
        if (isPassing(error)) throw error;
        connection.execute('rollback to entry', [], 'changes');
        all.dropped.push({ index, message: (error as Error).message });
      }
      connection.execute('release entry', [], 'changes');
    }
    return all;
  });
}

const position = 'select number from journal_positions where instance_id = ?';
const keepPosition =
  'insert into journal_positions (instance_id, number) values (?, ?) on conflict (instance_id) do update set number = excluded.number';

function isPassing(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'unavailable';
}

function problemOf(error: unknown): { message: string; code: string | null; isPassing: boolean } {
  return { message: (error as Error).message, code: sqliteCode(error) || null, isPassing: isPassing(error) };
}

function answer(told: WriterAnswer): void {
  dieIfAsked();
  parentPort?.postMessage(told);
}
