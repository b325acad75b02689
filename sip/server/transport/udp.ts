import dgram from 'node:dgram';
import { isIPv6 } from 'node:net';
import { listenError, type Path, type Receive } from './path.js';

/** Room for bursts while the thread is busy; the kernel may grant less. */
const RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024;

export class UdpListener {
  readonly transport = 'udp';

  private constructor(
    private readonly socket: dgram.Socket,
    readonly host: string,
    readonly port: number,
    private readonly lostMethods: readonly string[],
  ) {}

  /** `lostMethods`: methods whose requests are dropped instead of sent. */
  static open(host: string, port: number, receive: Receive, lostMethods: readonly string[] = []): Promise<UdpListener> {
    const isV6 = isIPv6(host);
    const family = isV6 ? 6 : 4;
    // addresses are numeric here, and of the socket's family: no look-up per datagram
    const lookup: dgram.SocketOptions['lookup'] = (address, _options, found) => found(null, address, family);
    const socket = dgram.createSocket({ type: `udp${family}`, ipv6Only: isV6, lookup });
    return new Promise((resolve, reject) => {
      const refuse = (error: NodeJS.ErrnoException) => {
        socket.close();
        reject(listenError('udp', host, port, error));
      };
      socket.once('error', refuse);
      socket.bind(port, host, () => {
        socket.off('error', refuse);
        // errors of single datagrams reach their senders' callbacks; an unhandled one would end the process
        socket.on('error', () => undefined);
        try {
          socket.setRecvBufferSize(RECEIVE_BUFFER_BYTES);
        } catch {
          // the kernel's default size remains
        }
        const listener = new UdpListener(socket, host, socket.address().port, lostMethods);
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
    return new UdpPath(this, address, port);
  }

  send(bytes: Buffer, address: string, port: number, failed?: (error: Error) => void): void {
    if (this.lostMethods.some((method) => bytes.toString('latin1', 0, method.length + 1) === `${method} `)) return;
    try {
      this.socket.send(bytes, port, address, failed ? (error) => error && failed(error) : undefined);
    } catch (error) {
      if (failed) setImmediate(failed, error as Error);
    }
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.socket.close(() => resolve()));
  }
}

/** Small, since every transaction keeps one or two. */
class UdpPath implements Path {
  readonly transport = 'udp';
  readonly reliable = false;
  readonly tls = null;
  readonly alive = true;

  constructor(
    private readonly listener: UdpListener,
    readonly address: string,
    readonly port: number,
  ) {}

  get localPort(): number {
    return this.listener.port;
  }
  get boundHost(): string {
    return this.listener.host;
  }

  toward(address: string, port: number): Path {
    return this.listener.pathTo(address, port);
  }

  send(bytes: Buffer, failed?: (error: Error) => void): void {
    this.listener.send(bytes, this.address, this.port, failed);
  }

  onClosed(): () => void {
    return () => undefined;
  }
}
