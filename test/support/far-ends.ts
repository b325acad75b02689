/**
 * Many far ends behind one UDP socket, written by hand: each call does as its test says and keeps what came of it, so that
 * `invariants.ts` can ask whether every far end was told how its call ended.
 */
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { parseMessage, type SipMessage, SipRequest, SipResponse } from '../../sip/server/message/message.js';

export const farSdp = [
  ...['v=0', 'o=- 1 1 IN IP4 127.0.0.1', 's=-', 'c=IN IP4 127.0.0.1', 't=0 0', 'm=audio 9 RTP/AVP 0'],
  ...['a=rtpmap:0 PCMU/8000', 'a=sendrecv', ''],
].join('\r\n');

export interface FarHabits {
  /** Acknowledges 2xx. Default true; failures are acknowledged always. */
  acks?: boolean;
  /** Answers BYE with 200. Default true. */
  answersBye?: boolean;
  /** Answers re-INVITE and UPDATE with this status, 200 with its session description. Default 200. */
  reInvite?: number | ((request: SipRequest) => number);
  /** Header lines of that answer. */
  reInviteLines?: readonly string[];
  /** Its session description; '': the INVITE has none, and the ACK answers the offer of the 200. */
  sdp?: string;
  /** More header lines of the INVITE. */
  lines?: readonly string[];
}

type Wanted = string | number;

/** One call as the far end sees it. */
export class FarCall {
  readonly received: SipMessage[] = [];
  readonly startedAtMs = performance.now();
  /** Final answers to the INVITE that opened the call, ours or theirs. */
  finalStatus: number | null = null;
  confirmedAtMs: number | null = null;
  endedAtMs: number | null = null;
  endedBy: 'them' | 'us' | null = null;
  byesReceived = 0;
  cseq = 1;
  remoteTag = '';
  remoteTarget: string;
  /** The proxies that stay in the path, the nearest first. */
  private routes: readonly string[] = [];
  private readonly waiting = new Set<() => void>();

  constructor(
    private readonly ends: FarEnds,
    readonly callId: string,
    readonly localTag: string,
    readonly habits: FarHabits,
    /** The called number when the far end calls; the caller when it is called. */
    readonly number: string,
    readonly branch: string,
    readonly isCaller: boolean,
  ) {
    this.remoteTarget = `sip:${number}@127.0.0.1:${ends.serverPort}`;
  }

  /** The first message of that method or status that came and was not taken yet. For a status: `method` of its CSeq. */
  async next(wanted: Wanted, method?: string, limitMs = 20_000): Promise<SipMessage> {
    return this.until(
      () => {
        const index = this.received.findIndex((m) => fits(m, wanted, method));
        return index < 0 ? null : this.received.splice(index, 1)[0]!;
      },
      `${wanted}${method ? ` to ${method}` : ''}`,
      limitMs,
    );
  }

  /** The status of the final answer to the request with that CSeq. */
  async answerTo(method: string, cseq: number, limitMs = 20_000): Promise<number> {
    const found = await this.until(
      () =>
        this.received.find(
          (m) => m instanceof SipResponse && m.status >= 200 && m.cseq?.method === method && m.cseq.number === cseq,
        ) as SipResponse | undefined,
      `an answer to ${cseq} ${method}`,
      limitMs,
    );
    return found.status;
  }

  async final(limitMs = 20_000): Promise<number> {
    return this.until(() => this.finalStatus, 'a final answer', limitMs);
  }

  /** The dialog is over on both sides. */
  async ended(limitMs = 20_000): Promise<void> {
    await this.until(() => this.endedAtMs, 'the end', limitMs);
  }

  async until<T>(look: () => T | null | undefined, what: string, limitMs: number): Promise<T> {
    let check = (): void => undefined;
    const found = await new Promise<T | null>((resolve) => {
      const limit = setTimeout(() => resolve(null), limitMs);
      check = () => {
        const value = look();
        if (value === null || value === undefined) return;
        clearTimeout(limit);
        resolve(value);
      };
      this.waiting.add(check);
      check();
    });
    this.waiting.delete(check);
    if (found === null) {
      const heard = this.received.map((m) => `${m.startLine} (${m.get('cseq')})`).join(' | ');
      throw new Error(`${this.callId}: no ${what} within ${limitMs} ms; received: ${heard || 'nothing'}`);
    }
    return found;
  }

  cancel(): void {
    this.ends.send(
      this.write('CANCEL', 1, {
        branch: this.branch,
        uri: `sip:${this.number}@127.0.0.1:${this.ends.serverPort}`,
        outside: true,
      }),
    );
  }

  /** Sends BYE and waits for its answer, unless the other side was faster. */
  async bye(limitMs = 20_000): Promise<number> {
    const cseq = ++this.cseq;
    this.ends.send(this.write('BYE', cseq));
    const status = await this.answerTo('BYE', cseq, limitMs);
    this.over('us');
    return status;
  }

