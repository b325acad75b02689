/** Each codec of its own: the bits of G.722 against other people's, Opus with and without loss, comfort noise, clocks, what SDP says. */
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { G722Decoder, G722Encoder } from '../../media/audio/codec/g722.js';
import { OpusCoder } from '../../media/audio/codec/opus.js';
import { holdsCopy, opusPacketMs } from '../../media/audio/codec/opus-packet.js';
import { G722Coder } from '../../media/audio/codec/wide-codec.js';
import { meanSquare } from '../../media/audio/detect/frame-level.js';
import { ComfortNoise } from '../../media/audio/dsp/comfort-noise.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { TimestampClock } from '../../media/audio/playout/timestamp-clock.js';
import { sampleConverter, sampleFormatOf, samplesOf } from '../../media/audio/sample-format.js';
import { opusDefaults, readOpusParameters } from '../../media/opus-parameters.js';
import { probeTone } from '../support/tone-probe.js';

/**
 * Triangles from 200 Hz to 5.3 kHz at three loudnesses, silence, noise at full scale, and something like a voice: 5 s at 16 kHz, in whole
 * numbers alone, so that every machine makes the same.
 */
function mixture(): Int16Array {
  const samples: number[] = [];
  const triangle = (i: number, period: number, peak: number) =>
    Math.trunc((peak * (Math.abs(((4 * i) % (4 * period)) - 2 * period) - period)) / period);
  let seed = 5;
  const random = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (seed >> 8) & 0xffff;
  };
  for (const period of [80, 37, 16, 7, 5, 4, 3])
    for (const peak of [300, 8000, 28_000]) for (let i = 0; i < 1600; i++) samples.push(triangle(i, period, peak));
  for (let i = 0; i < 800; i++) samples.push(0);
  for (let i = 0; i < 8000; i++) samples.push(random() - 32_768);
  for (let i = 0; i < 37_600; i++) {
    const loud = Math.abs(triangle(i, 4000, 100));
    const pitch = 100 + (Math.trunc(i / 1000) % 5) * 13;
    const voice = triangle(i, pitch, 6000) + triangle(i, pitch >> 2, 3000) + triangle(i, 9, 1200);
    samples.push(Math.trunc((loud * voice) / 100) + (random() % 41) - 20);
  }
  return Int16Array.from(samples);
}

const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex').slice(0, 16);

function throughG722(samples: Int16Array, frame = 320): { bytes: Uint8Array; heard: Int16Array } {
  const [encoder, decoder] = [new G722Encoder(), new G722Decoder()];
  const bytes = new Uint8Array(samples.length / 2);
  const heard = new Int16Array(samples.length);
  for (let at = 0; at < samples.length; at += frame) {
    const coded = encoder.encode(samples.subarray(at, at + frame), bytes, at / 2);
    decoder.decode(bytes.subarray(at / 2, at / 2 + coded), heard.subarray(at, at + frame));
  }
  return { bytes, heard };
}

describe('G.722', () => {
  it('makes the bits that libspandsp 0.0.6 makes of the same 5 s', () => {
    const said = mixture();
    expect(digest(new Uint8Array(said.buffer))).toBe(MIXTURE);
    expect(digest(throughG722(said).bytes)).toBe(SPANDSP);
  });

  it('is the same in frames of any length', () => {
    const said = mixture().subarray(0, 48_000);
    for (const frame of [2, 160, 640, 960, 2000])
      expect(digest(throughG722(said, frame).bytes)).toBe(digest(throughG722(said).bytes));
  });

  it.each([300, 1000, 3000, 5000, 6500])('carries %i Hz at its level', (frequencyHz) => {
    const { heard } = throughG722(tone({ frequencyHz, durationMs: 1000, sampleRateHz: 16_000 }));
    const probe = probeTone(heard.subarray(1600), frequencyHz, 16_000);
    expect(Math.abs(20 * Math.log10(probe.amplitude / 8000))).toBeLessThan(0.5);
    expect(probe.purityDb).toBeGreaterThan(frequencyHz < 4000 ? 30 : 12);
  });

  it('goes on with the voice where a packet is lost', () => {
    const coder = new G722Coder();
    const said = tone({ frequencyHz: 250, durationMs: 400, sampleRateHz: 16_000 });
    const bytes = new Uint8Array(160);
    for (let at = 0; at < said.length; at += 320) {
      coder.encode(said.subarray(at, at + 320), bytes, 0);
      coder.decode(bytes);
    }
    const made = coder.conceal(320).slice();
    const expected = tone({ frequencyHz: 250, durationMs: 420, sampleRateHz: 16_000 }).subarray(6400);
    expect(probeTone(made.subarray(0, 160), 250, 16_000).amplitude).toBeGreaterThan(6500);
    expect(made).toHaveLength(expected.length);
    for (let i = 0; i < 3; i++) coder.conceal(320);
    expect(coder.conceal(320).every((sample) => sample === 0)).toBe(true);
  });
});

