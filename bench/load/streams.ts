/** Many phones' audio in one loop: packets out on a beat of 20 ms, and what comes back measured against when it was sent. */
import type { Socket } from 'node:dgram';
import { looksLikeRtcp, readUint32, rtpHeaderBytes, writeRtpHeader } from '../../media/rtp/packet.js';
import { machineMs } from './clock.js';
import type { PulseTimes } from './disturb.js';
import { packetSamples, pulsePacket, pulseTopMs, silentPacket, topInUlaw, voicePacket } from './pulse.js';

const packetMs = 20;
/** Packets from pulse to pulse. */
const pulseEvery = 10;
/** The rhythm of speech: this many packets of each round, then a pause. */
const [talkPackets, roundPackets] = [70, 100];
const remembered = 8;
const gapMs = 40;
/** The ear's jitter buffer is as long as the latest of this many packets needs. */
const earPackets = 50;
/** How late this process was itself: a gap at that moment may be its own. */
const ownStallMs = 8;
const catchUpMs = 60;

export interface StreamFigures {
  sent: number;
  received: number;
  lost: number;
  /** Between two received packets; `own`: while this process was late itself. */
  gaps: number;
  ownGaps: number;
  worstGapMs: number;
  /** Round trips of pulses: on the wire, and for an ear that plays by RTP timestamps. */
  wireMs: Float64Array;
  pulses: PulseTimes;
  earMs: Float64Array;
  pulsesSent: number;
  /** How late our own packets were sent. */
  paceMs: Float64Array;
  leftOut: number;
}

/** A gap between two received packets, on the clock of the wall. */
export interface Gap {
  index: number;
  endedAt: Date;
  ms: number;
  /** This process was late itself meanwhile. */
  own: boolean;
}

export class Stream {
  /** When pulses were sent, on the machine's clock. */
  readonly pulsesMs: number[] = [];
  private readonly packet = new Uint8Array(rtpHeaderBytes + packetSamples);
  private sequence: number;
  private timestamp: number;
  private packets: number;
  private readonly sentMs = new Float64Array(remembered).fill(Number.NaN);
  private pulses = 0;
  private lastArrivalMs = Number.NaN;
  private lastSequence = -1;
  private firstTimestamp = -1;
  private readonly transits = new Float64Array(earPackets).fill(Number.NEGATIVE_INFINITY);
  private transit = 0;
  private lastTopMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly socket: Socket,
    private readonly port: number,
    private readonly address: string,
    readonly index: number,
    private readonly line: Streams,
    /** What comes back is what it said: its round trips count. */
    private readonly echoed = true,
  ) {
    this.sequence = (index * 977) & 0xffff;
    this.timestamp = index * 16_000;
    this.packets = (index * 37) % roundPackets;
    socket.removeAllListeners('message');
    socket.on('message', (packet) => this.arrived(packet));
  }

  send(): void {
    const { packet } = this;
    const talks = this.packets % roundPackets < talkPackets;
    const pulse = talks && this.packets % pulseEvery === 0;
    const said = pulse
      ? pulsePacket(this.packets, (this.pulses & 1) as 0 | 1)
      : talks
        ? voicePacket(this.packets)
        : silentPacket;
    this.packets += 1;
    packet.set(said, rtpHeaderBytes);
    writeRtpHeader(packet, 0, false, this.sequence, this.timestamp, this.index + 1);
    this.sequence = (this.sequence + 1) & 0xffff;
    this.timestamp = (this.timestamp + packetSamples) >>> 0;
    if (pulse) {
      const nowMs = performance.now();
      this.sentMs[this.pulses % remembered] = nowMs;
      this.pulses += 1;
      if (this.line.measuring) this.pulsesMs.push(machineMs());
    }
    this.socket.send(packet, 0, packet.length, this.port, this.address);
  }

  /** A pulse came back. */
  get heard(): boolean {
    return this.lastTopMs > 0;
  }

  private arrived(packet: Uint8Array): void {
    if (packet.length <= rtpHeaderBytes || looksLikeRtcp(packet)) return;
    const nowMs = performance.now();
    const { line } = this;
    const sequence = (packet[2]! << 8) | packet[3]!;
    const timestamp = readUint32(packet, 4);
    if (this.firstTimestamp < 0) this.firstTimestamp = timestamp;
    const atMs = ((timestamp - this.firstTimestamp) | 0) / 8;
    const missing = this.lastSequence < 0 ? 0 : ((sequence - this.lastSequence - 1) << 16) >> 16;
    line.packetArrived(this.index, nowMs - this.lastArrivalMs, missing, nowMs);
    this.lastArrivalMs = nowMs;
    this.lastSequence = sequence;
    // A talkspurt begins: a phone chooses its delay anew.
    if (packet[1]! & 0x80) this.transits.fill(Number.NEGATIVE_INFINITY);
    this.transits[this.transit++ % earPackets] = nowMs - atMs;
    const top = topInUlaw(packet, rtpHeaderBytes, packet.length);
    if (top === null || nowMs + top.atMs - this.lastTopMs < packetMs) return;
    this.lastTopMs = nowMs + top.atMs;
    let pulse = this.pulses - 1;
    if ((pulse & 1) !== top.kind) pulse -= 1;
    if (pulse < 0 || this.pulses - pulse > remembered) return;
    if (!this.echoed) return;
    const saidMs = this.sentMs[pulse % remembered]! + pulseTopMs;
    line.pulseCame(this.index, nowMs + top.atMs - saidMs, Math.max(...this.transits) + atMs + top.atMs - saidMs);
  }
}

