/**
 * Writes messages to an agent as WebSocket frames (RFC 6455 section 5.2): header, masking key and masked data in one piece of memory and one write.
 * Control frames are those of `ws`, on the same socket, which keeps the order.
 */
import { randomFillSync } from 'node:crypto';
import type { Socket } from 'node:net';

const finalText = 0x81;
const finalBinary = 0x82;
const masked = 0x80;
/** The longest header of a client: 10 bytes and the masking key. */
const mostHeaderBytes = 14;
const roomBytes = 64 * 1024;
const mostBytesOfChar = 3;

/** Masking keys are not predictable (RFC 6455 section 10.3); they are drawn in advance. */
const keys = new Int32Array(1024);
let nextKey = keys.length;

function maskingKey(): number {
  if (nextKey === keys.length) {
    randomFillSync(keys);
    nextKey = 0;
  }
  return keys[nextKey++]!;
}

/** Memory for frames, shared by all sockets of the thread; replaced when it is full of frames that the kernel did not take at once. */
let room = Buffer.allocUnsafeSlow(roomBytes);
let words = new Int32Array(room.buffer);
let used = 0;
/** The frame that was written last: the next one mostly has the same place and length, and needs no new view. */
let frame = room.subarray(0, 0);
let frameStart = 0;

function makeRoom(bytes: number): void {
  if (used + bytes <= room.length) return;
  // Whole words, since data is masked by words.
  room = Buffer.allocUnsafeSlow(Math.max(roomBytes, (bytes + 3) & ~3));
  words = new Int32Array(room.buffer);
  used = 0;
}

export class WebSocketFrameWriter {
  constructor(private readonly socket: Socket) {}

  /** Bytes that the kernel has not taken yet. */
  get waitingBytes(): number {
    return this.socket.writableLength;
  }

  binary(data: Uint8Array): void {
    makeRoom(data.length + mostHeaderBytes + 6);
    const at = dataAt(data.length);
    room.set(data, at);
    this.write(finalBinary, at, data.length);
  }

  text(text: string): void {
    makeRoom(text.length * mostBytesOfChar + mostHeaderBytes + 6);
    // Wherever the header ends, the data is moved nowhere: it leaves room for the longest one.
    const at = dataAt(roomBytes);
    this.write(finalText, at, room.write(text, at));
  }

  /** Masks `length` bytes at `at`, writes the header before them, and sends both. */
  private write(opcode: number, at: number, length: number): void {
    const key = maskingKey();
    words[(at >> 2) - 1] = key;
    for (let word = at >> 2, end = (at + length + 3) >> 2; word < end; word++) words[word] = words[word]! ^ key;
    let start = at - 4;
    if (length < 126) {
      room[--start] = masked | length;
    } else if (length < 0x10000) {
      room[--start] = length;
      room[--start] = length >> 8;
      room[--start] = masked | 126;
    } else {
      start -= 8;
      room.writeBigUInt64BE(BigInt(length), start);
      room[--start] = masked | 127;
    }
    room[--start] = opcode;
    const end = at + length;
    if (frame.buffer !== room.buffer || frameStart !== start || frame.length !== end - start) {
      frame = room.subarray(start, end);
      frameStart = start;
    }
    this.socket.write(frame);
    // What the kernel did not take at once stays untouched; memory for a long message is not kept.
    if (this.socket.writableLength > 0) used = end;
    if (room.length > roomBytes) used = room.length;
  }
}

/** Where data of this length begins: at a whole word, behind its header. */
function dataAt(length: number): number {
  const headerBytes = length < 126 ? 6 : length < 0x10000 ? 8 : mostHeaderBytes;
  return (used + headerBytes + 3) & ~3;
}
