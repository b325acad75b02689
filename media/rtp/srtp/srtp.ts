/** SRTP and SRTCP (RFC 3711), one direction of one session. No packet content makes it throw, and keys are never logged. */
import { readUint32, rtpHeaderBytes } from '../packet.js';
import { PacketWindow } from '../packet-window.js';
import { CounterMode } from './srtp-counter-mode.js';
import { GaloisMode } from './srtp-galois.js';
import { rtcpHeaderBytes, type SrtpSuite, type SrtpTransform, srtpSuites } from './srtp-suites.js';

/** Number of SSRCs whose state is kept; the oldest is dropped first. */
const mostStreams = 8;

export class Srtp {
  private readonly rtp: SrtpTransform;
  private readonly rtcp: SrtpTransform;
  private readonly tagBytes: number;
  private readonly streams = new Map<number, PacketWindow>();
  private readonly rtcpWindow = new PacketWindow();
  private rtcpIndex = 0;

  /** `master`: key and salt as in SDP, `srtpKeyBytes(suite)` long. */
  constructor(suite: SrtpSuite, master: Uint8Array) {
    this.rtp = transform(suite, master, 0);
    this.rtcp = transform(suite, master, 3);
    this.tagBytes = srtpSuites[suite].tagBytes;
  }

  /** Writes the protected packet into `into`; returns its length, or 0 when it must not be sent because its index was used before. */
  protect(packet: Uint8Array, length: number, into: Uint8Array): number {
    const header = headerBytes(packet, length);
    if (header < 0) return 0;
    const ssrc = readUint32(packet, 8);
    const window = this.windowOf(ssrc);
    const index = window.indexOf((packet[2]! << 8) | packet[3]!);
    // Two packets encrypted with one index would reveal both (section 9.1).
    if (!window.isNew(index)) return 0;
    window.add(index);
    this.keep(ssrc, window);
    return this.rtp.seal(packet, header, length, into, ssrc, index);
  }

  /** Decrypts in place; returns the length of the plain packet, or -1 when it is not authentic or was replayed. */
  unprotect(packet: Uint8Array): number {
    const length = packet.length - this.tagBytes;
    const header = headerBytes(packet, length);
    if (header < 0) return -1;
    const ssrc = readUint32(packet, 8);
    const window = this.windowOf(ssrc);
    const index = window.indexOf((packet[2]! << 8) | packet[3]!);
    if (!window.isNew(index) || !this.rtp.open(packet, header, length, ssrc, index)) return -1;
    window.add(index);
    this.keep(ssrc, window);
    return length;
  }

  protectRtcp(packet: Uint8Array): Uint8Array {
    const into = new Uint8Array(packet.length + this.rtcp.rtcpBytes);
    const index = this.rtcpIndex;
    this.rtcpIndex = (index + 1) % 0x8000_0000;
    this.rtcp.sealRtcp(packet, into, readUint32(packet, 4), (0x8000_0000 | index) >>> 0);
    return into;
  }

  /** Like `unprotect`. */
  unprotectRtcp(packet: Uint8Array): number {
    const length = packet.length - this.rtcp.rtcpBytes;
    if (length < rtcpHeaderBytes) return -1;
    const word = readUint32(packet, packet.length - this.rtcp.indexFromEnd);
    const index = word & 0x7fff_ffff;
    if (!this.rtcpWindow.isNew(index) || !this.rtcp.openRtcp(packet, length, readUint32(packet, 4), word)) return -1;
    this.rtcpWindow.add(index);
    return length;
  }

  private windowOf(ssrc: number): PacketWindow {
    return this.streams.get(ssrc) ?? new PacketWindow();
  }

  private keep(ssrc: number, window: PacketWindow): void {
    if (this.streams.has(ssrc)) return;
    if (this.streams.size >= mostStreams) this.streams.delete(this.streams.keys().next().value!);
    this.streams.set(ssrc, window);
  }
}

function transform(suite: SrtpSuite, master: Uint8Array, firstLabel: 0 | 3): SrtpTransform {
  const { keyBytes, tagBytes } = srtpSuites[suite];
  return suite === 'AEAD_AES_128_GCM' || suite === 'AEAD_AES_256_GCM'
    ? GaloisMode.derivedFrom(master, keyBytes, firstLabel)
    : new CounterMode(master, firstLabel, tagBytes);
}

/** Length of header, CSRC list and extension, which stay readable; -1 when they do not fit. */
function headerBytes(packet: Uint8Array, length: number): number {
  if (length < rtpHeaderBytes || packet[0]! >> 6 !== 2) return -1;
  let end = rtpHeaderBytes + (packet[0]! & 0x0f) * 4;
  if (packet[0]! & 0x10) {
    if (end + 4 > length) return -1;
    end += 4 + ((packet[end + 2]! << 8) | packet[end + 3]!) * 4;
  }
  return end <= length ? end : -1;
}