  /** A request of the dialog, as bytes; `send` sends it. */
  write(
    method: string,
    cseq = ++this.cseq,
    options: {
      branch?: string;
      uri?: string;
      body?: string;
      lines?: readonly string[];
      outside?: boolean;
      toTag?: string;
    } = {},
  ): string {
    const party = (user: string, tag: string) => `<sip:${user}@127.0.0.1>${tag ? `;tag=${tag}` : ''}`;
    const body = options.body ?? '';
    const toTag = options.toTag ?? (options.outside ? '' : this.remoteTag);
    return [
      `${method} ${options.uri ?? this.remoteTarget} SIP/2.0`,
      `Via: SIP/2.0/UDP 127.0.0.1:${this.ends.port};branch=${options.branch ?? newBranch()};rport`,
      'Max-Forwards: 70',
      `From: ${party(this.isCaller ? this.ends.user : this.number, this.localTag)}`,
      `To: ${party(this.isCaller ? this.number : 'trunkline', toTag)}`,
      `Call-ID: ${this.callId}`,
      `CSeq: ${cseq} ${method}`,
      `Contact: <sip:${this.ends.user}@127.0.0.1:${this.ends.port}>`,
      ...(options.outside || options.uri !== undefined ? [] : this.routes.map((route) => `Route: ${route}`)),
      ...(options.lines ?? []),
      ...(body ? ['Content-Type: application/sdp'] : []),
      `Content-Length: ${Buffer.byteLength(body)}`,
      '',
      body,
    ].join('\r\n');
  }

  send(message: string): void {
    this.ends.send(message);
  }

  /** What the socket heard for this call. */
  take(message: SipMessage): void {
    this.received.push(message);
    if (message instanceof SipResponse) this.response(message);
    else if (message instanceof SipRequest) this.request(message);
    for (const check of [...this.waiting]) check();
  }

  ack(response: SipResponse, branch = newBranch()): void {
    const success = response.status < 300;
    this.ends.send(
      this.write('ACK', response.cseq!.number, {
        branch: success ? branch : (response.topVia?.branch ?? ''),
        toTag: response.toTag,
        ...(success && this.habits.sdp === '' && response.body.length > 0 ? { body: farSdp } : {}),
        ...(success ? {} : { uri: `sip:${this.number}@127.0.0.1:${this.ends.serverPort}` }),
      }),
    );
    if (success && this.confirmedAtMs === null) this.confirmedAtMs = performance.now();
  }

  over(by: 'them' | 'us'): void {
    this.endedAtMs ??= performance.now();
    this.endedBy ??= by;
    for (const check of [...this.waiting]) check();
  }

  private response(message: SipResponse): void {
    if (message.cseq?.method !== 'INVITE' || message.status < 200) return;
    if (message.cseq.number === 1 && this.isCaller && message.topVia?.branch === this.branch) {
      if (message.status < 300 && this.remoteTag !== '' && this.remoteTag !== message.toTag) {
        this.endOther(message);
        return;
      }
      this.finalStatus ??= message.status;
      if (message.status < 300) {
        this.remoteTag = message.toTag;
        this.remoteTarget = message.contact?.uri ?? this.remoteTarget;
        this.routes = [...message.list('record-route')].reverse();
      }
    }
    if (message.status >= 300 || this.habits.acks !== false) this.ack(message);
  }

  /** A proxy had asked two servers, and both have answered: the second call is ended (RFC 3261 13.2.2.4). */
  private endOther(response: SipResponse): void {
    const uri = response.contact?.uri ?? '';
    const lines = [...response.list('record-route')].reverse().map((route) => `Route: ${route}`);
    for (const [method, cseq] of [
      ['ACK', 1],
      ['BYE', 2],
    ] as const)
      this.ends.send(this.write(method, cseq, { uri, lines, toTag: response.toTag }));
  }

  private request(message: SipRequest): void {
    if (message.method === 'BYE') {
      this.byesReceived++;
      if (this.habits.answersBye === false) return;
      this.over('them');
      this.ends.respond(message, 200, this.localTag);
    } else if ((message.method === 'INVITE' || message.method === 'UPDATE') && message.toTag !== '') {
      const { reInvite = 200, sdp } = this.habits;
      const status = typeof reInvite === 'number' ? reInvite : reInvite(message);
      const isFine = status < 300;
      this.ends.respond(message, status, this.localTag, isFine ? sdp || farSdp : '', this.habits.reInviteLines);
    } else if (message.method === 'ACK' && !this.isCaller) this.confirmedAtMs ??= performance.now();
    else if (message.method === 'INFO' || message.method === 'OPTIONS' || message.method === 'NOTIFY')
      this.ends.respond(message, 200, this.localTag);
  }
}