export class Streams {
  measuring = false;
  /** Told of each gap. */
  gap: (gap: Gap) => void = () => undefined;
  private figures = emptyFigures();
  private readonly streams: Stream[] = [];
  private timer: NodeJS.Timeout | undefined;
  private next = 0;
  private roundMs = 0;
  private stalledMs = Number.NEGATIVE_INFINITY;

  /** Phases are spread over the 20 ms by the place a stream will have among `places`. */
  constructor(private readonly places: number) {}

  add(socket: Socket, port: number, address: string, index: number, echoed = true): Stream {
    const stream = new Stream(socket, port, address, index, this, echoed);
    this.streams.push(stream);
    // In order of phase: the loop goes round once in 20 ms.
    this.streams.sort((a, b) => a.index - b.index);
    const at = this.streams.indexOf(stream);
    if (at <= this.next && this.streams.length > 1) this.next += 1;
    if (this.timer === undefined) {
      this.roundMs = performance.now();
      this.run();
    }
    return stream;
  }

  remove(stream: Stream): void {
    const at = this.streams.indexOf(stream);
    if (at < 0) return;
    this.streams.splice(at, 1);
    if (at < this.next) this.next -= 1;
    if (this.streams.length === 0) this.stop();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.streams.length = 0;
    this.next = 0;
  }

  begin(): void {
    this.figures = emptyFigures();
    for (const stream of this.streams) stream.pulsesMs.length = 0;
    this.measuring = true;
  }

  end(): StreamFigures {
    this.measuring = false;
    const { calls, atMs, earMs, paceMs, ...counts } = this.figures;
    const wireMs = Float64Array.from(this.figures.wireMs);
    return {
      ...counts,
      pulsesSent: this.streams.reduce((sum, stream) => sum + stream.pulsesMs.length, 0),
      wireMs,
      pulses: { call: Uint16Array.from(calls), atMs: Float64Array.from(atMs), wireMs },
      earMs: Float64Array.from(earMs),
      paceMs: Float64Array.from(paceMs),
    };
  }

  packetArrived(index: number, sinceMs: number, missing: number, nowMs: number): void {
    if (!this.measuring) return;
    const { figures } = this;
    figures.received += 1;
    if (missing > 0 && missing < 1000) figures.lost += missing;
    if (!(sinceMs > gapMs)) return;
    const own = nowMs - this.stalledMs < sinceMs;
    this.gap({ index, endedAt: new Date(), ms: sinceMs, own });
    if (own) figures.ownGaps += 1;
    else {
      figures.gaps += 1;
      figures.worstGapMs = Math.max(figures.worstGapMs, sinceMs);
    }
  }

  pulseCame(call: number, wireMs: number, earMs: number): void {
    if (!this.measuring) return;
    this.figures.calls.push(call);
    this.figures.atMs.push(machineMs());
    this.figures.wireMs.push(wireMs);
    this.figures.earMs.push(earMs);
  }

  private readonly run = (): void => {
    let nowMs = performance.now();
    for (;;) {
      if (this.next >= this.streams.length) {
        this.next = 0;
        this.roundMs += packetMs;
        if (nowMs - this.roundMs > catchUpMs) {
          const rounds = Math.floor((nowMs - this.roundMs) / packetMs);
          this.roundMs += rounds * packetMs;
          if (this.measuring) this.figures.leftOut += rounds * this.streams.length;
        }
      }
      const stream = this.streams[this.next];
      if (stream === undefined) return;
      const lateMs = nowMs - this.roundMs - (stream.index / this.places) * packetMs;
      if (lateMs < -0.05) break;
      if (lateMs > ownStallMs) this.stalledMs = nowMs;
      if (this.measuring) {
        this.figures.sent += 1;
        this.figures.paceMs.push(lateMs);
      }
      stream.send();
      this.next += 1;
      nowMs = performance.now();
    }
    this.timer = setTimeout(this.run, 1);
  };
}

function emptyFigures() {
  return {
    ...{ sent: 0, received: 0, lost: 0, gaps: 0, ownGaps: 0, worstGapMs: 0, leftOut: 0 },
    calls: [] as number[],
    atMs: [] as number[],
    wireMs: [] as number[],
    earMs: [] as number[],
    paceMs: [] as number[],
  };
}
