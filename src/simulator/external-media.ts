/** Asks the FreeSWITCH servers of the settings for their facts, without placing calls. */
import { type EventSocketAddress, nameOf, openEventSocket } from '../../media/freeswitch/event-socket.js';
import { type MediaServerFacts, readFacts } from '../../media/freeswitch/server-facts.js';

export interface MediaServerReport {
  /** `host:port` of its event socket. */
  server: string;
  facts: MediaServerFacts | null;
  /** Why there are no facts, or what the server lacks; null: it is usable. */
  problem: string | null;
}

const connectLimitMs = 2000;

/** Asks all servers at once. */
export function askMediaServers(servers: readonly EventSocketAddress[]): Promise<MediaServerReport[]> {
  return Promise.all(
    servers.map(async (address) => {
      const server = `${address.host}:${address.port}`;
      try {
        const socket = await openEventSocket(address, connectLimitMs, new AbortController().signal);
        try {
          return { server, facts: await readFacts(socket, nameOf(address)), problem: null };
        } finally {
          socket.close();
        }
      } catch (error) {
        return { server, facts: null, problem: error instanceof Error ? error.message : String(error) };
      }
    }),
  );
}
