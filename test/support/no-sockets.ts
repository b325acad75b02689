/** Setup of the files in `test/unit`: each fails when it opens a socket. Those that need one are in `test/integration`. */
import { Socket as UdpSocket } from 'node:dgram';
import { Server, Socket } from 'node:net';
import { afterAll, expect } from 'vitest';

const opened = new Set<string>();

function forbid(owner: object, method: string, what: string): void {
  Object.defineProperty(owner, method, {
    configurable: true,
    writable: true,
    value: () => {
      opened.add(what);
      throw new Error(`A test in test/unit ${what}. Move it to test/integration.`);
    },
  });
}

forbid(Server.prototype, 'listen', 'listens on a port');
forbid(Socket.prototype, 'connect', 'connects a socket');
forbid(UdpSocket.prototype, 'bind', 'binds a UDP socket');
forbid(UdpSocket.prototype, 'send', 'sends a datagram');

// the error above may be caught by the code under test, which is built for networks that fail
afterAll(() => expect([...opened]).toEqual([]));
