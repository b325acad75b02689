/** The smallest far end: answers one kind of INVITE over UDP and sends RTP back as it came, later, or not at all. Plain dgram, no code of ours. */
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';

export interface EchoPeerOptions {
  /** Refuse with this status instead of answering. */
  refuse?: number;
  /** 180 at once and the answer after this; undefined: no ringing. Infinity: rings for ever. */
  ringMs?: number;
  /** Each packet goes back this much later. */
  delayMs?: number;
  /** Of the packets that go back, every n-th is left out. */
  dropEvery?: number;
  /** Sends BYE this long after the ACK. */
  hangUpAfterMs?: number;
  /** Takes no audio: answers, but sends nothing. */
  mute?: boolean;
  /** Offered beside PCMU. Default true. */
  telephoneEvent?: boolean;
  /** 183 with SDP at once instead of 180. */
  early?: boolean;
  /** Answers a re-INVITE with this status, and no SDP. */
  refuseReoffer?: number;
  /** Repeats its 200 every so many ms until an ACK comes; after three it says BYE. */
  repeatMs?: number;
}

export interface ArrivedPacket {
  payloadType: number;
  marker: boolean;
  sequence: number;
  timestamp: number;
  payload: Buffer;
  atMs: number;
}

const ssrc = 0x0ec40ec4;

export class EchoPeer {
  /** In order of arrival. */
  readonly arrived: ArrivedPacket[] = [];
  readonly methods: string[] = [];
  sent = 0;
  /** When the first 200 to the INVITE was sent, and when a BYE came. */
  answeredMs = Number.NaN;
  byeMs = Number.NaN;
  private readonly timers = new Set<NodeJS.Timeout>();
  private invite: { text: string; from: RemoteInfo; toTag: string } | null = null;

  private constructor(
    private readonly sip: Socket,
    private readonly rtp: Socket,
    private readonly options: EchoPeerOptions,
  ) {
    sip.on('message', (bytes, from) => this.onSip(bytes.toString('latin1'), from));
    rtp.on('message', (packet, from) => this.onRtp(packet, from));
  }

  static async open(options: EchoPeerOptions = {}): Promise<EchoPeer> {
    return new EchoPeer(await bound(), await bound(), options);
  }

  get port(): number {
    return this.sip.address().port;
  }

  /** Pressed keys as RFC 4733 says them: one per event timestamp that has an end bit. */
  get digits(): string {
    const presses = new Map<number, string>();
    for (const { payloadType, timestamp, payload } of this.arrived) {
      if (payloadType === 101 && payload[1]! & 0x80) presses.set(timestamp, '0123456789*#ABCD'[payload[0]!] ?? '?');
    }
    return [...presses.values()].join('');
  }

  close(): void {
    for (const timer of this.timers) clearTimeout(timer);
    this.sip.close();
    this.rtp.close();
  }

  private onSip(text: string, from: RemoteInfo): void {
    const method = text.split(' ', 1)[0] ?? '';
    if (method.startsWith('SIP/2.0')) return;
    this.methods.push(method);
    if (method === 'INVITE' && this.invite === null) this.onInvite(text, from);
    else if (method === 'INVITE') this.onReoffer(text, from);
    else if (method === 'BYE') {
      this.byeMs = performance.now();
      this.reply(text, from, 200, 'OK');
    } else if (method === 'CANCEL' && this.invite) {
      this.reply(text, from, 200, 'OK');
      this.reply(this.invite.text, from, 487, 'Request Terminated');
    } else if (method === 'ACK' && this.options.hangUpAfterMs !== undefined) {
      this.later(this.options.hangUpAfterMs, () => this.sendBye());
    }
  }

  private onInvite(text: string, from: RemoteInfo): void {
    this.invite = { text, from, toTag: 'echo' };
    const { refuse, ringMs } = this.options;
    this.reply(text, from, 100, 'Trying');
    if (this.options.early) this.reply(text, from, 183, 'Session Progress', this.sdp());
    else if (ringMs !== undefined) this.reply(text, from, 180, 'Ringing');
    if (refuse !== undefined) this.later(ringMs ?? 0, () => this.reply(text, from, refuse, 'No'));
    else if (ringMs !== Number.POSITIVE_INFINITY) this.later(ringMs ?? 0, () => this.answer(text, from, 0));
  }