describe('Opus', () => {
  /** Of every ten packets those are lost. */
  async function over(lost: readonly number[], fec: boolean) {
    const coder = await OpusCoder.open();
    try {
      coder.tune({ ...opusDefaults, inbandFec: fec });
      coder.lossHeard(10 * lost.length);
      const said = voice24();
      const heard = new Int16Array(said.length);
      const packets: Uint8Array[] = [];
      for (let at = 0; at + 480 <= said.length; at += 480) {
        const into = new Uint8Array(1275);
        packets.push(into.subarray(0, coder.encode(said.subarray(at, at + 480), into, 0)));
      }
      let copies = 0;
      packets.forEach((packet, i) => {
        if (lost.includes(i % 10)) {
          const next = packets[i + 1];
          const known = next && !lost.includes((i + 1) % 10) ? coder.recover(next, 480) : null;
          if (known) copies += 1;
          heard.set(known ?? coder.conceal(480), i * 480);
        } else heard.set(coder.decode(packet)!, i * 480);
      });
      return { said, heard, copies, bytes: packets.reduce((sum, packet) => sum + packet.length, 0), packets };
    } finally {
      coder.free();
    }
  }

  it('carries a tone at its level and its frequency, above 8 kHz too', async () => {
    const coder = await OpusCoder.open();
    coder.tune(opusDefaults);
    for (const frequencyHz of [440, 3000, 6000, 10_000]) {
      const said = tone({ frequencyHz, durationMs: 1000, sampleRateHz: 24_000 });
      const heard = new Int16Array(said.length);
      const into = new Uint8Array(1275);
      for (let at = 0; at < said.length; at += 480)
        heard.set(coder.decode(into.subarray(0, coder.encode(said.subarray(at, at + 480), into, 0)))!, at);
      const { amplitude } = probeTone(heard.subarray(6000), frequencyHz, 24_000);
      expect(Math.abs(20 * Math.log10(amplitude / 8000)), `${frequencyHz} Hz`).toBeLessThan(1);
    }
    coder.free();
  });

  it('hears of a lost packet from the next one, which is nearer to what was said than a guess', async () => {
    const guessed = await over([4], false);
    const told = await over([4], true);
    expect(guessed.copies).toBe(0);
    expect(told.copies).toBeGreaterThan(told.packets.length / 20);
    const lostOnly = (samples: Int16Array) =>
      Int16Array.from({ length: samples.length }, (_, i) => (Math.floor(i / 480) % 10 === 4 ? samples[i]! : 0));
    const gain = loudnessError(told, lostOnly) - loudnessError(guessed, lostOnly);
    expect(gain).toBeLessThan(0);
  });

  it('says how long a packet is, and refuses what is none', async () => {
    const { packets } = await over([], true);
    expect(packets.every((packet) => opusPacketMs(packet) === 20)).toBe(true);
    expect(packets.filter(holdsCopy).length).toBeGreaterThan(packets.length / 4);
    const coder = await OpusCoder.open();
    for (const bad of [[], [0xff], [0x7b, 0xff, 0xff], [0x03, 0x00]])
      expect(coder.decode(Uint8Array.from(bad))).toBeNull();
    coder.free();
    coder.free();
    expect(opusPacketMs(Uint8Array.of(0x03, 63))).toBe(0);
    expect(opusPacketMs(new Uint8Array(0))).toBe(0);
  });

  it('sends nothing of silence to who asked for that (DTX)', async () => {
    const coder = await OpusCoder.open();
    coder.tune({ ...opusDefaults, dtx: true });
    const into = new Uint8Array(1275);
    const lengths = Array.from({ length: 100 }, () => coder.encode(new Int16Array(480), into, 0));
    coder.free();
    expect(lengths.filter((length) => length === 0).length).toBeGreaterThan(60);
  });
});

/** A voice whose harmonics change, at 24 kHz, 4 s. */
function voice24(): Int16Array {
  let phase = 0;
  return Int16Array.from({ length: 96_000 }, (_, i) => {
    phase += (2 * Math.PI * (140 + 40 * Math.sin(i / 7000))) / 24_000;
    const loud = 0.3 + 0.7 * Math.abs(Math.sin(i / 3000));
    const vowel = 3 + 2 * Math.sin(i / 2100);
    let sum = 0;
    for (let n = 1; n <= 20; n++) sum += Math.sin(n * phase) / (1 + Math.abs(n - vowel));
    return 2500 * loud * sum;
  });
}

/** How far the loudness of 5 ms pieces is from what was said, on average, in dB: waveforms of Opus do not match, what is heard does. */
function loudnessError(
  { said, heard }: { said: Int16Array; heard: Int16Array },
  only: (samples: Int16Array) => Int16Array,
): number {
  const lookahead = 156;
  const [a, b] = [only(said), heard];
  let [sum, count] = [0, 0];
  for (let at = 480; at + 120 + lookahead < a.length; at += 120) {
    if (Math.floor(at / 480) % 10 !== 4) continue;
    const power = (samples: Int16Array, from: number) => {
      let total = 1;
      for (let i = from; i < from + 120; i++) total += samples[i]! ** 2;
      return 10 * Math.log10(total);
    };
    sum += Math.abs(power(a, at) - power(b, at + lookahead));
    count += 1;
  }
  return sum / count;
}

