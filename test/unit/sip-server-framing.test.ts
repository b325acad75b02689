import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ControlFrameReader } from '../../sip/server/control/control.js';
import { MAX_HEAD_BYTES, StreamFramer } from '../../sip/server/transport/stream-framer.js';

/** The bytes in pieces cut at these places. */
function pieces(bytes: Buffer, cuts: number[]): Buffer[] {
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length));
}

function readFrames(chunks: Buffer[]): string[] {
  const reader = new ControlFrameReader();
  return chunks.flatMap((chunk) => [...reader.push(chunk)].map((payload) => payload.toString()));
}

describe('control frames', () => {
  it('come out whole however the stream was cut', () => {
    const payloads = fc.array(fc.string({ minLength: 1, maxLength: 300, unit: 'grapheme' }), { maxLength: 6 });
    fc.assert(
      fc.property(payloads, fc.array(fc.nat(3000), { maxLength: 12 }), (texts, cuts) => {
        const bytes = Buffer.concat(texts.map((text) => Buffer.from(`${Buffer.byteLength(text)}#${text}`)));
        expect(readFrames(pieces(bytes, cuts))).toEqual(texts);
      }),
    );
  });

  it('come out whole byte by byte, and when far larger than 12 kB', () => {
    const text = 'x'.repeat(100_000);
    expect(readFrames([...Buffer.from('3#abc2#de')].map((byte) => Buffer.from([byte])))).toEqual(['abc', 'de']);
    expect(readFrames([Buffer.from('100000#'), Buffer.from(text)])).toEqual([text]);
  });

  it.each(['x#a', '#a', '-1#a', '12345678#', '1 2#', '12345678901'])('%s is no frame', (text) => {
    expect(() => readFrames([Buffer.from(text)])).toThrow();
  });
});

function frameStream(chunks: Buffer[]): { messages: string[]; pings: number; broken: string | null; partial: boolean } {
  const seen = { messages: [] as string[], pings: 0, broken: null as string | null };
  const framer = new StreamFramer({
    message: (bytes) => seen.messages.push(bytes.toString('latin1')),
    ping: () => seen.pings++,
    broken: (_head, why) => {
      seen.broken = why;
    },
  });
  for (const chunk of chunks) framer.push(chunk);
  return { ...seen, partial: framer.partial };
}

describe('SIP over TCP', () => {
  const message = (body: string, length = 'Content-Length') =>
    `OPTIONS sip:a SIP/2.0\r\nX: 1\r\n${length}: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

  it('comes out whole however the stream was cut', () => {
    const bodies = fc.array(fc.string({ maxLength: 3000, unit: 'binary-ascii' }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(bodies, fc.array(fc.nat(20_000), { maxLength: 20 }), (texts, cuts) => {
        const sent = texts.map((text) => message(text));
        const got = frameStream(pieces(Buffer.from(sent.join(''), 'latin1'), cuts));
        expect(got.messages).toEqual(sent);
        expect(got.partial).toBe(false);
      }),
    );
  });

  it('knows the compact form and folded lengths', () => {
    expect(frameStream([Buffer.from(message('abc', 'l') + message('de', 'CONTENT-length'))]).messages).toHaveLength(2);
    expect(
      frameStream([Buffer.from('OPTIONS sip:a SIP/2.0\r\nContent-Length:\r\n 2\r\n\r\nab')]).messages,
    ).toHaveLength(1);
  });

  it('answers a double CRLF, not a single one', () => {
    expect(frameStream([Buffer.from('\r\n\r\n')]).pings).toBe(1);
    const single = frameStream([Buffer.from(`\r\n${message('')}`)]);
    expect(single.pings).toBe(0);
    expect(single.messages).toHaveLength(1);
  });

  it.each([
    ['no Content-Length', 'OPTIONS sip:a SIP/2.0\r\nX: 1\r\n\r\n'],
    ['a length that is none', 'OPTIONS sip:a SIP/2.0\r\nContent-Length: -5\r\n\r\n'],
    ['a length beyond the limit', 'OPTIONS sip:a SIP/2.0\r\nContent-Length: 999999999\r\n\r\n'],
    ['a head without end', `OPTIONS sip:a SIP/2.0\r\nX: ${'a'.repeat(MAX_HEAD_BYTES)}`],
  ])('gives up on %s, once', (_what, text) => {
    const got = frameStream([Buffer.from(text), Buffer.from(message('later'))]);
    expect(got.broken).not.toBeNull();
    expect(got.messages).toEqual([]);
  });

  it('reports that half a message waits', () => {
    expect(frameStream([Buffer.from(message('abc').slice(0, -1))]).partial).toBe(true);
  });
});
