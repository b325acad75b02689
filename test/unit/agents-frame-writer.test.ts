import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { WebSocketFrameWriter } from '../../media/agents/connection/frame-writer.js';

/** Reads one masked frame as a server does (RFC 6455 section 5.2). */
function frameOf(bytes: Uint8Array) {
  const frame = Buffer.from(bytes);
  const short = frame[1]! & 0x7f;
  const [length, keyAt] =
    short < 126 ? [short, 2] : short === 126 ? [frame.readUInt16BE(2), 4] : [Number(frame.readBigUInt64BE(2)), 10];
  const key = frame.subarray(keyAt, keyAt + 4);
  const data = frame.subarray(keyAt + 4).map((byte, i) => byte ^ key[i % 4]!);
  return { first: frame[0]!, isMasked: frame[1]! >= 0x80, length, key: key.readUInt32BE(0), data };
}

/** Keeps what it was given, as a kernel that takes all at once (`waits` false) or nothing. */
function fakeSocket(waits: boolean) {
  const written: Uint8Array[] = [];
  const socket = {
    writableLength: 0,
    write(bytes: Uint8Array) {
      written.push(waits ? bytes : Uint8Array.from(bytes));
      if (waits) socket.writableLength += bytes.length;
      return !waits;
    },
  };
  return { written, writer: new WebSocketFrameWriter(socket as unknown as Socket) };
}

const noise = (length: number, seed: number) => Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 7) & 0xff);
const lengths = [0, 1, 2, 3, 125, 126, 127, 160, 321, 65_535, 65_536, 200_003];

describe.each([
  ['that the kernel takes at once', false],
  ['that waits in the socket', true],
])('a frame %s', (_name, waits) => {
  it('carries binary data of any length, masked', () => {
    const { written, writer } = fakeSocket(waits);
    for (const length of lengths) writer.binary(noise(length, length));
    for (const [i, length] of lengths.entries()) {
      const frame = frameOf(written[i]!);
      expect([frame.first, frame.isMasked, frame.length]).toEqual([0x82, true, length]);
      expect(Buffer.compare(frame.data, noise(length, length))).toBe(0);
    }
  });

  it('carries text in UTF-8', () => {
    const { written, writer } = fakeSocket(waits);
    const texts = ['', '{"event":"clear"}', 'Grüße, 世界 🙂', 'ä'.repeat(100), 'ß'.repeat(40_000), '🙂'.repeat(20_000)];
    for (const text of texts) writer.text(text);
    for (const [i, text] of texts.entries()) {
      const frame = frameOf(written[i]!);
      expect([frame.first, frame.isMasked]).toEqual([0x81, true]);
      expect(frame.data.toString()).toBe(text);
    }
  });

  it('stays what it was while later ones are written, of all sockets of the thread', () => {
    const [one, other] = [fakeSocket(waits), fakeSocket(waits)];
    for (let i = 0; i < 1000; i++) (i % 3 === 0 ? other : one).writer.binary(noise(160 + (i % 5), i));
    const [ones, others] = [[...one.written], [...other.written]];
    for (let i = 0; i < 1000; i++) {
      const bytes = (i % 3 === 0 ? others : ones).shift()!;
      expect(Buffer.compare(frameOf(bytes).data, noise(160 + (i % 5), i))).toBe(0);
    }
  });
});

it('masking keys differ', () => {
  const { written, writer } = fakeSocket(false);
  for (let i = 0; i < 3000; i++) writer.binary(noise(4, i));
  expect(new Set(written.map((bytes) => frameOf(bytes).key)).size).toBeGreaterThan(2990);
});