describe('comfort noise', () => {
  it.each(['PCMU', 'PCMA', 'G722', 'OPUS'] as const)('of %s is as loud as the far side says', (codec) => {
    for (const level of [42, 50, 60]) {
      const noise = new ComfortNoise();
      noise.told(Uint8Array.of(level));
      const bytes = new Uint8Array(200 * sampleFormatOf[codec].bytesPerMs);
      expect(noise.fill(bytes, 0, bytes.length, codec)).toBe(true);
      expect(Math.abs(10 * Math.log10(meanSquare(bytes, codec) / 32_767 ** 2) + level)).toBeLessThan(1);
    }
  });

  it('is silence when it is too quiet to be heard, or was never told', () => {
    const noise = new ComfortNoise();
    expect(noise.fill(new Uint8Array(160), 0, 160, 'PCMU')).toBe(false);
    noise.told(Uint8Array.of(127));
    expect(noise.fill(new Uint8Array(160), 0, 160, 'PCMU')).toBe(false);
    noise.told(new Uint8Array(0));
    expect(noise.fill(new Uint8Array(160), 0, 160, 'PCMU')).toBe(false);
  });
});

describe('lines', () => {
  it.each([
    ['PCMU', 'G722'],
    ['G722', 'OPUS'],
    ['OPUS', 'PCMA'],
    ['PCMA', 'OPUS'],
    ['OPUS', 'G722'],
  ] as const)('%s becomes %s with its tone and its length', (from, to) => {
    const { sampleRateHz, linear } = sampleFormatOf[from];
    const said = tone({ frequencyHz: 1000, durationMs: 1000, sampleRateHz });
    const bytes = linear
      ? new Uint8Array(said.buffer)
      : sampleConverter(
          'G722',
          from,
        )(new Uint8Array(tone({ frequencyHz: 1000, durationMs: 1000, sampleRateHz: 16_000 }).buffer));
    const change = sampleConverter(from, to);
    const parts: Uint8Array[] = [];
    const frame = 20 * sampleFormatOf[from].bytesPerMs;
    for (let at = 0; at < bytes.length; at += frame) parts.push(change(bytes.subarray(at, at + frame)));
    const whole = Uint8Array.from(parts.flatMap((part) => [...part]));
    expect(whole).toHaveLength(1000 * sampleFormatOf[to].bytesPerMs);
    const heard = sampleFormatOf[to].linear ? samplesOf(whole) : samplesOf(sampleConverter(to, 'G722')(whole));
    const rate = sampleFormatOf[to].linear ? sampleFormatOf[to].sampleRateHz : 16_000;
    const { amplitude, purityDb } = probeTone(heard.subarray(rate / 10), 1000, rate);
    expect(Math.abs(20 * Math.log10(amplitude / 8000))).toBeLessThan(0.3);
    expect(purityDb).toBeGreaterThan(28);
  });

  it('keep their time when the clock of the packets changes, and over its wrap', () => {
    const clock = new TimestampClock();
    expect(clock.place(160, 1, 0)).toBe(160);
    expect(clock.place(4_294_967_000, 6, 320)).toBe(320);
    expect(clock.place((4_294_967_000 + 960) >>> 0, 6, 0)).toBe(480);
    expect(clock.place((4_294_967_000 + 1920) >>> 0, 6, 0)).toBe(640);
    expect(clock.place(77, 1, 800)).toBe(800);
    expect(clock.place(237, 1, 0)).toBe(960);
  });
});

describe('the parameters of Opus', () => {
  it('are read as RFC 7587 says, whatever else stands there', () => {
    expect(readOpusParameters('')).toEqual(opusDefaults);
    expect(
      readOpusParameters(
        'maxplaybackrate=16000; Stereo=1;useinbandfec=1; usedtx=1;maxaveragebitrate=20000;cbr=1;x=y;;=;',
      ),
    ).toEqual({
      maxPlaybackRateHz: 16_000,
      maxAverageBitrate: 20_000,
      stereo: true,
      cbr: true,
      inbandFec: true,
      dtx: true,
    });
    expect(readOpusParameters('maxplaybackrate=1;maxaveragebitrate=9999999;useinbandfec=yes;stereo=-1')).toEqual({
      ...opusDefaults,
      maxPlaybackRateHz: 8000,
    });
  });
});

/** Of the input, made by the same arithmetic, and of what `g722_encode` of libspandsp makes of it (64 kbit/s). */
const MIXTURE = 'cc5a96ce67592b0e';
const SPANDSP = 'ac7215e2569c5a02';
