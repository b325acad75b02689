/** The far side of a session in tests: a real UDP socket pair that speaks RTP and writes its own SDP. */
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { emptyRtpView, parseRtp, type RtpView, writeRtpHeader } from '../../media/rtp/packet.js';

export interface HeardPacket extends RtpView {
  atMs: number;
  payload: Uint8Array;
}

export interface SdpChange {
  codecs?: string;
  direction?: string;
  ptimeMs?: number;
  address?: string;
  port?: number;
  telephoneEvent?: boolean;
  /** `RTP/SAVP`. */
  secure?: boolean;
  extra?: string[];
}

export class RtpPhone {
  readonly heard: HeardPacket[] = [];
  readonly heardRtcp: Uint8Array[] = [];
  ssrc = 0x1234;
  sequence = 100;
  timestamp = 5000;
  to: { address: string; port: number } | null = null;
  private version = 1;
  private readonly waiting = new Set<() => void>();

  private constructor(
    readonly rtp: Socket,
    readonly rtcp: Socket,
    readonly address: string,
  ) {
    rtp.on('message', (bytes) => {
      const view = emptyRtpView();
      if (!parseRtp(bytes, view)) return;
      this.heard.push({
        ...view,
        atMs: performance.now(),
        payload: bytes.subarray(view.payloadStart, view.payloadEnd),
      });
      for (const look of [...this.waiting]) look();
    });
    rtcp.on('message', (bytes: Buffer, _from: RemoteInfo) => {
      this.heardRtcp.push(bytes);
      for (const look of [...this.waiting]) look();
    });
  }

  static async open(address = '127.0.0.1'): Promise<RtpPhone> {
    for (;;) {
      const rtp = await bound(address, 0);
      const port = rtp.address().port;
      const rtcp = port % 2 === 0 ? await bound(address, port + 1).catch(() => null) : null;
      if (rtcp) return new RtpPhone(rtp, rtcp, address);
      rtp.close();
    }
  }

  get port(): number {
    return this.rtp.address().port;
  }

  sdp(change: SdpChange = {}): string {
    const codecs = change.codecs ?? '0';
    const event = change.telephoneEvent ?? true;
    const names: Record<string, string> = { 0: 'PCMU', 8: 'PCMA' };
    return [
      'v=0',
      `o=phone 1 ${this.version++} IN IP4 ${this.address}`,
      's=-',
      `c=IN IP4 ${change.address ?? this.address}`,
      't=0 0',
      `m=audio ${change.port ?? this.port} RTP/${change.secure ? 'SAVP' : 'AVP'} ${codecs}${event ? ' 101' : ''}`,
      ...codecs.split(' ').map((payload) => `a=rtpmap:${payload} ${names[payload]}/8000`),
      ...(event ? ['a=rtpmap:101 telephone-event/8000', 'a=fmtp:101 0-15'] : []),
      `a=ptime:${change.ptimeMs ?? 20}`,
      `a=${change.direction ?? 'sendrecv'}`,
      ...(change.extra ?? []),
      '',
    ].join('\r\n');
  }

  /** Where our packets go. */
  dial(answer: string): void {
    const port = Number(/^m=audio (\d+)/m.exec(answer)?.[1]);
    const address = /^c=IN IP4 (\S+)/m.exec(answer)?.[1] ?? '';
    this.to = { address, port };
  }

  /** Sends one packet and moves on by its length. */
  send(payload: Uint8Array, options: { payloadType?: number; marker?: boolean; samples?: number } = {}): void {
    const packet = new Uint8Array(12 + payload.length);
    writeRtpHeader(packet, options.payloadType ?? 0, options.marker ?? false, this.sequence, this.timestamp, this.ssrc);
    packet.set(payload, 12);
    this.sequence = (this.sequence + 1) & 0xffff;
    this.timestamp = (this.timestamp + (options.samples ?? payload.length)) >>> 0;
    this.sendRaw(packet);
  }

  sendRaw(packet: Uint8Array): void {
    if (this.to) this.rtp.send(packet, this.to.port, this.to.address);
  }

  /** Sends frames at the pace of the clock. `frame(i)` gives the payload of packet i. */
  async talk(frames: number, frame: (index: number) => Uint8Array, payloadType = 0): Promise<void> {
    const startMs = performance.now();
    let sent = 0;
    await new Promise<void>((resolve) => {
      const timer = setInterval(() => {
        const ptimeMs = frame(0).length / 8;
        while (sent < frames && performance.now() - startMs >= sent * ptimeMs)
          this.send(frame(sent++), { payloadType });
        if (sent < frames) return;
        clearInterval(timer);
        resolve();
      }, 2);
    });
  }

  /** Resolves when the condition holds; looked at with each packet and every 10 ms. */
  until(condition: () => boolean, what: string, limitMs = 5000): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (error?: Error) => {
        clearTimeout(limit);
        clearInterval(timer);
        this.waiting.delete(look);
        if (error) reject(error);
        else resolve();
      };
      const look = () => {
        if (condition()) end();
      };
      const limit = setTimeout(() => end(new Error(`Waited ${limitMs} ms for ${what}.`)), limitMs);
      const timer = setInterval(look, 10);
      this.waiting.add(look);
      look();
    });
  }

  close(): void {
    this.rtp.close();
    this.rtcp.close();
  }
}

function bound(address: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createSocket('udp4');
    socket.once('error', reject);
    socket.bind(port, address, () => resolve(socket));
  });
}
