/**
 * Whose packets count. The SDP names an address; a phone behind a NAT sends from another one. So: the named source at once, any other
 * only after a run of packets in sequence, and once locked nobody else (the RTP bleed and injection attacks live from laxness here), but
 * for the named source when a stranger was taken for it.
 */
import { type RtpView, sequenceDistance } from './packet.js';

/** A source that is not the one of the SDP must send this many packets in sequence. */
const probationPackets = 3;
/** Another port of the host that the SDP names may take over from another host for this long. */
const settleMs = 1000;
/** After this much silence of the locked source another one may be learned: a NAT gave it a new port. */
const relearnMs = 3000;

export type Verdict = 'accept' | 'foreign';

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
  private namedAddress = '';
  private namedPort = 0;
  private lockedAtMs = 0;
  private lastHeardMs = 0;
  private ssrc = 0;
  private relearn = true;
  private candidateAddress = '';
  private candidatePort = 0;
  private candidateSsrc = 0;
  private candidateSequence = 0;
  private candidateRun = 0;
  private ghost: Ghost | null = null;

  /** From an SDP. The same address again changes nothing; a new one is learned anew, and the old source counts until then. */
  expect(address: string, port: number): boolean {
    if (address === this.namedAddress && port === this.namedPort) return false;
    this.namedAddress = address;
    this.namedPort = port;
    this.relearn = true;
    this.candidateRun = 0;
    return true;
  }

  /** Never to be taken for the phone, but where the SDP names it. */
  shun(ghost: Ghost): void {
    this.ghost = ghost;
  }

  judge(packet: RtpView, address: string, port: number, nowMs: number): Verdict {
    if (port === this.port && address === this.address) {
      this.lastHeardMs = nowMs;
      this.ssrc = packet.ssrc;
      return 'accept';
    }
    if (this.namedAddress === '') return 'foreign'; // before any SDP nobody is expected
    const silent = nowMs - this.lastHeardMs >= relearnMs;
    const named = port === this.namedPort && address === this.namedAddress;
    if (!named && this.ghost !== null && isSame(this.ghost, packet, address, port)) return 'foreign';
    if (this.address === null || this.relearn || silent) {
      if (named || this.provenAs(packet, address, port)) return this.lock(packet, address, port, nowMs);
    } else if (this.address !== this.namedAddress && address === this.namedAddress) {
      // Somebody was first and was taken for a phone behind a NAT; here is the phone that the SDP names.
      if (named || nowMs - this.lockedAtMs < settleMs) return this.lock(packet, address, port, nowMs);
    }
    return 'foreign';
  }

  /** RTCP has no sequence to prove itself by: it must come from the host we hear or expect. */
  knowsHost(address: string): boolean {
    return address === this.address || address === this.namedAddress;
  }

  private provenAs(packet: RtpView, address: string, port: number): boolean {
    const inSequence =
      address === this.candidateAddress &&
      port === this.candidatePort &&
      packet.ssrc === this.candidateSsrc &&
      sequenceDistance(packet.sequence, this.candidateSequence) === 1;
    this.candidateRun = inSequence ? this.candidateRun + 1 : 1;
    this.candidateAddress = address;
    this.candidatePort = port;
    this.candidateSsrc = packet.ssrc;
    this.candidateSequence = packet.sequence;
    // The stream we knew, or the host that the SDP names, needs no further proof.
    if (this.address !== null && packet.ssrc === this.ssrc) return true;
    return address === this.namedAddress || this.candidateRun >= probationPackets;
  }

  private lock(packet: RtpView, address: string, port: number, nowMs: number): Verdict {
    this.address = address;
    this.port = port;
    this.ssrc = packet.ssrc;
    this.lockedAtMs = nowMs;
    this.lastHeardMs = nowMs;
    this.relearn = false;
    this.candidateRun = 0;
    return 'accept';
  }
}

function isSame(ghost: Ghost, packet: RtpView, address: string, port: number): boolean {
  return ghost.ssrc === packet.ssrc && ghost.port === port && ghost.address === address;
}
