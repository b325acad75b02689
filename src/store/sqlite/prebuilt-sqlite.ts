import { existsSync } from 'node:fs';
import type BetterSqlite3 from 'better-sqlite3';

/** The part of `@photostructure/sqlite` that is used here: node:sqlite's interface, with `enhance` of the package. */
interface NodeSqlite {
  DatabaseSync: new (
    file: string,
    options: { readOnly: boolean; timeout: number; enableForeignKeyConstraints: boolean; defensive: boolean },
  ) => NodeDatabase;
  /** Adds `pragma` and `transaction`, and `pluck` and `raw` to statements, as better-sqlite3 has them. */
  enhance(database: NodeDatabase): EnhancedDatabase;
}

interface NodeDatabase {
  readonly isOpen: boolean;
  readonly isTransaction: boolean;
  close(): void;
}

type Statement = BetterSqlite3.Statement<unknown[]>;

interface EnhancedDatabase extends NodeDatabase {
  prepare(sql: string): Statement;
  pragma(source: string): unknown;
}

type Driver = typeof BetterSqlite3;
type RunMethod = 'run' | 'get' | 'all';

/**
 * `@photostructure/sqlite` with better-sqlite3's interface, as far as the store uses it. That package carries binaries for Node 20, where
 * better-sqlite3 13 does not load and 12 would have to be compiled.
 */
export function prebuiltDriver({ DatabaseSync, enhance }: NodeSqlite): Driver {
  const open = (file: string, options: BetterSqlite3.Options = {}) => {
    if (options.fileMustExist && !existsSync(file)) throw new Error('unable to open database file');
    const database = enhance(
      new DatabaseSync(file, {
        readOnly: options.readonly ?? false,
        timeout: options.timeout ?? 5000,
        enableForeignKeyConstraints: true,
        defensive: false,
      }),
    );
    const prepare = database.prepare.bind(database);
    const close = database.close.bind(database);
    return Object.defineProperties(database, {
      inTransaction: { get: () => database.isTransaction },
      readonly: { value: options.readonly ?? false },
      prepare: { value: (sql: string) => withWholeTexts(prepare(sql)) },
      close: {
        value() {
          if (!database.isOpen) return;
          if (!options.readonly) bringLogIntoFile(database);
          close();
        },
      },
    });
  };
  // `new Driver(file)` answers the object that the constructor returns
  return function Driver(file: string, options?: BetterSqlite3.Options) {
    return open(file, options);
  } as unknown as Driver;
}

/**
 * SQLite does this itself when the last connection closes. Here a connection that is closed stays half open until the garbage collector has
 * taken its last statement, because this driver cannot finalize one earlier.
 */
function bringLogIntoFile(database: EnhancedDatabase): void {
  try {
    if (!database.isTransaction) database.pragma('wal_checkpoint(TRUNCATE)');
  } catch {
    // locked or full: the next one that opens the file finds the log beside it
  }
}

/** This driver ends a bound text at its first NUL, silently. The rest is kept, and the NUL becomes U+FFFD, which PostgreSQL's texts could hold too. */
function withWholeTexts(statement: Statement): Statement {
  for (const method of ['run', 'get', 'all'] as RunMethod[]) {
    const native = statement[method].bind(statement) as (...parameters: unknown[]) => unknown;
    Object.defineProperty(statement, method, {
      value: (...parameters: unknown[]) => {
        for (let i = 0; i < parameters.length; i++) {
          const parameter = parameters[i];
          if (typeof parameter === 'string' && parameter.includes('\0'))
            parameters[i] = parameter.replaceAll('\0', '\ufffd');
        }
        return native(...parameters);
      },
    });
  }
  return statement;
}
