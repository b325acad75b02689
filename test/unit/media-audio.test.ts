import { describe, expect, it } from 'vitest';
import type { AudioFormat } from '../../media/agents/agent.js';
import {
  alawToLinear,
  alawToUlaw,
  linearToAlaw,
  linearToUlaw,
  ulawToAlaw,
  ulawToLinear,
} from '../../media/audio/codec/g711.js';
import { agentToPhone, phoneToAgent } from '../../media/audio/codec/transcode.js';
import { isQuiet, meanSquare } from '../../media/audio/detect/frame-level.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { readWav, writeWav } from '../../media/audio/wav.js';
import { probeTone } from '../support/tone-probe.js';

describe('G.711', () => {
  it.each([
    ['µ-law', ulawToLinear, { 0: -32124, 128: 32124, 255: 0, 127: 0, 254: 8, 126: -8, 240: 120 }],
    ['A-law', alawToLinear, { 213: 8, 85: -8, 170: 32256, 42: -32256, 212: 24 }],
  ])('decodes %s as the recommendation says', (_law, table, known) => {
    for (const [code, sample] of Object.entries(known)) expect(table[Number(code)]).toBe(sample);
  });

  it.each([
    ['µ-law', ulawToLinear, linearToUlaw],
    ['A-law', alawToLinear, linearToAlaw],
  ])('%s gives every code back, and every sample within half a step of its segment', (_law, decode, encode) => {
    for (let code = 0; code < 256; code++) expect(decode[encode[decode[code]! & 0xffff]!]).toBe(decode[code]);
    for (let sample = -32768; sample < 32768; sample++) {
      const error = Math.abs(decode[encode[sample & 0xffff]!]! - sample);
      if (error > Math.max(8, (Math.abs(sample) + 132) / 32)) expect.fail(`${sample} is off by ${error}`);
    }
  });

  it('goes from law to law and back within one step', () => {
    for (let code = 0; code < 256; code++) {
      const there = ulawToAlaw[code]!;
      const step = Math.max(16, Math.abs(ulawToLinear[code]!) / 16);
      expect(Math.abs(alawToLinear[there]! - ulawToLinear[code]!)).toBeLessThanOrEqual(step);
      expect(Math.abs(ulawToLinear[alawToUlaw[there]!]! - ulawToLinear[code]!)).toBeLessThanOrEqual(2 * step);
    }
  });
});

describe('between phone and agent', () => {
  const formats: AudioFormat[] = [
    { encoding: 'ulaw', sampleRateHz: 8000 },
    { encoding: 'alaw', sampleRateHz: 8000 },
    { encoding: 'l16', sampleRateHz: 8000 },
    { encoding: 'l16', sampleRateHz: 16000 },
    { encoding: 'l16', sampleRateHz: 24000 },
    { encoding: 'l16', sampleRateHz: 48000 },
    { encoding: 'ulaw', sampleRateHz: 16000 },
  ];
  const laws = [
    ['PCMU', linearToUlaw, ulawToLinear],
    ['PCMA', linearToAlaw, alawToLinear],
  ] as const;

  it.each(laws.flatMap((law) => formats.map((format) => [...law, format] as const)))(
    'a tone survives %s and back',
    (codec, encode, decode, format) => {
      const up = phoneToAgent(codec, format);
      const down = agentToPhone(format, codec);
      const samples = tone({ frequencyHz: 1000, durationMs: 1000 });
      const back: number[] = [];
      for (let i = 0; i < samples.length; i += 160) {
        const bytes = Uint8Array.from(samples.subarray(i, i + 160), (sample) => encode[sample & 0xffff]!);
        const sent = Uint8Array.from(up(bytes));
        expect(sent.length).toBeLessThanOrEqual(((format.encoding === 'l16' ? 2 : 1) * format.sampleRateHz) / 50 + 200);
        // In two pieces, as a socket may deliver it.
        const half = (sent.length >> 2) << 1;
        back.push(...down(sent.subarray(0, half)), ...down(sent.subarray(half)));
      }
      const heard = Int16Array.from(back.slice(1600, 7200), (byte) => decode[byte]!);
      const { amplitude, purityDb } = probeTone(heard, 1000);
      expect(amplitude).toBeGreaterThan(7500);
      expect(amplitude).toBeLessThan(8500);
      expect(purityDb).toBeGreaterThan(28);
    },
  );

  it('leaves bytes untouched where both sides are the same', () => {
    const bytes = Uint8Array.of(1, 2, 3);
    expect(phoneToAgent('PCMU', formats[0]!)(bytes)).toBe(bytes);
    expect(agentToPhone(formats[1]!, 'PCMA')(bytes)).toBe(bytes);
  });
});

describe('loudness', () => {
  it('is the mean square of the samples, in either law', () => {
    const loud = tone({ frequencyHz: 1000, durationMs: 20, amplitude: 8000 });
    for (const [law, encode] of [
      ['PCMU', linearToUlaw],
      ['PCMA', linearToAlaw],
    ] as const) {
      const bytes = Uint8Array.from(loud, (sample) => encode[sample & 0xffff]!);
      expect(Math.sqrt(meanSquare(bytes, law)) / (8000 / Math.SQRT2)).toBeCloseTo(1, 1);
      expect(isQuiet(bytes, law)).toBe(false);
      expect(isQuiet(new Uint8Array(160).fill(encode[0]!), law)).toBe(true);
    }
    expect(meanSquare(new Uint8Array(0), 'PCMU')).toBe(0);
  });
});

describe('WAV', () => {
  const wav = { sampleRateHz: 16000, channels: [Int16Array.of(1, -2, 32767), Int16Array.of(-32768, 5)] };

  it('reads what it wrote, filling short channels with silence', () => {
    expect(readWav(writeWav(wav))).toEqual({
      sampleRateHz: 16000,
      channels: [wav.channels[0], Int16Array.of(-32768, 5, 0)],
    });
  });

  it('reads G.711', () => {
    const file = writeWav({ sampleRateHz: 8000, channels: [new Int16Array(2)] });
    file[20] = 7;
    file[34] = 8;
    file.set([0x80, 0xff, 0x00, 0xfe], 44);
    expect(readWav(file).channels).toEqual([Int16Array.of(32124, 0, -32124, 8)]);
  });

  it('cuts a length that lies', () => {
    const file = writeWav(wav);
    new DataView(file.buffer).setUint32(40, 0xfffffff0, true);
    expect(readWav(file).channels[0]).toHaveLength(3);
  });

  it.each<[string, (file: Uint8Array) => Uint8Array]>([
    ['nothing', () => new Uint8Array(0)],
    ['another file', () => new TextEncoder().encode('ID3 and much more than twelve bytes')],
    ['a header alone', (file) => file.subarray(0, 36)],
    ['24 bit samples', (file) => file.fill(24, 34, 35)],
    ['six channels', (file) => file.fill(6, 22, 23)],
  ])('refuses %s with a sentence', (_what, change) => {
    expect(() => readWav(change(writeWav(wav)))).toThrow(/WAV/);
  });
});
