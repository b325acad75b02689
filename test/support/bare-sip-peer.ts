/** A SIP peer of bare datagrams, for what no well-behaved stack would do: lost ACKs, races, strange headers. It answers nothing by itself. */
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { readHeaders } from '../../sip/drachtio/header.js';

export interface PeerMessage {
  text: string;
  startLine: string;
  /** Of a request. */
  method: string;
  /** Of a response, else 0. */
  status: number;
  body: string;
  header(name: string): string;
  all(name: string): readonly string[];
}

export interface OutgoingInvite {
  callId: string;
  branch: string;
  from: string;
  to: string;
  uri: string;
  cseq: number;
}

export const someSdp = [
  ...['v=0', 'o=- 1 1 IN IP4 127.0.0.1', 's=-', 'c=IN IP4 127.0.0.1', 't=0 0', 'm=audio 40000 RTP/AVP 0'],
  ...['a=rtpmap:0 PCMU/8000', 'a=sendrecv', ''],
].join('\r\n');

export class SipPeer {
  readonly received: PeerMessage[] = [];
  /** Settles when the last datagram is out. The system gets it a tick after `send`, and a socket closed before that drops it. */
  #sent: Promise<unknown> = Promise.resolve();
  readonly #waiting: { matches(message: PeerMessage): boolean; resolve(message: PeerMessage): void }[] = [];

  private constructor(
    private readonly socket: Socket,
    /** Where the peer sends its requests. */
    public serverPort: number,
  ) {
    const seen = new Set<string>();
    socket.on('message', (bytes) => {
      const text = bytes.toString();
      if (seen.has(text)) return; // a retransmission, which only a slow test sees
      seen.add(text);
      const message = parse(text);
      const index = this.#waiting.findIndex((waiter) => waiter.matches(message));
      if (index >= 0) this.#waiting.splice(index, 1)[0]?.resolve(message);
      else this.received.push(message);
    });
  }

  static open(serverPort: number, address = '127.0.0.1'): Promise<SipPeer> {
    const socket = createSocket('udp4');
    return new Promise((resolve, reject) => {
      socket.once('error', reject);
      socket.bind(0, address, () => resolve(new SipPeer(socket, serverPort)));
    });
  }

  get port(): number {
    return this.socket.address().port;
  }

  get contact(): string {
    return `<sip:peer@127.0.0.1:${this.port}>`;
  }

  send(text: string): void {
    this.#sent = new Promise((resolve) => this.socket.send(text, this.serverPort, '127.0.0.1', resolve));
  }

