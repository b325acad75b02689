import net from 'node:net';
import { expect } from 'vitest';
import { parseMessage, type SipMessage } from '../../sip/server/message/message.js';
import { StreamFramer } from '../../sip/server/transport/stream-framer.js';

/** A bare TCP connection to the server. */
export class TcpPeer {
  readonly received: SipMessage[] = [];
  readonly closed: Promise<void>;
  pongs = 0;
  private readonly framer = new StreamFramer({
    message: (bytes) => this.received.push(parseMessage(bytes)!),
    ping: () => undefined,
    broken: () => undefined,
  });
  private branches = 0;

  constructor(readonly socket: net.Socket) {
    socket.on('data', (bytes) => {
      if (bytes.toString() === '\r\n') this.pongs++;
      else this.framer.push(bytes);
    });
    socket.on('error', () => undefined);
    this.closed = new Promise((resolve) => socket.on('close', () => resolve()));
  }

  static connect(port: number): Promise<TcpPeer> {
    const socket = net.connect(port, '127.0.0.1');
    return new Promise((resolve) => socket.once('connect', () => resolve(new TcpPeer(socket))));
  }

  request(method: string, lines: Record<string, string> = {}, body = '', uri = 'sip:bob@127.0.0.1'): string {
    const headers = {
      Via: `SIP/2.0/TCP 127.0.0.1:5999;branch=z9hG4bK${this.socket.localPort}x${this.branches++}`,
      From: '<sip:alice@127.0.0.1>;tag=a',
      To: '<sip:bob@127.0.0.1>',
      'Call-ID': `tcp${this.socket.localPort}-${this.branches}`,
      CSeq: `1 ${method}`,
      Contact: '<sip:alice@127.0.0.1:5999;transport=tcp>',
      ...(body === '' ? {} : { 'Content-Type': 'application/sdp' }),
      'Content-Length': String(body.length),
      ...lines,
    };
    const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    return `${method} ${uri} SIP/2.0\r\n${head.join('')}\r\n${body}`;
  }

  async wait(test: (m: SipMessage) => boolean): Promise<SipMessage> {
    await expect.poll(() => this.received.some(test), { timeout: 10_000 }).toBe(true);
    return this.received.find(test)!;
  }

  final(method: string): Promise<SipMessage> {
    return this.wait((m) => m.kind === 'response' && m.status >= 200 && m.cseq?.method === method);
  }
}
