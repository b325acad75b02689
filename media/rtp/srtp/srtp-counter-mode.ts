/** SRTP with AES-CM and HMAC-SHA1 (RFC 3711). One AES-ECB object per session key encrypts the counters into the keystream. */
import { type Cipher, timingSafeEqual } from 'node:crypto';
import { writeUint32 } from '../packet.js';
import { HmacSha1 } from './hmac-sha1.js';
import { aesEcb, derived, isEncrypted, rtcpHeaderBytes, type SrtpTransform, xorUint32 } from './srtp-suites.js';

/** RFC 4568 section 6.2: RTCP has an 80 bit tag in both suites. */
const rtcpTagBytes = 10;

export class CounterMode implements SrtpTransform {
  readonly rtcpBytes = 4 + rtcpTagBytes;
  readonly indexFromEnd = 4 + rtcpTagBytes;
  private readonly mac: HmacSha1;
  private readonly aes: Cipher;
  private readonly salt: Uint8Array;
  private readonly tag = new Uint8Array(rtcpTagBytes);
  private counters = Buffer.alloc(16 * 32);

  constructor(
    master: Uint8Array,
    firstLabel: 0 | 3,
    private readonly tagBytes: number,
  ) {
    this.aes = aesEcb(derived(master, firstLabel, 16));
    this.mac = new HmacSha1(derived(master, firstLabel + 1, 20));
    this.salt = derived(master, firstLabel + 2, 14);
  }

  seal(packet: Uint8Array, header: number, length: number, into: Uint8Array, ssrc: number, index: number): number {
    for (let i = 0; i < header; i++) into[i] = packet[i]!;
    this.apply(packet, into, header, length, ssrc, index);
    writeUint32(into, length, Math.floor(index / 65_536));
    this.mac.sign(into, length + 4);
    for (let i = 0; i < this.tagBytes; i++) into[length + i] = this.mac.digest[i]!;
    return length + this.tagBytes;
  }

  open(packet: Uint8Array, header: number, length: number, ssrc: number, index: number): boolean {
    const tag = this.tag.subarray(0, this.tagBytes);
    for (let i = 0; i < this.tagBytes; i++) tag[i] = packet[length + i]!;
    // The authentication covers the rollover counter after the packet, which is written over the tag.
    writeUint32(packet, length, Math.floor(index / 65_536));
    this.mac.sign(packet, length + 4);
    if (!timingSafeEqual(this.mac.digest.subarray(0, this.tagBytes), tag)) return false;
    this.apply(packet, packet, header, length, ssrc, index);
    return true;
  }

  sealRtcp(packet: Uint8Array, into: Uint8Array, ssrc: number, word: number): void {
    const { length } = packet;
    into.set(packet.subarray(0, rtcpHeaderBytes));
    this.apply(packet, into, rtcpHeaderBytes, length, ssrc, word & 0x7fff_ffff);
    writeUint32(into, length, word);
    this.mac.sign(into, length + 4);
    for (let i = 0; i < rtcpTagBytes; i++) into[length + 4 + i] = this.mac.digest[i]!;
  }

  openRtcp(packet: Uint8Array, length: number, ssrc: number, word: number): boolean {
    this.mac.sign(packet, length + 4);
    const tag = packet.subarray(length + 4, length + 4 + rtcpTagBytes);
    if (!timingSafeEqual(this.mac.digest.subarray(0, rtcpTagBytes), tag)) return false;
    if (isEncrypted(word)) this.apply(packet, packet, rtcpHeaderBytes, length, ssrc, word & 0x7fff_ffff);
    return true;
  }

  /** Encrypts and decrypts (section 4.1.1). `from` and `into` may be the same. */
  private apply(from: Uint8Array, into: Uint8Array, start: number, end: number, ssrc: number, index: number): void {
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
