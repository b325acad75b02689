/** Reads an external SIP server's advertised addresses, without taking calls from it. */
import { openControlLink, type ServerAddress } from './connection.js';

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** The server's version and contacts as it reports them. Rejects with one clear sentence (not reachable, wrong secret, no answer within `limitMs`). */
export async function contactsOf(
  server: { host: string; port: number; secret: string },
  limitMs: number,
): Promise<{ version: string; contacts: readonly ServerAddress[] }> {
  const link = await openControlLink({
    ...server,
    limitMs,
    log: silent,
    signal: new AbortController().signal,
    wire: () => {},
    onMessage: () => {},
    onLost: () => {},
    onRestored: () => {},
  });
  link.close();
  return { version: link.version, contacts: link.contacts };
}
