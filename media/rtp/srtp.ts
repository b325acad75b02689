/**
 * SRTP and SRTCP (RFC 3711) with AES-CM and HMAC-SHA1, one direction of one session. Nothing here throws, whatever the bytes, and keys are
 * never written anywhere. The AES-CM keystream comes from one lasting AES object that encrypts counters.
 */
import { type Cipher, createCipheriv, timingSafeEqual } from 'node:crypto';
import { HmacSha1 } from './hmac-sha1.js';
import { readUint32, rtpHeaderBytes, writeUint32 } from './packet.js';
import { PacketWindow } from './packet-window.js';

export type SrtpSuite = 'AES_CM_128_HMAC_SHA1_80' | 'AES_CM_128_HMAC_SHA1_32';

/** Master key and salt, as they stand in SDP. */
export const srtpKeyBytes = 30;
/** What protection adds at most: SRTCP index and tag. */
export const srtpOverheadBytes = 14;

const keyBytes = 16;
const rtcpHeaderBytes = 8;
/** RFC 4568 section 6.2: RTCP is signed with 80 bits in both suites. */
const rtcpTagBytes = 10;
const rtpTagBytes: Record<SrtpSuite, number> = { AES_CM_128_HMAC_SHA1_80: 10, AES_CM_128_HMAC_SHA1_32: 4 };
/** A far side that changes its stream more often is not followed. */
const mostStreams = 8;

/** Session keys of RTP or RTCP (section 4.3). */
class SessionKeys {
  readonly mac: HmacSha1;
  private readonly aes: Cipher;
  private readonly salt: Uint8Array;
  private counters = Buffer.alloc(16 * 32);

  constructor(master: Uint8Array, firstLabel: 0 | 3) {
    this.aes = aesEcb(derived(master, firstLabel, keyBytes));
    this.mac = new HmacSha1(derived(master, firstLabel + 1, 20));
    this.salt = derived(master, firstLabel + 2, 14);
  }

  /** Encrypts and decrypts (section 4.1.1). `from` and `into` may be the same. */
  apply(from: Uint8Array, into: Uint8Array, start: number, end: number, ssrc: number, index: number): void {
    const length = end - start;
    if (length <= 0) return;
    const blocks = Math.ceil(length / 16);
    if (this.counters.length < blocks * 16) this.counters = Buffer.alloc(blocks * 16);
    const { counters, salt } = this;
    for (let i = 0; i < 14; i++) counters[i] = salt[i]!;
    xorUint32(counters, 4, ssrc);
    xorUint32(counters, 8, Math.floor(index / 65_536));
    counters[12] = counters[12]! ^ ((index >>> 8) & 0xff);
    counters[13] = counters[13]! ^ (index & 0xff);
    for (let block = 0; block < blocks; block++) {
      const at = block * 16;
      if (block > 0) counters.copyWithin(at, 0, 14);
      counters[at + 14] = block >> 8;
      counters[at + 15] = block;
    }
    const stream = this.aes.update(counters.subarray(0, blocks * 16));
    for (let i = 0; i < length; i++) into[start + i] = from[start + i]! ^ stream[i]!;
  }
}

export class Srtp {
  private readonly rtp: SessionKeys;
  private readonly rtcp: SessionKeys;
  private readonly tagBytes: number;
  private readonly streams = new Map<number, PacketWindow>();
  private readonly rtcpWindow = new PacketWindow();
  private rtcpIndex = 0;
  private readonly tag = new Uint8Array(10);

  constructor(suite: SrtpSuite, master: Uint8Array) {
    this.rtp = new SessionKeys(master, 0);
    this.rtcp = new SessionKeys(master, 3);
    this.tagBytes = rtpTagBytes[suite];
  }

  /** Writes the protected packet into `into`; its length, or 0 for one that must not go out: its number was used before. */
  protect(packet: Uint8Array, length: number, into: Uint8Array): number {
    const header = headerBytes(packet, length);
    if (header < 0) return 0;
    const ssrc = readUint32(packet, 8);
    const window = this.windowOf(ssrc);
    const index = window.indexOf((packet[2]! << 8) | packet[3]!);
    // One number with two contents would give both away (section 9.1).
    if (!window.isNew(index)) return 0;
    window.add(index);
    this.keep(ssrc, window);
    for (let i = 0; i < header; i++) into[i] = packet[i]!;
    this.rtp.apply(packet, into, header, length, ssrc, index);
    writeUint32(into, length, Math.floor(index / 65_536));
    this.rtp.mac.sign(into, length + 4);
    for (let i = 0; i < this.tagBytes; i++) into[length + i] = this.rtp.mac.digest[i]!;
    return length + this.tagBytes;
  }

