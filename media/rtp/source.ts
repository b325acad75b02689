/**
 * Decides which RTP packets are accepted. Anyone can send to our port, and a phone behind a NAT does not send from the address in its SDP.
 * So a source is accepted by the host it sends from, or because it continues the current stream. Silence proves nothing: a phone that
 * pauses (DTX) keeps its place. `docs/security.md` ("Accepted media sources") has the rule as a table; `test/unit/media-source.test.ts` compares them.
 */
import { type RtpView, sequenceDistance } from './packet.js';
import type { SteadyStream } from './steady-stream.js';

/** A source that the SDP does not name exactly must send this many packets in sequence. */
const probationPackets = 3;

/** Levels of evidence for a source, ascending. */
const unheard = 0;
/** It only sends in sequence. */
const stranger = 1;
/** It sends from the host in the SDP, or from the host of the signalling. */
const knownHost = 2;
/** It sends from the exact address and port in the SDP. */
const named = 3;

/** A stream that moves can lose no more packets than fit in the pause: packets of 10 ms, and a few more. */
const shortestPacketMs = 10;
const sparePackets = 3;
/** Its timestamps run at 48 kHz at most, and this far ahead of our clock. */
const fastestClockKhz = 48;
const earlyMs = 200;

export type SourceVerdict = 'accept' | 'foreign';

/** A peer that still sent to a port, long after its call, when the port was handed out again. */
export interface LateSender {
  address: string;
  port: number;
  ssrc: number;
}

export class RtpSource {
  /** The source of accepted packets, once it is known. */
  address: string | null = null;
  port = 0;
  /** Of the current stream. */
  ssrc = 0;
  /** A host without evidence may become the source. False on hold, when no RTP is expected. */
  takesStrangers = true;
  private namedAddress = '';
  private namedPort = 0;
  private signallingAddress = '';
  private evidence = unheard;
  /** The SDP changed and nothing arrived from its new address yet: a source with equal evidence may replace the current one. */
  private moving = false;
  private lastHeardMs = 0;
  private sequence = 0;
  private timestamp = 0;
  private candidateAddress = '';
  private candidatePort = 0;
  private candidateSsrc = 0;
  private candidateSequence = 0;
  private candidateSinceMs = 0;
  private candidateRun = 0;
  /** All packets of the run continue the current stream. */
  private candidateContinues = false;
  private lateSender: LateSender | null = null;

  /** Applies the address of an SDP. The same address changes nothing; a new one is learned anew, and the old source is accepted until then. */
  expect(address: string, port: number): boolean {
    if (address === this.namedAddress && port === this.namedPort) return false;
    this.namedAddress = address;
    this.namedPort = port;
    this.moving = address !== this.address || port !== this.port;
    this.evidence = this.moving ? Math.min(this.evidence, knownHost) : named;
    this.candidateRun = 0;
    return true;
  }

  /** The host that sent the INVITE or its 200: a phone behind a NAT also sends its RTP from there. */
  signalledFrom(address: string): void {
    this.signallingAddress = address;
    if (this.address === address) this.evidence = Math.max(this.evidence, knownHost);
  }

  /** Ignores this peer, unless the SDP names it. */
  shun(lateSender: LateSender): void {
    this.lateSender = lateSender;
  }

  judge(packet: RtpView, address: string, port: number, nowMs: number): SourceVerdict {
    if (port === this.port && address === this.address) return this.hear(packet, nowMs);
    if (this.namedAddress === '') return 'foreign'; // before any SDP no source is expected
    if (port === this.namedPort && address === this.namedAddress)
      return this.learn(packet, address, port, nowMs, named);
    if (this.lateSender !== null && isSame(this.lateSender, packet, address, port)) return 'foreign';
    const continues = this.continues(packet, nowMs);
    this.follow(packet, address, port, nowMs, continues);
    const proven = this.candidateRun >= probationPackets;
    if (continues && address === this.address) return this.change(packet, address, port, nowMs);
    // From another host only when the old one is silent, after a full probation.
    if (proven && this.candidateContinues && this.candidateSinceMs >= this.lastHeardMs)
      return this.change(packet, address, port, nowMs);
    const evidence = this.evidenceOf(address);
    if (!proven || (evidence === stranger && !this.takesStrangers)) return 'foreign';
    if (evidence > this.evidence || (this.moving && evidence === this.evidence))
      return this.learn(packet, address, port, nowMs, evidence);
    return 'foreign';
  }

