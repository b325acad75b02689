import { describe, expect, test } from 'vitest';
import { WebSocketFrameReader } from '../../media/agents/connection/frame-reader.js';

function frame(first: number, payload: Buffer, masked = false): Buffer {
  const { length } = payload;
  const mask = masked ? 0x80 : 0;
  const header = length < 126 ? Buffer.alloc(2) : length < 65_536 ? Buffer.alloc(4) : Buffer.alloc(10);
  header[0] = first;
  header[1] = mask | (length < 126 ? length : length < 65_536 ? 126 : 127);
  if (header.length === 4) header.writeUInt16BE(length, 2);
  if (header.length === 10) header.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([header, payload]);
}

const noise = (length: number) => Buffer.from(Array.from({ length }, (_, i) => (i * 31) & 0xff));
const text = frame(0x81, Buffer.from('{"event":"clear"}'));
const audio = frame(0x82, noise(160));
const ping = frame(0x89, Buffer.from('x'));
const fragments = [frame(0x01, Buffer.from('{"a":')), ping, frame(0x80, Buffer.from('1}'))];
const close = frame(0x88, Buffer.from([0x03, 0xe8]));

/** What was read, in order: frames of whole messages anew, and what was passed on. */
function read(bytes: Buffer, partBytes: number, mostBytes = 100_000) {
  const seen = { messages: [] as [string, boolean][], passed: 0, again: [] as Buffer[] };
  const kept: [Buffer, Buffer][] = [];
  const reader = new WebSocketFrameReader(
    {
      message: (data, isBinary) => {
        seen.messages.push([data.toString('hex'), isBinary]);
        seen.again.push(frame(isBinary ? 0x82 : 0x81, Buffer.from(data)));
      },
    },
    (part) => {
      seen.passed += part.length;
      seen.again.push(part);
      kept.push([part, Buffer.from(part)]);
    },
    mostBytes,
  );
  const buffer = Buffer.alloc(partBytes);
  for (let at = 0; at < bytes.length; at += partBytes) {
    const count = bytes.copy(buffer, 0, at, at + partBytes);
    reader.take(buffer.subarray(0, count));
    buffer.fill(0xee);
  }
  expect(kept.every(([data, then]) => data.equals(then))).toBe(true);
  return { ...seen, again: Buffer.concat(seen.again) };
}

describe('what an agent sends', () => {
  test('whole messages are handed over, all else goes to ws, and nothing is lost or overtaken', () => {
    const large = frame(0x82, noise(70_000));
    const stream = Buffer.concat([text, audio, ping, audio, ...fragments, audio, text, large, audio, close]);
    for (const partBytes of [1, 2, 3, 5, 7, 11, 64, 163, 164, 165, 500, 8192, 100_000]) {
      const { again, messages } = read(stream, partBytes);
      expect(again.equals(stream), `in parts of ${partBytes}`).toBe(true);
      expect(messages.length).toBeLessThanOrEqual(7);
    }
    const { messages, passed } = read(stream, 100_000);
    expect(messages).toHaveLength(7);
    expect(passed).toBe(ping.length + Buffer.concat(fragments).length + close.length);
  });

  test('a message between the parts of another one is for ws to judge', () => {
    const stream = Buffer.concat([frame(0x01, Buffer.from('{')), audio, frame(0x80, Buffer.from('}'))]);
    expect(read(stream, 8192)).toMatchObject({ messages: [], passed: stream.length });
  });

  test('behind a close frame, and behind what no server may send, everything is', () => {
    for (const wrong of [close, frame(0x82, noise(10), true), frame(0xc2, noise(10)), frame(0x83, noise(10))]) {
      const stream = Buffer.concat([audio, wrong, audio, text]);
      const { messages, passed } = read(stream, 8192);
      expect(messages).toHaveLength(1);
      expect(passed).toBe(stream.length - audio.length);
    }
  });

  test('so is a message that is too long', () => {
    expect(read(audio, 8192, 159)).toMatchObject({ messages: [], passed: audio.length });
    expect(read(audio, 8192, 160)).toMatchObject({ passed: 0 });
  });
});
