import { createSocket } from 'node:dgram';
import { isIPv6 } from 'node:net';

/**
 * The source address that the kernel would choose for a peer, an IP address; null when there is no route to it. Connecting a datagram socket
 * consults the routing table and sends nothing.
 */
export function routedAddress(peer: string): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(peer) ? 'udp6' : 'udp4');
    const done = (address: string | null) => {
      socket.close();
      resolve(address);
    };
    socket.once('error', () => done(null));
    // without a route the callback gets an error, and the socket has the address of no interface
    socket.connect(9, peer, (error?: Error) => done(error ? null : addressOf(socket)));
  });
}

/** null: the route disappeared since. */
function addressOf(socket: ReturnType<typeof createSocket>): string | null {
  try {
    return socket.address().address;
  } catch {
    return null;
  }
}