  /** Decrypts in place; the length of what it was, or -1 when it is not genuine, or was there before. */
  unprotect(packet: Uint8Array): number {
    const length = packet.length - this.tagBytes;
    const header = headerBytes(packet, length);
    if (header < 0) return -1;
    const ssrc = readUint32(packet, 8);
    const window = this.windowOf(ssrc);
    const index = window.indexOf((packet[2]! << 8) | packet[3]!);
    if (!window.isNew(index)) return -1;
    const tag = this.tag.subarray(0, this.tagBytes);
    for (let i = 0; i < this.tagBytes; i++) tag[i] = packet[length + i]!;
    // The rollover counter is signed behind the packet: in the place of the tag there is room for it.
    writeUint32(packet, length, Math.floor(index / 65_536));
    this.rtp.mac.sign(packet, length + 4);
    if (!timingSafeEqual(this.rtp.mac.digest.subarray(0, this.tagBytes), tag)) return -1;
    window.add(index);
    this.keep(ssrc, window);
    this.rtp.apply(packet, packet, header, length, ssrc, index);
    return length;
  }

  protectRtcp(packet: Uint8Array): Uint8Array {
    const { length } = packet;
    const into = new Uint8Array(length + srtpOverheadBytes);
    const index = this.rtcpIndex;
    this.rtcpIndex = (index + 1) % 0x8000_0000;
    into.set(packet.subarray(0, rtcpHeaderBytes));
    this.rtcp.apply(packet, into, rtcpHeaderBytes, length, readUint32(packet, 4), index);
    writeUint32(into, length, (0x8000_0000 | index) >>> 0);
    this.rtcp.mac.sign(into, length + 4);
    for (let i = 0; i < rtcpTagBytes; i++) into[length + 4 + i] = this.rtcp.mac.digest[i]!;
    return into;
  }

  /** As `unprotect`. */
  unprotectRtcp(packet: Uint8Array): number {
    const length = packet.length - srtpOverheadBytes;
    if (length < rtcpHeaderBytes) return -1;
    const word = readUint32(packet, length);
    const index = word & 0x7fff_ffff;
    if (!this.rtcpWindow.isNew(index)) return -1;
    this.rtcp.mac.sign(packet, length + 4);
    const tag = packet.subarray(length + 4, length + 4 + rtcpTagBytes);
    if (!timingSafeEqual(this.rtcp.mac.digest.subarray(0, rtcpTagBytes), tag)) return -1;
    this.rtcpWindow.add(index);
    const isEncrypted = word >>> 31 === 1;
    if (isEncrypted) this.rtcp.apply(packet, packet, rtcpHeaderBytes, length, readUint32(packet, 4), index);
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

/** Header, CSRC list and extension: what stays readable. -1 when they do not fit. */
function headerBytes(packet: Uint8Array, length: number): number {
  if (length < rtpHeaderBytes || packet[0]! >> 6 !== 2) return -1;
  let end = rtpHeaderBytes + (packet[0]! & 0x0f) * 4;
  if (packet[0]! & 0x10) {
    if (end + 4 > length) return -1;
    end += 4 + ((packet[end + 2]! << 8) | packet[end + 3]!) * 4;
  }
  return end <= length ? end : -1;
}

function xorUint32(bytes: Uint8Array, at: number, value: number): void {
  for (let i = 0; i < 4; i++) bytes[at + i] = bytes[at + i]! ^ (value >>> (24 - 8 * i));
}

function aesEcb(key: Uint8Array): Cipher {
  return createCipheriv('aes-128-ecb', key, null).setAutoPadding(false);
}

/** Section 4.3.1, with a key derivation rate of zero: the keystream of the master key from the salt and the label. */
export function derived(master: Uint8Array, label: number, length: number): Uint8Array {
  const counters = Buffer.alloc(Math.ceil(length / 16) * 16);
  for (let at = 0; at < counters.length; at += 16) {
    counters.set(master.subarray(keyBytes, srtpKeyBytes), at);
    counters[at + 7] = counters[at + 7]! ^ label;
    counters[at + 15] = at / 16;
  }
  return new Uint8Array(aesEcb(master.subarray(0, keyBytes)).update(counters).subarray(0, length));
}