  private answer(text: string, from: RemoteInfo, times: number): void {
    if (times === 0) this.answeredMs = performance.now();
    this.reply(text, from, 200, 'OK', this.sdp());
    const { repeatMs } = this.options;
    if (repeatMs === undefined) return;
    this.later(repeatMs, () => {
      if (this.methods.includes('ACK')) return;
      if (times === 2) this.sendBye();
      else this.answer(text, from, times + 1);
    });
  }

  private onReoffer(text: string, from: RemoteInfo): void {
    const { refuseReoffer } = this.options;
    if (refuseReoffer !== undefined) this.reply(text, from, refuseReoffer, 'No');
    else this.reply(text, from, 200, 'OK', this.sdp(/^m=audio \d+ RTP\/AVP (\d+)/m.exec(text)?.[1]));
  }

  private sdp(codec = '0'): string {
    const events = this.options.telephoneEvent ?? true;
    return [
      'v=0',
      'o=echo 1 1 IN IP4 127.0.0.1',
      's=-',
      'c=IN IP4 127.0.0.1',
      't=0 0',
      `m=audio ${this.rtp.address().port} RTP/AVP ${codec}${events ? ' 101' : ''}`,
      `a=rtpmap:${codec} ${codec === '8' ? 'PCMA' : 'PCMU'}/8000`,
      ...(events ? ['a=rtpmap:101 telephone-event/8000'] : []),
      '',
    ].join('\r\n');
  }

  private reply(request: string, to: RemoteInfo, status: number, reason: string, body = ''): void {
    const lines = [`SIP/2.0 ${status} ${reason}`, ...fields(request, 'Via'), ...fields(request, 'From')];
    const toField = fields(request, 'To')[0] ?? '';
    lines.push(status === 100 || /;tag=/.test(toField) ? toField : `${toField};tag=echo`);
    lines.push(...fields(request, 'Call-ID'), ...fields(request, 'CSeq'));
    lines.push(`Contact: <sip:echo@127.0.0.1:${this.port}>`);
    if (body) lines.push('Content-Type: application/sdp');
    lines.push(`Content-Length: ${body.length}`, '', body);
    this.sip.send(lines.join('\r\n'), to.port, to.address);
  }

  private sendBye(): void {
    if (!this.invite) return;
    const { text, from } = this.invite;
    const value = (name: string) => (fields(text, name)[0] ?? '').replace(/^[^:]+:\s*/, '');
    const contact = /<([^>]+)>/.exec(value('Contact'))?.[1] ?? '';
    const lines = [
      `BYE ${contact} SIP/2.0`,
      `Via: SIP/2.0/UDP 127.0.0.1:${this.port};branch=z9hG4bKecho${Date.now()}`,
      'Max-Forwards: 70',
      `From: ${value('To')};tag=echo`,
      `To: ${value('From')}`,
      `Call-ID: ${value('Call-ID')}`,
      'CSeq: 1 BYE',
      'Content-Length: 0',
      '',
      '',
    ];
    this.sip.send(lines.join('\r\n'), from.port, from.address);
  }

  private onRtp(packet: Buffer, from: RemoteInfo): void {
    this.arrived.push({
      payloadType: packet[1]! & 0x7f,
      marker: (packet[1]! & 0x80) !== 0,
      sequence: packet.readUInt16BE(2),
      timestamp: packet.readUInt32BE(4),
      payload: packet.subarray(12),
      atMs: performance.now(),
    });
    if (this.options.mute || (packet[1]! & 0x7f) === 101) return;
    const copy = Buffer.from(packet);
    copy.writeUInt32BE(ssrc, 8);
    this.sent += 1;
    if (this.options.dropEvery && this.sent % this.options.dropEvery === 0) return;
    const send = () => this.rtp.send(copy, from.port, from.address);
    if (this.options.delayMs) this.later(this.options.delayMs, send);
    else send();
  }

  private later(ms: number, fn: () => void): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      fn();
    }, ms);
    this.timers.add(timer);
  }
}

function fields(message: string, name: string): string[] {
  return message.split('\r\n').filter((line) => line.toLowerCase().startsWith(`${name.toLowerCase()}:`));
}

function bound(): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createSocket('udp4');
    socket.once('error', reject);
    socket.bind(0, '127.0.0.1', () => resolve(socket));
  });
}
