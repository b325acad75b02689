/** Runs in a thread of its own: writes what calls write, on a connection of its own. */
import { workerData } from 'node:worker_threads';
import pg from 'pg';
import type { Execute } from '../database/database.js';
import { writeBatch } from '../journal/write-batch.js';
import { answerRequests, dieIfAsked } from '../journal/writer-answers.js';
import type { WriterData, WriterRequest } from '../journal/writer-protocol.js';
import { clientConfig, executing } from './connections.js';
import { storeError } from './errors.js';
import { type BigintColumns, bigintColumns, together } from './transaction.js';

export interface PostgresWriterSettings {
  url: string;
}

interface Connected {
  client: pg.Client;
  execute: Execute;
  bigints: BigintColumns;
}

/** For the answer to `close`, and for the goodbye to the server. */
const lastWordsMs = 50;

const { url } = workerData as PostgresWriterSettings & WriterData;
let current: Connected | null = null;

answerRequests(async (request: WriterRequest): Promise<unknown> => {
  if (request.kind === 'batch') {
    const { execute, bigints } = current ?? (await connect());
    return writeBatch((work) => together(execute, bigints, work), request);
  }
  void forget();
  setTimeout(() => process.exit(0), lastWordsMs); // ends this thread, whatever its connection waits for
  return null;
});

let connecting: Promise<Connected> | null = null;

function connect(): Promise<Connected> {
  connecting ??= openConnection().finally(() => {
    connecting = null;
  });
  return connecting;
}

connect().catch(() => {}); // ready before the first batch; that one tries again

async function openConnection(): Promise<Connected> {
  const client = new pg.Client(clientConfig({ url, name: 'trunkline journal' }));
  const lost = () => {
    if (current?.client === client) void forget();
  };
  client.on('error', lost);
  try {
    await client.connect();
    const onServer = executing(client, lost);
    const execute: Execute = (sql, parameters, want) => {
      dieIfAsked();
      return onServer(sql, parameters, want);
    };
    current = { client, execute, bigints: await bigintColumns(execute) };
    return current;
  } catch (error) {
    client.end().catch(() => {});
    throw storeError(error);
  }
}

async function forget(): Promise<void> {
  const { client } = current ?? {};
  current = null;
  await client?.end().catch(() => {});
}
