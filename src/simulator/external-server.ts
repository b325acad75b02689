/** Where a phone on this machine reaches the external SIP servers of the settings. */
import { contactsOf } from '../../sip/drachtio/contacts.js';

export interface ServerContacts {
  /** `host:port` of its control port. */
  server: string;
  /** As the server reports it: `v0.9.10`; empty without an answer. */
  version: string;
  contacts: readonly { transport: string; host: string; port: number }[];
  /** Why there are no addresses; null: there are. */
  problem: string | null;
}

const answerLimitMs = 2000;

/** Asks all servers at once for version and addresses, each with a limit of two seconds. */
export function askExternalServers(
  servers: readonly { host: string; port: number; secret: string }[],
): Promise<ServerContacts[]> {
  return Promise.all(
    servers.map(async (server) => {
      const name = `${server.host}:${server.port}`;
      try {
        return { server: name, ...(await contactsOf(server, answerLimitMs)), problem: null };
      } catch (error) {
        return {
          server: name,
          version: '',
          contacts: [],
          problem: error instanceof Error ? error.message : String(error),
        };
      }
    }),
  );
}
