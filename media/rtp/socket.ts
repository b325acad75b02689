/** A bound pair of UDP sockets for RTP and RTCP, with SRTP. Socket errors are counted and never thrown after binding. */
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { looksLikeRtcp } from './packet.js';
import { Srtp } from './srtp/srtp.js';
import { type SrtpSuite, srtpOverheadBytes } from './srtp/srtp-suites.js';

export interface RtpSocketHandlers {
  rtp(packet: Uint8Array, from: RemoteInfo): void;
  rtcp(packet: Uint8Array, from: RemoteInfo): void;
  /** A packet that is not authentic or was replayed. */
  refused?(): void;
}

/** Keys of both directions (SRTP). */
export interface SocketKeys {
  suite: SrtpSuite;
  send: Uint8Array;
  receive: Uint8Array;
}

/** Holds a second of one stream; a flood overflows here and not in our memory. */
const receiveBufferBytes = 131_072;

/** Node resolves even literal addresses, with a callback in a later tick; our addresses are always literal. */
const literalAddress = (
  address: string,
  _options: unknown,
  callback: (error: null, address: string, family: number) => void,
): void => callback(null, address, 4);

export class RtpSocketPair {
  sendErrors = 0;
  private handlers: RtpSocketHandlers | null = null;
  private srtp: SrtpSockets | null = null;
  private closed = false;

  private constructor(
    private readonly rtp: Socket,
    private readonly rtcp: Socket,
    readonly rtpPort: number,
  ) {
    rtp.on('message', (packet, from) => {
      if (this.srtp) this.secured(this.srtp, 'rtp', packet, from);
      else this.handlers?.rtp(packet, from);
    });
    rtcp.on('message', (packet, from) => {
      if (this.srtp) this.secured(this.srtp, 'rtcp', packet, from);
      else this.handlers?.rtcp(packet, from);
    });
    for (const socket of [rtp, rtcp]) {
      socket.on('error', () => {
        this.sendErrors += 1;
      });
    }
  }

  /** `port` is even; RTCP uses the next one. Resolves null when one of them is taken. Rejects when the address is not local. */
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

  /** Sets the receiver of packets; null drops them. */
  deliverTo(handlers: RtpSocketHandlers | null): void {
    this.handlers = handlers;
  }

  /** Encrypts both directions with these keys from now on; null turns encryption off. Equal keys keep their SRTP state. */
  secure(keys: SocketKeys | null): void {
    this.srtp = keys && (this.srtp?.renewed(keys) ?? new SrtpSockets(keys));
  }

  /** False when the kernel has not taken the bytes yet: they must stay as they are. */
  sendRtp(packet: Uint8Array, port: number, address: string): boolean {
    if (this.srtp) {
      const secured = this.srtp.protect(packet, packet.length);
      if (secured > 0) this.send(this.rtp, this.srtp.secured.subarray(0, secured), port, address);
      return true;
    }
    this.send(this.rtp, packet, port, address);
    return this.closed || this.rtp.getSendQueueCount() === 0;
  }

  /** `muxed`: over the RTP socket (RFC 5761). */
  sendRtcp(bytes: Uint8Array, port: number, address: string, muxed = false): void {
    const out = this.srtp ? this.srtp.send.protectRtcp(bytes) : bytes;
    this.send(muxed ? this.rtp : this.rtcp, out, port, address);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.handlers = null;
    this.rtp.close();
    this.rtcp.close();
  }

  private secured(srtp: SrtpSockets, kind: 'rtp' | 'rtcp', packet: Buffer, from: RemoteInfo): void {
    const { handlers } = this;
    if (!handlers) return;
    const isRtcp = kind === 'rtcp' || looksLikeRtcp(packet);
    const length = isRtcp ? srtp.receive.unprotectRtcp(packet) : srtp.receive.unprotect(packet);
    if (length < 0) handlers.refused?.();
    else handlers[kind](packet.subarray(0, length), from);
  }

  private send(socket: Socket, bytes: Uint8Array, port: number, address: string): void {
    if (this.closed) return;
    try {
      // Without offset and length, which would make another view of the bytes.
      socket.send(bytes, port, address);
    } catch {
      this.sendErrors += 1;
    }
  }
}

/** Number of buffers: a packet that the kernel does not take at once must not be overwritten by the next. */
const buffers = 8;
/** 60 ms of G.711 with its header and what protection adds. */
const bufferBytes = 512 + srtpOverheadBytes;

class SrtpSockets {
  readonly send: Srtp;
  readonly receive: Srtp;
  /** The packet that `protect` made. */
  secured = new Uint8Array(0);
  private next = 0;
  private readonly ring = Array.from({ length: buffers }, () => new Uint8Array(bufferBytes));

  constructor(
    private readonly keys: SocketKeys,
    before?: SrtpSockets,
  ) {
    // A key that stays keeps its packet index: no index may be used twice with one key.
    const keeps = (way: 'send' | 'receive') => before?.keys.suite === keys.suite && same(before.keys[way], keys[way]);
    this.send = keeps('send') && before ? before.send : new Srtp(keys.suite, keys.send);
    this.receive = keeps('receive') && before ? before.receive : new Srtp(keys.suite, keys.receive);
  }

  renewed(keys: SocketKeys): SrtpSockets {
    return new SrtpSockets(keys, this);
  }

  /** Returns the length of `secured`; 0 when nothing may be sent. */
  protect(packet: Uint8Array, length: number): number {
    if (length + srtpOverheadBytes > bufferBytes) return 0;
    this.secured = this.ring[this.next]!;
    this.next = (this.next + 1) % buffers;
    return this.send.protect(packet, length, this.secured);
  }
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
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
