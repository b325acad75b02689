import { StoreError } from '../database/errors.js';

/**
 * SQLSTATEs that describe the moment and not the statement: connection lost (08), transaction rolled back by another (40), no resources (53),
 * object in use or locked (55), stopped by an operator or a time-out (57), device error (58), idle in a transaction (25P03), read-only (25006).
 */
const passing = /^(08|40|53|55|57|58|25P03|25006)/;
/** Of Node's sockets and of the driver, which gives its own errors no code. */
const lostConnection =
  /ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ENOENT|timeout|terminated|Connection|not queryable/i;

export function isPassing(error: unknown): boolean {
  if (error instanceof StoreError) return error.code === 'unavailable';
  const { code, message } = error as { code?: string; message?: string };
  if (code !== undefined && /^[0-9A-Z]{5}$/.test(code) && /\d/.test(code)) return passing.test(code);
  return lostConnection.test(`${code ?? ''} ${message ?? ''}`);
}

/** After these a connection is of no use any more. */
export function isLost(error: unknown): boolean {
  const { code } = error as { code?: string };
  return code === undefined || !/^[0-9A-Z]{5}$/.test(code) || !/\d/.test(code) || /^(08|57P|25P03)/.test(code);
}

/** `StoreError` `unavailable` for an error of the moment, otherwise the error itself. */
export function storeError(error: unknown): unknown {
  if (error instanceof StoreError || !isPassing(error)) return error;
  return new StoreError('unavailable', 'The database cannot be used right now', {}, { cause: error });
}

/** Why a start fails, in a sentence; `where` is the address without its password. */
export function startError(error: unknown, where: string): StoreError {
  if (error instanceof StoreError) return error;
  const { code = '', message } = error as { code?: string; message: string };
  return new StoreError('cannot_open', `${reason(code, message)} (${where})`, {}, { cause: error });
}

function reason(code: string, message: string): string {
  if (code === '28P01' || code === '28000' || /password must be a string/.test(message))
    return `PostgreSQL refuses the user or the password of database_url: ${message}`;
  if (code === '3D000') return `PostgreSQL has no such database; create it with createdb: ${message}`;
  if (code === '42501') return `The user of database_url may not create or use the tables: ${message}`;
  if (code.startsWith('23'))
    return `PostgreSQL refuses a row that SQLite had accepted: ${message}; trunkline db check says what is wrong in the SQLite file`;
  if (code === 'ECONNREFUSED' || code === 'ENOENT') return `No PostgreSQL server answers: ${message}`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `The host of database_url is not known: ${message}`;
  if (/timeout/i.test(message)) return 'The PostgreSQL server does not answer in time';
  if (/certificate|self.signed/i.test(message))
    return `The certificate of the PostgreSQL server is not trusted: ${message}; database_url names its authority with sslrootcert=FILE`;
  if (/SSL|TLS/.test(message)) return `The TLS connection to PostgreSQL fails: ${message}`;
  return `Cannot open the PostgreSQL database: ${message}`;
}
