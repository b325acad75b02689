import { builtModule } from '../../../config/built.js';
import { type Execute, Statements } from '../database/database.js';
import { WriterThread } from '../journal/writer-thread.js';
import type { Durability } from './connection.js';
import { sqliteDialect } from './dialect.js';
import { sqliteQueries } from './queries.js';

export interface SqliteWriterSettings {
  file: string;
  durability: Durability;
}

/** A transaction that runs in the thread that writes, statement by statement. */
export interface RemoteTransaction {
  statements: Statements;
  /** Rejects if the commit fails; the transaction is over in any case. */
  end(commit: boolean): Promise<void>;
}

/** The thread with the one connection of this process that writes the file. */
export class SqliteWriter extends WriterThread {
  constructor(settings: SqliteWriterSettings, onDeath?: (reason: string) => void) {
    super(builtModule(import.meta.url, './writer-worker.ts'), settings, onDeath);
  }

  single(sql: string, parameters: readonly unknown[]): Promise<number> {
    return this.ask({ kind: 'single', sql, parameters }) as Promise<number>;
  }

  async begin(): Promise<RemoteTransaction> {
    const transaction = this.nextId; // the number of the next request
    await this.ask({ kind: 'begin' });
    const execute: Execute = (sql, parameters, want) =>
      this.ask({ kind: 'statement', transaction, sql, parameters, want });
    return {
      statements: new Statements(sqliteQueries, execute, sqliteDialect),
      end: async (commit) => {
        await this.ask({ kind: 'end', transaction, commit });
      },
    };
  }
}
