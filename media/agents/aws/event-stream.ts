/**
 * AWS event stream encoding (`application/vnd.amazon.eventstream`): each message has a prelude (its length, that of its headers, CRC-32 of both),
 * headers, a payload, and a CRC-32 of everything before. All numbers are big-endian. Source: Smithy specification, Amazon Event Stream.
 */
import { crc32 } from 'node:zlib';

export const PRELUDE_BYTES = 12;
const CRC_BYTES = 4;
const STRING = 7;
const BINARY = 6;
const TIMESTAMP = 8;
/** Length of the value of the other types: two booleans, whole numbers of 1, 2, 4 and 8 bytes, a UUID. */
const FIXED_BYTES: Readonly<Record<number, number>> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, [TIMESTAMP]: 8, 9: 16 };

export type EventHeader = string | Uint8Array | Date;

export interface EventMessage {
  /** Headers that are strings; others are not needed. */
  headers: Readonly<Record<string, string>>;
  payload: Buffer;
}

/** The length of the message that begins with these bytes (at least `PRELUDE_BYTES`); -1 for a prelude that is damaged. */
export function eventLength(bytes: Buffer): number {
  if (bytes.readUInt32BE(8) !== crc32(bytes.subarray(0, 8))) return -1;
  return bytes.readUInt32BE(0);
}

export function encodeHeaders(headers: Readonly<Record<string, EventHeader>>): Buffer {
  const parts = Object.entries(headers).flatMap(([name, value]) => {
    const head = Buffer.from(`\0${name}\0`, 'latin1');
    head[0] = name.length;
    if (value instanceof Date) {
      head[head.length - 1] = TIMESTAMP;
      const time = Buffer.allocUnsafe(8);
      time.writeBigInt64BE(BigInt(value.getTime()));
      return [head, time];
    }
    const bytes = typeof value === 'string' ? Buffer.from(value) : value;
    head[head.length - 1] = typeof value === 'string' ? STRING : BINARY;
    const length = Buffer.allocUnsafe(2);
    length.writeUInt16BE(bytes.length);
    return [head, length, bytes];
  });
  return Buffer.concat(parts);
}

/** `headers`: as `encodeHeaders` returns them. */
export function encodeEvent(headers: Uint8Array, payload: Uint8Array): Buffer {
  const length = PRELUDE_BYTES + headers.length + payload.length + CRC_BYTES;
  const message = Buffer.allocUnsafe(length);
  message.writeUInt32BE(length, 0);
  message.writeUInt32BE(headers.length, 4);
  message.writeUInt32BE(crc32(message.subarray(0, 8)), 8);
  message.set(headers, PRELUDE_BYTES);
  message.set(payload, PRELUDE_BYTES + headers.length);
  message.writeUInt32BE(crc32(message.subarray(0, length - CRC_BYTES)), length - CRC_BYTES);
  return message;
}

/** A whole message, of which `payload` is a part; null for one that is damaged. */
export function decodeEvent(message: Buffer): EventMessage | null {
  const end = message.length - CRC_BYTES;
  if (end < PRELUDE_BYTES || message.readUInt32BE(end) !== crc32(message.subarray(0, end))) return null;
  const payloadAt = PRELUDE_BYTES + message.readUInt32BE(4);
  if (payloadAt > end) return null;
  const headers: Record<string, string> = Object.create(null);
  let at = PRELUDE_BYTES;
  while (at < payloadAt) {
    const nameEnd = at + 1 + message.readUInt8(at);
    if (nameEnd >= payloadAt) return null;
    const name = message.toString('latin1', at + 1, nameEnd);
    const type = message.readUInt8(nameEnd);
    at = nameEnd + 1;
    if (type === STRING || type === BINARY) {
      if (at + 2 > payloadAt) return null;
      const valueEnd = at + 2 + message.readUInt16BE(at);
      if (valueEnd > payloadAt) return null;
      if (type === STRING) headers[name] = message.toString('utf8', at + 2, valueEnd);
      at = valueEnd;
    } else {
      const bytes = FIXED_BYTES[type];
      if (bytes === undefined || at + bytes > payloadAt) return null;
      at += bytes;
    }
  }
  return { headers, payload: message.subarray(payloadAt, end) };
}
