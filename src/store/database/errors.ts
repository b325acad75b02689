/** The expected errors of the store. Any other error is a defect. */
export class StoreError extends Error {
  constructor(
    /**
     * `unavailable`: the database is locked, full or unreadable for now; trying again later may work.
     * `newer_schema`: the file was written by a newer version. `no_driver`: no SQLite driver loads on this machine.
     * `number_taken`: the phone number exists already in this mode. `unknown_endpoint`: an endpoint named in a record is not the organization's.
     * `too_slow`, `too_many`: a long question took longer than it may, or there are as many as may be asked at once.
     * `name_taken`: another process runs under this node name.
     * `secrets_key`: what is encrypted in the file cannot be read with the key of the settings, or without one.
     */
    readonly code:
      | 'unavailable'
      | 'newer_schema'
      | 'no_driver'
      | 'cannot_open'
      | 'number_taken'
      | 'unknown_endpoint'
      | 'too_slow'
      | 'too_many'
      | 'name_taken'
      | 'secrets_key',
    message: string,
    readonly details: Record<string, unknown> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'StoreError';
  }
}

/** SQLite result codes that describe the moment and not the statement: locked by another process, disk full, device error. */
const passing = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|CANTOPEN|READONLY|PROTOCOL|NOMEM)/;

export function isPassing(error: unknown): boolean {
  return passing.test(sqliteCode(error));
}

/** The texts that SQLite has for these codes. */
const codeOfText: readonly [text: RegExp, code: string][] = [
  [/^database is locked/, 'SQLITE_BUSY'],
  [/^database (table|schema) is locked/, 'SQLITE_LOCKED'],
  [/^database or disk is full/, 'SQLITE_FULL'],
  [/^disk I\/O error/, 'SQLITE_IOERR'],
  [/^unable to open database file/, 'SQLITE_CANTOPEN'],
  [/^attempt to write a readonly database/, 'SQLITE_READONLY'],
  [/^locking protocol/, 'SQLITE_PROTOCOL'],
  [/^out of memory/, 'SQLITE_NOMEM'],
];

/**
 * SQLite's name of the result code: better-sqlite3 has it in `code`, `@photostructure/sqlite` in `sqliteCodeName`, but not with
 * every error: then only the text tells.
 */
export function sqliteCode(error: unknown): string {
  const { code, sqliteCodeName, message } = (error ?? {}) as {
    code?: unknown;
    sqliteCodeName?: unknown;
    message?: unknown;
  };
  const name = sqliteCodeName ?? code;
  if (typeof name === 'string' && name.startsWith('SQLITE_')) return name;
  const known = typeof message === 'string' ? codeOfText.find(([text]) => text.test(message)) : undefined;
  return known?.[1] ?? (typeof name === 'string' ? name : '');
}
