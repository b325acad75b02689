/**
 * Whose packets count. Anybody can send to our port, and a phone behind a NAT does not send from the address that its SDP names. So a source
 * counts by the host it sends from, or because it continues the stream that is heard already. Silence proves nothing: a phone that pauses
 * (DTX) keeps its place. `docs/security.md` ("Who is heard") has the rule as a table; `test/unit/media-source.test.ts` compares the two.
 */
import { type RtpView, sequenceDistance } from './packet.js';

/** A source that the SDP does not name exactly must send this many packets in sequence. */
const probationPackets = 3;

/** What speaks for a source, ascending. */
const unheard = 0;
/** Only that it sends in sequence. */
const stranger = 1;
/** It sends from the host of the SDP, or from the host that the signalling comes from. */
const knownHost = 2;
/** It sends from the very address of the SDP. */
const named = 3;

/** A stream that moves loses no more packets than the pause can hold: packets of 10 ms, and these besides. */
const shortestPacketMs = 10;
const sparePackets = 3;
/** Its timestamps run with a clock of 48 kHz at most, this far ahead of ours. */
const fastestClockKhz = 48;
const earlyMs = 200;

export type SourceVerdict = 'accept' | 'foreign';

/** Who still sent to a port, long after its call, when the port was handed out again. */
export interface Ghost {
  address: string;
  port: number;
  ssrc: number;
}

export class RtpSource {
  /** Where packets come from once that is known. */
  address: string | null = null;
  port = 0;
  /** Of the stream that is heard. */
  ssrc = 0;
  /** A host that nothing speaks for may be learned. False on hold, when none is due. */
  takesStrangers = true;
  private namedAddress = '';
  private namedPort = 0;
  private signallingAddress = '';
  private evidence = unheard;
  /** The SDP changed and its new address was not heard yet: the source may change for another one that is as good. */
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
  /** Every packet of the run goes on where the stream that is heard was last. */
  private candidateContinues = false;
  private ghost: Ghost | null = null;

  /** From an SDP. The same address again changes nothing; a new one is learned anew, and the old source counts until then. */
  expect(address: string, port: number): boolean {
    if (address === this.namedAddress && port === this.namedPort) return false;
    this.namedAddress = address;
    this.namedPort = port;
    this.moving = address !== this.address || port !== this.port;
    this.evidence = this.moving ? Math.min(this.evidence, knownHost) : named;
    this.candidateRun = 0;
    return true;
  }

  /** The host that sent the INVITE or its 200: a phone behind a NAT sends its RTP from there too. */
  signalledFrom(address: string): void {
    this.signallingAddress = address;
    if (this.address === address) this.evidence = Math.max(this.evidence, knownHost);
  }

  /** Never to be taken for the phone, but where the SDP names it. */
  shun(ghost: Ghost): void {
    this.ghost = ghost;
  }

  judge(packet: RtpView, address: string, port: number, nowMs: number): SourceVerdict {
    if (port === this.port && address === this.address) return this.hear(packet, nowMs);
    if (this.namedAddress === '') return 'foreign'; // before any SDP nobody is expected
    if (port === this.namedPort && address === this.namedAddress)
      return this.learn(packet, address, port, nowMs, named);
    if (this.ghost !== null && isSame(this.ghost, packet, address, port)) return 'foreign';
    const continues = this.continues(packet, nowMs);
    this.follow(packet, address, port, nowMs, continues);
    const proven = this.candidateRun >= probationPackets;
    if (continues && address === this.address) return this.change(packet, address, port, nowMs);
    // From another host only once the old one is quiet, and with the proof of a stranger.
    if (proven && this.candidateContinues && this.candidateSinceMs >= this.lastHeardMs)
      return this.change(packet, address, port, nowMs);
    const evidence = this.evidenceOf(address);
    if (!proven || (evidence === stranger && !this.takesStrangers)) return 'foreign';
    if (evidence > this.evidence || (this.moving && evidence === this.evidence))
      return this.learn(packet, address, port, nowMs, evidence);
    return 'foreign';
  }

  /**
   * RTCP has no run of packets by which it could prove itself. It counts from the host of the RTP: from the very source on the socket of RTP
   * (`muxed`, RFC 5761), else from the port that the SDP says (`a=rtcp`, or the next one). Behind a NAT that port is not known: there it is the
   * one next to the source, or any whose report bears the SSRC of the stream that is heard. Before any RTP the SDP's address is the source.
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

  /** The run of packets in sequence from one place that is not the source. */
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

  /** The same stream, and its numbers have moved on by what the time since its last packet allows: a NAT gave it a new port. */
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
    // An overtaken packet is not where the stream is; one that jumps far is a restarted sender.
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

function isSame(ghost: Ghost, packet: RtpView, address: string, port: number): boolean {
  return ghost.ssrc === packet.ssrc && ghost.port === port && ghost.address === address;
}
