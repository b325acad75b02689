import { MessageChannel } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { writeWav } from '../../media/audio/wav.js';
import { activeLevelDb, spokenLevelDb } from '../../src/speech/loudness.js';
import { SpeechStream } from '../../src/speech/speech-stream.js';
import { type PcmStart, pcmStartOf } from '../../src/speech/wav-stream.js';
import { probeTone } from '../support/tone-probe.js';

const wav = (sampleRateHz: number, channelCount: number, durationMs = 400, amplitude = 8000) => {
  const samples = tone({ frequencyHz: 440, durationMs, sampleRateHz, amplitude });
  return writeWav({ sampleRateHz, channels: Array.from({ length: channelCount }, () => samples) });
};

describe('the beginning of a file', () => {
  const known = wav(24_000, 1);
  const unknown = (size: number) => {
    const file = known.slice();
    new DataView(file.buffer).setUint32(40, size, true);
    return file;
  };
  const withList = Uint8Array.from([
    ...known.slice(0, 36),
    0x4c,
    0x49,
    0x53,
    0x54,
    3,
    0,
    0,
    0,
    1,
    2,
    3,
    0,
    ...known.slice(36),
  ]);
  const mono24 = { sampleRateHz: 24_000, channelCount: 1 };
  it.each<[string, Uint8Array, string, PcmStart | null]>([
    ['a WAV file', known, 'audio/wav', { ...mono24, offset: 44, length: known.length - 44 }],
    ['one that does not know its length', unknown(0xffff_ffff), '', { ...mono24, offset: 44, length: Infinity }],
    ['one that wrote 0', unknown(0), '', { ...mono24, offset: 44, length: Infinity }],
    ['one with other chunks', withList, '', { ...mono24, offset: 56, length: known.length - 44 }],
    ['a stereo one', wav(22_050, 2), '', { sampleRateHz: 22_050, channelCount: 2, offset: 44, length: 35_280 }],
    ['PCM', Uint8Array.from([1, 2]), 'audio/pcm', { ...mono24, offset: 0, length: Infinity }],
    [
      'PCM of another rate',
      new Uint8Array(0),
      'audio/L16; rate=16000; channels=2',
      { sampleRateHz: 16_000, channelCount: 2, offset: 0, length: Infinity },
    ],
    ['MP3', Uint8Array.from([0xff, 0xfb, 0x90, 0]), 'audio/mpeg', null],
    ['text', new TextEncoder().encode('<html>'), 'text/html', null],
    ['a RIFF file of another kind', new TextEncoder().encode('RIFF1234AVI LIST'), '', null],
  ])('of %s', (_name, file, contentType, expected) => {
    expect(pcmStartOf(file, contentType)).toEqual(expected);
  });

  it('may arrive byte by byte', () => {
    for (let length = 1; length < 44; length += 1)
      expect(pcmStartOf(known.subarray(0, length), 'audio/wav')).toBeUndefined();
    expect(pcmStartOf(known.subarray(0, 44), 'audio/wav')).toMatchObject(mono24);
  });

  it.each([8, 24])('of %i bits is no stream unless it is 16', (bits) => {
    const file = known.slice();
    new DataView(file.buffer).setUint16(34, bits, true);
    expect(pcmStartOf(file, '')).toBeNull();
  });
});

/** What a stream makes of a file that comes in parts of so many bytes. */
function streamed(file: Uint8Array, partBytes: number, gain: number | null = null): SpeechStream {
  const start = pcmStartOf(file, '') as PcmStart;
  const stream = new SpeechStream(start, gain);
  for (let at = start.offset; at < file.length; at += partBytes) stream.take(file.subarray(at, at + partBytes));
  return stream;
}

describe('a stream of speech', () => {
  it.each([
    [8000, 1, 8000],
    [16_000, 2, 16_000],
    [22_050, 1, 24_000],
    [24_000, 1, 24_000],
    [44_100, 2, 24_000],
  ])('of %i Hz and %i channels is the same sound in parts of any size', async (rate, channels, playedRate) => {
    for (const partBytes of [1, 7, 4096, 100_000]) {
      const stream = streamed(wav(rate, channels), partBytes);
      stream.finish(null);
      expect(await stream.ended).toBeNull();
      expect(stream.format).toEqual({ encoding: 'l16', sampleRateHz: playedRate });
      expect(Math.abs(stream.receivedMs - 400)).toBeLessThan(3);
      const { purityDb } = probeTone(stream.samples.subarray(playedRate / 20, (playedRate * 3) / 10), 440, playedRate);
      expect(purityDb).toBeGreaterThan(30);
    }
  });

  it.each([1000, 4000, 16_000])(
    'of amplitude %i is as loud as others, and exactly so once its voice is known',
    async (amplitude) => {
      const level = (stream: SpeechStream) => activeLevelDb(stream.samples, 24_000);
      const first = streamed(wav(24_000, 1, 400, amplitude), 500);
      first.finish(null);
      const estimated = amplitude === 1000 ? 10 * Math.log10(1000 ** 2 / 2 / 32_768 ** 2) + 10 : spokenLevelDb; // 10 dB at most
      expect(Math.abs(level(first) - estimated)).toBeLessThan(1);
      const second = streamed(wav(24_000, 1, 400, amplitude), 500, first.measuredGain);
      expect(Math.abs(level(second) - spokenLevelDb)).toBeLessThan(0.5);
    },
  );

  it('begins with its first sound, after 100 ms of it', async () => {
    const silence = new Uint8Array(48_000);
    const file = wav(24_000, 1, 300);
    const stream = new SpeechStream({ ...(pcmStartOf(file, '') as PcmStart), length: Infinity }, null);
    stream.take(silence);
    stream.take(file.subarray(44, 44 + 4000));
    expect(stream.hasSound).toBe(false);
    stream.take(file.subarray(4044, 5044));
    await stream.begun;
    expect(Math.round(stream.receivedMs)).toBe(104);
  });

  it('that fails before its first sound has none', async () => {
    const stream = streamed(wav(24_000, 1, 50), 4096);
    stream.finish('It broke off.');
    expect([stream.hasSound, await stream.ended]).toEqual([false, 'It broke off.']);
  });

  it('is heard by all from the beginning on, whenever they come; after the length of its header nothing follows', async () => {
    const file = wav(24_000, 1, 400);
    const stream = new SpeechStream(pcmStartOf(file, '') as PcmStart, 1);
    const heard = [0, 1, 2].map(() => [] as (Uint8Array | 'end')[]);
    const listen = (to: (Uint8Array | 'end')[]) => {
      const { port1, port2 } = new MessageChannel();
      port1.on('message', (part: Uint8Array | 'end') => to.push(part));
      stream.pour(port2);
    };
    stream.take(file.subarray(44, 10_000));
    listen(heard[0]!);
    stream.take(file.subarray(10_000));
    listen(heard[1]!);
    stream.take(new Uint8Array(5000).fill(77));
    stream.finish(null);
    listen(heard[2]!);
    const whole = Buffer.from(stream.samples.buffer);
    for (const parts of heard) {
      await expect.poll(() => parts.at(-1)).toBe('end');
      expect(Buffer.concat(parts.slice(0, -1) as Uint8Array[]).equals(whole)).toBe(true);
    }
    expect(whole.length).toBe(file.length - 44 - 2); // without the first sample, which is 0
  });
});
