import dgram from 'node:dgram';
import { isIPv6 } from 'node:net';
import { listenError, type Path, type Receive } from './path.js';

/** Room for bursts while the thread is busy; the kernel may give less. */
const RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024;

export class UdpListener {
  readonly transport = 'udp';

  private constructor(
    private readonly socket: dgram.Socket,
    readonly host: string,
    readonly port: number,
  ) {}

  static open(host: string, port: number, receive: Receive): Promise<UdpListener> {
    // addresses are numeric here: nothing is to be looked up for a datagram
    const lookup: dgram.SocketOptions['lookup'] = (address, _options, found) =>
      found(null, address, isIPv6(address) ? 6 : 4);
    const socket = dgram.createSocket({ type: isIPv6(host) ? 'udp6' : 'udp4', ipv6Only: isIPv6(host), lookup });
    return new Promise((resolve, reject) => {
      const refuse = (error: NodeJS.ErrnoException) => {
        socket.close();
        reject(listenError('udp', host, port, error));
      };
      socket.once('error', refuse);
      socket.bind(port, host, () => {
        socket.off('error', refuse);
        // errors of single datagrams reach their senders' callbacks; nothing else may end the process
        socket.on('error', () => undefined);
        try {
          socket.setRecvBufferSize(RECEIVE_BUFFER_BYTES);
        } catch {
          // the kernel's own size stays
        }
        const listener = new UdpListener(socket, host, socket.address().port);
        socket.on('message', (bytes, from) => {
          if (from.port === 0) return;
          const back = listener.pathTo(from.address, from.port);
          receive(bytes, { transport: 'udp', address: from.address, port: from.port, back });
        });
        resolve(listener);
      });
    });
  }

  pathTo(address: string, port: number): Path {
    return {
      transport: 'udp',
      address,
      port,
      reliable: false,
      alive: true,
      localPort: this.port,
      boundHost: this.host,
      toward: (otherAddress, otherPort) => this.pathTo(otherAddress, otherPort),
      send: (bytes, failed) => {
        try {
          this.socket.send(bytes, port, address, failed ? (error) => error && failed(error) : undefined);
        } catch (error) {
          if (failed) setImmediate(failed, error as Error);
        }
      },
      onClosed: () => () => undefined,
    };
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.socket.close(() => resolve()));
  }
}
