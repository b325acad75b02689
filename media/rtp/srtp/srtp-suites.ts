/** The supported SRTP suites, and the derivation of session keys from the master key (RFC 3711 section 4.3, RFC 7714 section 11). */
import { type Cipher, createCipheriv } from 'node:crypto';

export type SrtpSuite = 'AES_CM_128_HMAC_SHA1_80' | 'AES_CM_128_HMAC_SHA1_32' | 'AEAD_AES_128_GCM' | 'AEAD_AES_256_GCM';

interface SuiteFacts {
  keyBytes: 16 | 32;
  saltBytes: 14 | 12;
  /** Authentication tag of an RTP packet. */
  tagBytes: number;
}

/** Offered in this order: first the suite that is supported most widely, which is also the cheapest. */
export const srtpSuites: Readonly<Record<SrtpSuite, SuiteFacts>> = {
  AES_CM_128_HMAC_SHA1_80: { keyBytes: 16, saltBytes: 14, tagBytes: 10 },
  AES_CM_128_HMAC_SHA1_32: { keyBytes: 16, saltBytes: 14, tagBytes: 4 },
  AEAD_AES_128_GCM: { keyBytes: 16, saltBytes: 12, tagBytes: 16 },
  AEAD_AES_256_GCM: { keyBytes: 32, saltBytes: 12, tagBytes: 16 },
};

export const srtpSuiteNames = Object.keys(srtpSuites) as SrtpSuite[];

/** Length of master key and salt, as in SDP. */
export function srtpKeyBytes(suite: SrtpSuite): number {
  return srtpSuites[suite].keyBytes + srtpSuites[suite].saltBytes;
}

/** The most that protection adds: tag and SRTCP index. */
export const srtpOverheadBytes = 20;

/** One direction of RTP or RTCP with one suite. No packet content makes these methods throw. */
export interface SrtpTransform {
  /** Bytes added to an RTCP packet, and the position of the index word, counted from the packet's end. */
  readonly rtcpBytes: number;
  readonly indexFromEnd: number;
  /** Writes the protected packet into `into`, leaving the first `header` bytes readable; returns its length. */
  seal(packet: Uint8Array, header: number, length: number, into: Uint8Array, ssrc: number, index: number): number;
  /** Decrypts a packet of `length` bytes plus tag in place; false when it is not authentic, and then only the tag may have changed. */
  open(packet: Uint8Array, header: number, length: number, ssrc: number, index: number): boolean;
  /** `into` is `rtcpBytes` longer than `packet`; `word` is the E flag and the index. */
  sealRtcp(packet: Uint8Array, into: Uint8Array, ssrc: number, word: number): void;
  openRtcp(packet: Uint8Array, length: number, ssrc: number, word: number): boolean;
}

export const rtcpHeaderBytes = 8;

/** The E flag in the index word: the RTCP packet is encrypted. */
export function isEncrypted(word: number): boolean {
  return word >>> 31 === 1;
}

export function aesEcb(key: Uint8Array): Cipher {
  return createCipheriv(`aes-${key.length * 8}-ecb`, key, null).setAutoPadding(false);
}

/**
 * Derives a session key with a key derivation rate of zero: the master key's keystream over salt and label. Shorter salts (GCM) are padded
 * with zeros at the end.
 */
export function derived(master: Uint8Array, label: number, length: number, keyBytes: 16 | 32 = 16): Uint8Array {
  const counters = Buffer.alloc(Math.ceil(length / 16) * 16);
  for (let at = 0; at < counters.length; at += 16) {
    counters.set(master.subarray(keyBytes), at);
    counters[at + 7] = counters[at + 7]! ^ label;
    counters[at + 15] = at / 16;
  }
  return new Uint8Array(aesEcb(master.subarray(0, keyBytes)).update(counters).subarray(0, length));
}

export function xorUint32(bytes: Uint8Array, at: number, value: number): void {
  for (let i = 0; i < 4; i++) bytes[at + i] = bytes[at + i]! ^ (value >>> (24 - 8 * i));
}