  /** A run of packets continued the accepted stream. */
  continued(run: SteadyStream): void {
    this.sequence = run.sequence;
    this.timestamp = run.timestamp >>> 0;
    this.lastHeardMs = run.arrivedMs;
  }

  /**
   * RTCP has no packet sequence to prove itself with. It is accepted from the host of the RTP: from the RTP source itself on the RTP socket
   * (`muxed`, RFC 5761), else from the port in the SDP (`a=rtcp`, or the next one). Behind a NAT that port is unknown: then from the port next
   * to the source, or with the SSRC of the current stream in the report. Before any RTP the SDP's address is the source.
   */
  takesReport(
    from: { address: string; port: number },
    muxed: boolean,
    sdpPort: number,
    reporter: number | null,
  ): boolean {
    const isNamed = this.address === null || (this.address === this.namedAddress && this.port === this.namedPort);
    const address = isNamed ? this.namedAddress : this.address;
    if (from.address !== address) return false;
    if (muxed) return from.port === (isNamed ? this.namedPort : this.port);
    if (isNamed) return from.port === sdpPort;
    const asSaid = address === this.namedAddress && from.port === sdpPort;
    return asSaid || from.port === this.port + 1 || reporter === this.ssrc;
  }

  private evidenceOf(address: string): number {
    if (address === this.namedAddress || address === this.signallingAddress) return knownHost;
    return this.moving && address === this.address ? this.evidence : stranger;
  }

  /** Follows the run of packets in sequence from one candidate other than the source. */
  private follow(packet: RtpView, address: string, port: number, nowMs: number, continues: boolean): void {
    const inSequence =
      this.candidateRun > 0 &&
      address === this.candidateAddress &&
      port === this.candidatePort &&
      packet.ssrc === this.candidateSsrc &&
      sequenceDistance(packet.sequence, this.candidateSequence) === 1;
    if (!inSequence) this.candidateSinceMs = nowMs;
    this.candidateContinues = continues && (!inSequence || this.candidateContinues);
    this.candidateRun = inSequence ? this.candidateRun + 1 : 1;
    this.candidateAddress = address;
    this.candidatePort = port;
    this.candidateSsrc = packet.ssrc;
    this.candidateSequence = packet.sequence;
  }

  /** The same stream, whose numbers advanced as far as the time since its last packet allows: a NAT gave it a new port. */
  private continues(packet: RtpView, nowMs: number): boolean {
    if (this.address === null || packet.ssrc !== this.ssrc) return false;
    const silentMs = nowMs - this.lastHeardMs;
    const packets = sequenceDistance(packet.sequence, this.sequence);
    const ticks = (packet.timestamp - this.timestamp) | 0;
    return (
      packets > 0 &&
      packets <= sparePackets + silentMs / shortestPacketMs &&
      ticks >= 0 &&
      ticks <= (silentMs + earlyMs) * fastestClockKhz
    );
  }

  private learn(packet: RtpView, address: string, port: number, nowMs: number, evidence: number): SourceVerdict {
    this.evidence = evidence;
    this.moving = false;
    return this.change(packet, address, port, nowMs);
  }

  private change(packet: RtpView, address: string, port: number, nowMs: number): SourceVerdict {
    this.address = address;
    this.port = port;
    this.candidateRun = 0;
    this.ssrc = packet.ssrc;
    this.sequence = packet.sequence;
    this.timestamp = packet.timestamp;
    this.lastHeardMs = nowMs;
    return 'accept';
  }

  private hear(packet: RtpView, nowMs: number): SourceVerdict {
    // A reordered packet does not move the position; a far jump back is a restarted sender.
    const distance = sequenceDistance(packet.sequence, this.sequence);
    if (packet.ssrc !== this.ssrc || distance > 0 || distance < -100) {
      this.ssrc = packet.ssrc;
      this.sequence = packet.sequence;
      this.timestamp = packet.timestamp;
    }
    this.lastHeardMs = nowMs;
    return 'accept';
  }
}

function isSame(lateSender: LateSender, packet: RtpView, address: string, port: number): boolean {
  return lateSender.ssrc === packet.ssrc && lateSender.port === port && lateSender.address === address;
}