  /** The next message of one of these kinds (a method or a status), also one that came before and was not taken. */
  next(kinds: string | number | readonly (string | number)[], limitMs = 8000): Promise<PeerMessage> {
    const wanted = [kinds].flat();
    const matches = (message: PeerMessage) => wanted.includes(message.status || message.method);
    const index = this.received.findIndex(matches);
    if (index >= 0) return Promise.resolve(this.received.splice(index, 1)[0] as PeerMessage);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        const seen = this.received.map((message) => message.startLine).join(' | ');
        reject(new Error(`No ${kinds} within ${limitMs} ms; waiting: ${seen || 'nothing'}`));
      }, limitMs);
      this.#waiting.push({
        matches,
        resolve: (message) => {
          clearTimeout(timer);
          resolve(message);
        },
      });
    });
  }

  /** Sends an INVITE and returns what ACK, CANCEL and BYE need. */
  invite(
    options: { user?: string; sdp?: string | null; lines?: string[]; contact?: boolean; contentType?: string } = {},
  ): OutgoingInvite {
    const invite: OutgoingInvite = {
      callId: randomBytes(8).toString('hex'),
      branch: branch(),
      from: `<sip:+15550001111@127.0.0.1>;tag=${randomBytes(4).toString('hex')}`,
      to: `<sip:${options.user ?? '+15552223333'}@127.0.0.1>`,
      uri: `sip:${options.user ?? '+15552223333'}@127.0.0.1:${this.serverPort}`,
      cseq: 1,
    };
    const sdp = options.sdp === undefined ? someSdp : options.sdp;
    const contact = options.contact === false ? [] : [`Contact: ${this.contact}`];
    this.request(
      'INVITE',
      invite,
      [...contact, ...(options.lines ?? [])],
      sdp ?? '',
      undefined,
      1,
      options.contentType,
    );
    return invite;
  }

  /** A request with the identity of an INVITE; `answer` puts it into the dialog. */
  request(
    method: string,
    invite: OutgoingInvite,
    lines: string[] = [],
    body = '',
    answer?: PeerMessage,
    cseq = invite.cseq,
    contentType = 'application/sdp',
  ): void {
    const inDialog = answer !== undefined;
    const sameTransaction = method === 'INVITE' || method === 'CANCEL';
    const contact = /<([^>]+)>/.exec(answer?.header('contact') ?? '')?.[1];
    this.send(
      [
        `${method} ${contact ?? invite.uri} SIP/2.0`,
        `Via: SIP/2.0/UDP 127.0.0.1:${this.port};branch=${sameTransaction && !inDialog ? invite.branch : branch()};rport`,
        'Max-Forwards: 70',
        `From: ${invite.from}`,
        `To: ${answer?.header('to') ?? invite.to}`,
        `Call-ID: ${invite.callId}`,
        `CSeq: ${cseq} ${method}`,
        ...lines,
        ...(body ? [`Content-Type: ${contentType}`] : []),
        `Content-Length: ${Buffer.byteLength(body)}`,
        '',
        body,
      ].join('\r\n'),
    );
  }

  /** ACK of a final response that is not a 2xx: the same transaction. */
  ackFailure(invite: OutgoingInvite, answer: PeerMessage): void {
    this.send(
      [
        `ACK ${invite.uri} SIP/2.0`,
        `Via: SIP/2.0/UDP 127.0.0.1:${this.port};branch=${invite.branch};rport`,
        'Max-Forwards: 70',
        `From: ${invite.from}`,
        `To: ${answer.header('to')}`,
        `Call-ID: ${invite.callId}`,
        `CSeq: ${invite.cseq} ACK`,
        'Content-Length: 0',
        '',
        '',
      ].join('\r\n'),
    );
  }

  /** A response to a request that came. */
  respond(request: PeerMessage, status: number, lines: string[] = [], body = '', tag = 'peer-tag'): void {
    const to = request.header('to');
    this.send(
      [
        `SIP/2.0 ${status} Some reason`,
        ...request.all('via').map((via) => `Via: ${via}`),
        ...request.all('record-route').map((route) => `Record-Route: ${route}`),
        `From: ${request.header('from')}`,
        `To: ${/;tag=/.test(to) || status === 100 ? to : `${to};tag=${tag}`}`,
        `Call-ID: ${request.header('call-id')}`,
        `CSeq: ${request.header('cseq')}`,
        ...lines,
        ...(body ? ['Content-Type: application/sdp'] : []),
        `Content-Length: ${Buffer.byteLength(body)}`,
        '',
        body,
      ].join('\r\n'),
    );
  }

  async close(): Promise<void> {
    await this.#sent;
    await new Promise<void>((resolve) => this.socket.close(() => resolve()));
  }
}

function branch(): string {
  return `z9hG4bK${randomBytes(8).toString('hex')}`;
}

function parse(text: string): PeerMessage {
  const headers = readHeaders(text);
  const startLine = text.slice(0, text.indexOf('\r\n'));
  const status = Number(/^SIP\/2\.0 (\d{3})/.exec(startLine)?.[1] ?? 0);
  return {
    text,
    startLine,
    status,
    method: status ? '' : (startLine.split(' ')[0] ?? ''),
    body: text.slice(text.indexOf('\r\n\r\n') + 4),
    header: (name) => headers.get(name)?.[0] ?? '',
    all: (name) => headers.get(name) ?? [],
  };
}
