/** A webhook server that sends callers to conferences, a few to each. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Callers of one conference: the first waits for the second in silence. */
const callersEach = 4;

export interface ConferenceHost {
  url: string;
  close(): void;
}

export async function openConferenceHost(): Promise<ConferenceHost> {
  let calls = 0;
  const server = createServer((request, response) => {
    request.resume();
    request.once('end', () => {
      const name = `soak-${Math.floor(calls++ / callersEach)}`;
      const conference = { action: 'conference', name, beep: 'none', wait_url: '' };
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ actions: [conference] }));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
