/** Runs in a thread of its own: the only connection of this process that writes. */
import { parentPort, workerData } from 'node:worker_threads';
import { Statements } from '../database/database.js';
import { StoreError, sqliteCode } from '../database/errors.js';
import { writeBatch } from '../journal/write-batch.js';
import { answer, dieIfAsked, onRequest, problemOf } from '../journal/writer-answers.js';
import type { WriterRequest } from '../journal/writer-protocol.js';
import { SqliteConnection } from './connection.js';
import { sqliteDialect } from './dialect.js';
import type { SqliteWriterSettings } from './sqlite-writer.js';

/** How long a transaction waits for another process. The thread of calls does not wait with it. */
const lockWaitMs = 100;
/** A transaction of the thread of calls that takes longer is rolled back, so that it cannot hold up every call's record. */
const transactionLimitMs = 5_000;

const { file, durability } = workerData as SqliteWriterSettings;
const connection = SqliteConnection.writing(file, durability);
const statements = new Statements(
  null,
  async (sql, parameters, want) => {
    dieIfAsked();
    return connection.execute(sql, parameters, want);
  },
  sqliteDialect,
);
const waiting: WriterRequest[] = [];
let isBusy = false;
/** The open transaction of the thread of calls. */
let open: { id: number; limit: NodeJS.Timeout } | null = null;

onRequest((request) => {
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
    answer(problemOf(request.id, error, sqliteCode(error) || null));
  }
  isBusy = false;
  void next();
}

async function carryOut(request: WriterRequest): Promise<unknown> {
  if (request.kind === 'batch') return writeBatch(together, request);
  if (request.kind === 'single')
    return together((transaction) => transaction.write(request.sql, ...request.parameters));
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
    answer(problemOf(request.id, error, sqliteCode(error) || null));
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

async function together<T>(work: (transaction: Statements) => Promise<T>): Promise<T> {
  connection.begin(lockWaitMs);
  try {
    const result = await work(statements);
    connection.commit();
    return result;
  } catch (error) {
    connection.rollback();
    throw error;
  }
}