export class FarEnds {
  readonly calls = new Map<string, FarCall>();
  private made = 0;
  /** A call of theirs came; who answers it uses `respond`. */
  onInvite: ((call: FarCall, invite: SipRequest) => void) | null = null;
  /** Hears every message before its call does; true: the call shall not hear it, as if it were lost. */
  drops: (message: SipMessage) => boolean = () => false;
  /** How long a message is on its way here, after `drops` saw it: so that messages can cross. */
  lagMs = 0;
  readonly user = '+15550001111';
  private readonly seen = new Set<string>();
  /** Settles when the last datagram is out. The system gets it a tick after `send`, and a socket closed before that drops it. */
  private sent: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly socket: Socket,
    readonly port: number,
    public serverPort: number,
    private readonly prefix: string,
  ) {
    socket.on('message', (bytes) => this.take(bytes));
  }

  /** `host`: where they are; 127.0.0.1 when absent. */
  static open(serverPort: number, host = '127.0.0.1'): Promise<FarEnds> {
    const socket = createSocket({ type: 'udp4', recvBufferSize: 4 * 1024 * 1024 });
    return new Promise((resolve, reject) => {
      socket.once('error', reject);
      socket.bind(0, host, () =>
        resolve(new FarEnds(socket, socket.address().port, serverPort, randomBytes(4).toString('hex'))),
      );
    });
  }

  /** Sends an INVITE for that number; what the test does with the call is its affair. */
  call(number: string, habits: FarHabits = {}): FarCall {
    const call = new FarCall(this, `${this.prefix}-${this.made++}`, newTag(), habits, number, newBranch(), true);
    this.calls.set(call.callId, call);
    this.send(this.invite(call));
    return call;
  }

  /** The INVITE that opens the call: the same bytes every time. */
  invite(call: FarCall, branch = call.branch): string {
    const { habits } = call;
    return call.write('INVITE', 1, {
      branch,
      body: habits.sdp ?? farSdp,
      outside: true,
      uri: `sip:${call.number}@127.0.0.1:${this.serverPort}`,
      ...(habits.lines ? { lines: habits.lines } : {}),
    });
  }

  send(message: string): void {
    const bytes = Buffer.from(message, 'latin1');
    this.sent = new Promise((resolve) => this.socket.send(bytes, this.serverPort, '127.0.0.1', resolve));
  }

  respond(request: SipRequest, status: number, tag: string, body = '', lines: readonly string[] = []): void {
    const call = this.calls.get(request.callId);
    if (call && !call.isCaller && request.method === 'INVITE' && request.toTag === '' && status >= 200)
      call.finalStatus = status;
    const to = request.toTag === '' && status > 100 ? `${request.get('to')};tag=${tag}` : request.get('to');
    this.send(
      [
        `SIP/2.0 ${status} Answer`,
        ...request.list('via').map((via) => `Via: ${via}`),
        `From: ${request.get('from')}`,
        `To: ${to}`,
        `Call-ID: ${request.callId}`,
        `CSeq: ${request.get('cseq')}`,
        ...(status < 300 ? [`Contact: <sip:${this.user}@127.0.0.1:${this.port}>`] : []),
        ...lines,
        ...(body ? ['Content-Type: application/sdp'] : []),
        `Content-Length: ${Buffer.byteLength(body)}`,
        '',
        body,
      ].join('\r\n'),
    );
  }

  async close(): Promise<void> {
    await this.sent;
    await new Promise<void>((resolve) => this.socket.close(() => resolve()));
  }

  private take(bytes: Buffer): void {
    const message = parseMessage(bytes);
    if (!message || this.drops(message)) return;
    if (this.lagMs > 0) setTimeout(() => this.hear(message), this.lagMs);
    else this.hear(message);
  }

  private hear(message: SipMessage): void {
    if (message instanceof SipRequest && message.method === 'INVITE' && message.toTag === '') {
      if (this.seen.has(message.topVia?.branch ?? '')) return; // a repeat: only a slow machine sees it
      this.seen.add(message.topVia?.branch ?? '');
      const known = this.calls.get(message.callId);
      const call = known ?? new FarCall(this, message.callId, newTag(), {}, 'caller', '', false);
      if (!known) {
        call.remoteTag = message.fromTag;
        call.remoteTarget = message.contact?.uri ?? '';
        this.calls.set(message.callId, call);
      }
      this.onInvite?.(call, message);
    }
    this.calls.get(message.callId)?.take(message);
  }
}

function fits(message: SipMessage, wanted: Wanted, method?: string): boolean {
  if (message instanceof SipRequest) return message.method === wanted;
  return message.status === wanted && (method === undefined || message.cseq?.method === method);
}

export function newBranch(): string {
  return `z9hG4bK${randomBytes(8).toString('hex')}`;
}

function newTag(): string {
  return randomBytes(5).toString('hex');
}
