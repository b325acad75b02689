/**
 * SRTP with AES-GCM (RFC 7714). Each packet uses a new cipher object of node:crypto: constant-time GCM in JavaScript, without lookup
 * tables, is no cheaper.
 */
import {
  type CipherGCMTypes,
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  type DecipherGCM,
  type KeyObject,
} from 'node:crypto';
import { writeUint32 } from '../packet.js';
import { derived, isEncrypted, rtcpHeaderBytes, type SrtpTransform, xorUint32 } from './srtp-suites.js';

const tagBytes = 16;
const options = { authTagLength: tagBytes };

export class GaloisMode implements SrtpTransform {
  readonly rtcpBytes = tagBytes + 4;
  readonly indexFromEnd = 4;
  private readonly cipher: CipherGCMTypes;
  private readonly key: KeyObject;
  private readonly salt: Uint8Array;
  private readonly iv = new Uint8Array(12);

  constructor(key: Uint8Array, salt: Uint8Array) {
    this.cipher = key.length === 32 ? 'aes-256-gcm' : 'aes-128-gcm';
    this.key = createSecretKey(key);
    this.salt = salt;
  }

  static derivedFrom(master: Uint8Array, keyBytes: 16 | 32, firstLabel: 0 | 3): GaloisMode {
    return new GaloisMode(
      derived(master, firstLabel, keyBytes, keyBytes),
      derived(master, firstLabel + 2, 12, keyBytes),
    );
  }

  seal(packet: Uint8Array, header: number, length: number, into: Uint8Array, ssrc: number, index: number): number {
    this.begin(ssrc, Math.floor(index / 65_536), index & 0xffff);
    into.set(packet.subarray(0, header));
    this.encrypt(packet.subarray(0, header), packet.subarray(header, length), into, header);
    return length + tagBytes;
  }

  open(packet: Uint8Array, header: number, length: number, ssrc: number, index: number): boolean {
    this.begin(ssrc, Math.floor(index / 65_536), index & 0xffff);
    const decipher = this.decipher(packet.subarray(0, header), packet.subarray(length, length + tagBytes));
    return genuine(decipher, packet.subarray(header, length));
  }

  sealRtcp(packet: Uint8Array, into: Uint8Array, ssrc: number, word: number): void {
    this.beginRtcp(ssrc, word);
    into.set(packet.subarray(0, rtcpHeaderBytes));
    const signed = withWord(packet.subarray(0, rtcpHeaderBytes), word);
    this.encrypt(signed, packet.subarray(rtcpHeaderBytes), into, rtcpHeaderBytes);
    writeUint32(into, packet.length + tagBytes, word);
  }

  openRtcp(packet: Uint8Array, length: number, ssrc: number, word: number): boolean {
    this.beginRtcp(ssrc, word);
    const clear = isEncrypted(word) ? rtcpHeaderBytes : length;
    const tag = packet.subarray(length, length + tagBytes);
    return genuine(this.decipher(withWord(packet.subarray(0, clear), word), tag), packet.subarray(clear, length));
  }

  private encrypt(signed: Uint8Array, plain: Uint8Array, into: Uint8Array, at: number): void {
    const cipher = createCipheriv(this.cipher, this.key, this.iv, options).setAAD(signed);
    into.set(cipher.update(plain), at);
    cipher.final();
    into.set(cipher.getAuthTag(), at + plain.length);
  }

  private decipher(signed: Uint8Array, tag: Uint8Array): DecipherGCM {
    return createDecipheriv(this.cipher, this.key, this.iv, options).setAAD(signed).setAuthTag(tag);
  }

  /** IV by section 8.1: zeros, SSRC, rollover counter, sequence number; XORed with the salt. */
  private begin(ssrc: number, rollovers: number, sequence: number): void {
    this.iv.set(this.salt);
    xorUint32(this.iv, 2, ssrc);
    xorUint32(this.iv, 6, rollovers);
    this.iv[10] = this.iv[10]! ^ (sequence >>> 8);
    this.iv[11] = this.iv[11]! ^ (sequence & 0xff);
  }

  /** IV by section 9.1: zeros, SSRC, zeros, index; XORed with the salt. */
  private beginRtcp(ssrc: number, word: number): void {
    this.iv.set(this.salt);
    xorUint32(this.iv, 2, ssrc);
    xorUint32(this.iv, 8, word & 0x7fff_ffff);
  }
}

/** Decrypts in place, after the tag was verified. */
function genuine(decipher: DecipherGCM, bytes: Uint8Array): boolean {
  try {
    const plain = decipher.update(bytes);
    decipher.final();
    bytes.set(plain);
    return true;
  } catch {
    return false;
  }
}

function withWord(header: Uint8Array, word: number): Uint8Array {
  const signed = new Uint8Array(header.length + 4);
  signed.set(header);
  writeUint32(signed, header.length, word);
  return signed;
}
