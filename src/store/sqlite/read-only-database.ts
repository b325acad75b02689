import { type Database, type Reads, Statements } from '../database/database.js';
import { SqliteConnection } from './connection.js';
import { sqliteDialect } from './dialect.js';
import { sqliteQueries } from './queries.js';

/** A file read by one asker at a time, in a thread of its own. */
export class ReadOnlyDatabase extends Statements implements Database {
  readonly #connection: SqliteConnection;

  constructor(file: string) {
    const connection = SqliteConnection.reading(file);
    super(sqliteQueries, async (text, parameters, want) => connection.execute(text, parameters, want), sqliteDialect);
    this.#connection = connection;
  }

  transaction(): Promise<never> {
    return Promise.reject(new Error('this connection cannot write'));
  }

  async snapshot<T>(work: (reads: Reads) => Promise<T>): Promise<T> {
    if (this.#connection.inTransaction) return work(this); // within a snapshot already
    this.#connection.beginReading();
    try {
      return await work(this);
    } finally {
      this.#connection.commit();
    }
  }

  remembered(): never {
    throw new Error('this connection remembers nothing');
  }
}
