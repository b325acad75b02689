import dgram from 'node:dgram';
import { parseMessage, type SipMessage, SipRequest, SipResponse } from '../../sip/server/message/message.js';

/** A bare UDP socket that writes and reads SIP by hand, for what no well-behaved library would send. */
export class SipPeer {
  readonly received: SipMessage[] = [];
  private readonly waiting = new Set<() => void>();
  private branches = 0;
  /** Hears every message at once. */
  onMessage: (message: SipMessage) => void = () => undefined;

  /** Settles when the last datagram is out. The system gets it a tick after `send`, and a socket closed before that drops it. */
  private sent: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly socket: dgram.Socket,
    readonly port: number,
    private readonly serverPort: number,
  ) {
    socket.on('message', (bytes) => {
      const message = parseMessage(bytes);
      if (message) {
        this.received.push(message);
        this.onMessage(message);
      }
      for (const check of [...this.waiting]) check();
    });
  }

  static open(serverPort: number): Promise<SipPeer> {
    const socket = dgram.createSocket('udp4');
    return new Promise((resolve) =>
      socket.bind(0, '127.0.0.1', () => resolve(new SipPeer(socket, socket.address().port, serverPort))),
    );
  }

  send(text: string | Buffer): void {
    const bytes = typeof text === 'string' ? Buffer.from(text.replace(/\r?\n/g, '\r\n')) : text;
    this.sent = new Promise((resolve) => this.socket.send(bytes, this.serverPort, '127.0.0.1', resolve));
  }

  newBranch(): string {
    return `z9hG4bK${this.port}x${this.branches++}`;
  }

  /** A whole request; `lines` replace or add header lines, an empty value leaves one out. */
  request(
    method: string,
    lines: Record<string, string> = {},
    body = '',
    start = `${method} sip:bob@127.0.0.1:${this.serverPort} SIP/2.0`,
  ): string {
    const headers: Record<string, string> = {
      Via: `SIP/2.0/UDP 127.0.0.1:${this.port};branch=${this.newBranch()}`,
      From: `<sip:alice@127.0.0.1:${this.port}>;tag=a${this.port}`,
      To: `<sip:bob@127.0.0.1:${this.serverPort}>`,
      'Call-ID': `c${this.port}-${this.branches}`,
      CSeq: `1 ${method}`,
      'Max-Forwards': '70',
      Contact: `<sip:alice@127.0.0.1:${this.port}>`,
      ...(body === '' ? {} : { 'Content-Type': 'application/sdp' }),
      'Content-Length': String(Buffer.byteLength(body)),
      ...lines,
    };
    const head = Object.entries(headers).filter(([, value]) => value !== '');
    return `${start}\r\n${head.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n${body}`;
  }

  /** The first message, received already or within the limit, that passes the test. */
  async wait(test: (message: SipMessage) => boolean, limitMs = 10_000): Promise<SipMessage> {
    let check = (): void => undefined;
    const found = await new Promise<SipMessage | null>((resolve) => {
      const limit = setTimeout(() => resolve(null), limitMs);
      check = () => {
        const message = this.received.find(test);
        if (!message) return;
        clearTimeout(limit);
        resolve(message);
      };
      this.waiting.add(check);
      check();
    });
    this.waiting.delete(check);
    if (!found)
      throw new Error(
        `Not received within ${limitMs} ms; received: ${this.received.map((m) => m.startLine).join(' / ')}`,
      );
    return found;
  }

  async response(status: number, method?: string): Promise<SipResponse> {
    return (await this.wait(
      (m) => m instanceof SipResponse && m.status === status && (!method || m.cseq?.method === method),
    )) as SipResponse;
  }

  async requestOf(method: string): Promise<SipRequest> {
    return (await this.wait((m) => m instanceof SipRequest && m.method === method)) as SipRequest;
  }

  count(test: (message: SipMessage) => boolean): number {
    return this.received.filter(test).length;
  }

  /** The response to a request received, with a tag. */
  respond(request: SipRequest, status: number, lines: Record<string, string> = {}, body = '', tag = 'peer'): void {
    const to = request.toTag === '' && status > 100 ? `${request.get('to')};tag=${tag}` : request.get('to');
    const head = [
      ...request.list('via').map((via) => `Via: ${via}`),
      `From: ${request.get('from')}`,
      `To: ${to}`,
      `Call-ID: ${request.callId}`,
      `CSeq: ${request.get('cseq')}`,
      ...Object.entries(lines).map(([name, value]) => `${name}: ${value}`),
      ...(body === '' ? [] : ['Content-Type: application/sdp']),
      `Content-Length: ${Buffer.byteLength(body)}`,
    ];
    this.send(`SIP/2.0 ${status} Reason\r\n${head.join('\r\n')}\r\n\r\n${body}`);
  }

  async close(): Promise<void> {
    await this.sent;
    await new Promise<void>((resolve) => this.socket.close(() => resolve()));
  }
}
