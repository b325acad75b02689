/** RTP packets (RFC 3550 section 5.1), read and written in place. No input makes these functions throw. */

export const rtpHeaderBytes = 12;

/** Fields and payload bounds of a packet. One object is reused for all packets of a socket. */
export interface RtpView {
  payloadType: number;
  marker: boolean;
  sequence: number;
  timestamp: number;
  ssrc: number;
  payloadStart: number;
  payloadEnd: number;
}

export function emptyRtpView(): RtpView {
  return { payloadType: 0, marker: false, sequence: 0, timestamp: 0, ssrc: 0, payloadStart: 0, payloadEnd: 0 };
}

/** With rtcp-mux (RFC 5761 section 4) packet types 192–223 are RTCP. */
export function looksLikeRtcp(packet: Uint8Array): boolean {
  return packet.length >= 2 && packet[1]! >= 192 && packet[1]! <= 223;
}

/** False when the packet is malformed: wrong version, or a CSRC list, extension or padding that does not fit. */
export function parseRtp(packet: Uint8Array, into: RtpView): boolean {
  const length = packet.length;
  if (length < rtpHeaderBytes) return false;
  const first = packet[0]!;
  if (first >> 6 !== 2) return false;
  let start = rtpHeaderBytes + (first & 0x0f) * 4;
  if (start > length) return false;
  if (first & 0x10) {
    if (start + 4 > length) return false;
    start += 4 + ((packet[start + 2]! << 8) | packet[start + 3]!) * 4;
    if (start > length) return false;
  }
  let end = length;
  if (first & 0x20) {
    const padding = packet[length - 1]!;
    if (padding === 0 || start + padding > length) return false;
    end -= padding;
  }
  into.marker = (packet[1]! & 0x80) !== 0;
  into.payloadType = packet[1]! & 0x7f;
  into.sequence = (packet[2]! << 8) | packet[3]!;
  into.timestamp = readUint32(packet, 4);
  into.ssrc = readUint32(packet, 8);
  into.payloadStart = start;
  into.payloadEnd = end;
  return true;
}

/** Writes a header without CSRC, extension and padding. `into` has room for `rtpHeaderBytes`. */
export function writeRtpHeader(
  into: Uint8Array,
  payloadType: number,
  marker: boolean,
  sequence: number,
  timestamp: number,
  ssrc: number,
): void {
  into[0] = 0x80;
  into[1] = (marker ? 0x80 : 0) | payloadType;
  into[2] = sequence >> 8;
  into[3] = sequence;
  writeUint32(into, 4, timestamp);
  writeUint32(into, 8, ssrc);
}

export function readUint32(bytes: Uint8Array, at: number): number {
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

export function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

/** Signed distance of two 16 bit sequence numbers: positive when `a` is newer than `b`. */
export function sequenceDistance(a: number, b: number): number {
  return ((a - b) << 16) >> 16;
}
