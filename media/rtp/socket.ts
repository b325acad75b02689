/** A bound pair of UDP sockets. Errors never leave it as exceptions: they are counted or end the binding. */
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';

export interface RtpSocketHandlers {
  rtp(packet: Uint8Array, from: RemoteInfo): void;
  rtcp(packet: Uint8Array, from: RemoteInfo): void;
}

/** Enough for a second of one stream; a flood overflows here and not in our memory. */
const receiveBufferBytes = 131_072;

/** Node resolves even literal addresses through a callback of a later tick; ours are always literal. */
const literalAddress = (
  address: string,
  _options: unknown,
  callback: (error: null, address: string, family: number) => void,
): void => callback(null, address, 4);

export class RtpSocketPair {
  sendErrors = 0;
  private handlers: RtpSocketHandlers | null = null;
  private closed = false;

  private constructor(
    private readonly rtp: Socket,
    private readonly rtcp: Socket,
    readonly rtpPort: number,
  ) {
    rtp.on('message', (packet, from) => this.handlers?.rtp(packet, from));
    rtcp.on('message', (packet, from) => this.handlers?.rtcp(packet, from));
    for (const socket of [rtp, rtcp]) {
      socket.on('error', () => {
        this.sendErrors += 1;
      });
    }
  }

  /** `port` is even; its successor is for RTCP. Resolves null when one of them is taken. Rejects when the address is not ours. */
  static async bind(address: string, port: number): Promise<RtpSocketPair | null> {
    const rtp = await bindOne(address, port);
    if (!rtp) return null;
    let rtcp: Socket | null = null;
    try {
      rtcp = await bindOne(address, port + 1);
    } finally {
      if (!rtcp) rtp.close();
    }
    return rtcp && new RtpSocketPair(rtp, rtcp, port);
  }

  /** Who gets the packets from now on; null drops them. */
  deliverTo(handlers: RtpSocketHandlers | null): void {
    this.handlers = handlers;
  }

  /** The bytes may be reused afterwards: the kernel has them, or they were dropped. */
  sendRtp(bytes: Uint8Array, length: number, port: number, address: string): void {
    this.send(this.rtp, bytes, length, port, address);
  }

  sendRtcp(bytes: Uint8Array, port: number, address: string): void {
    this.send(this.rtcp, bytes, bytes.length, port, address);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.handlers = null;
    this.rtp.close();
    this.rtcp.close();
  }

  private send(socket: Socket, bytes: Uint8Array, length: number, port: number, address: string): void {
    if (this.closed) return;
    try {
      socket.send(bytes, 0, length, port, address);
    } catch {
      this.sendErrors += 1;
    }
  }
}

function bindOne(address: string, port: number): Promise<Socket | null> {
  return new Promise((resolve, reject) => {
    const socket = createSocket({ type: 'udp4', recvBufferSize: receiveBufferBytes, lookup: literalAddress });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      socket.close();
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(null);
      else reject(error);
    });
    socket.bind({ port, address, exclusive: true }, () => {
      socket.removeAllListeners('error');
      resolve(socket);
    });
  });
}
