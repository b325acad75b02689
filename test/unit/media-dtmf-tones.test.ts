import { describe, expect, it } from 'vitest';
import { linearToAlaw, linearToUlaw, silenceByte } from '../../media/audio/codec/g711.js';
import { DtmfListener, type ToneKey, writeKeyTone } from '../../media/audio/detect/dtmf-tones.js';

type G711 = 'PCMU' | 'PCMA';

const keys = '0123456789*#ABCD';
const ms = (durationMs: number) => durationMs * 8;

function encoded(samples: ArrayLike<number>, codec: G711): Uint8Array {
  const table = codec === 'PCMA' ? linearToAlaw : linearToUlaw;
  return Uint8Array.from(samples, (sample) => table[Math.max(-32768, Math.min(32767, Math.round(sample))) & 0xffff]!);
}

/** In packets of 20 ms, and then silence. */
function hear(bytes: Uint8Array, codec: G711 = 'PCMU'): ToneKey[] {
  const listener = new DtmfListener();
  const whole = new Uint8Array(bytes.length + ms(100)).fill(silenceByte[codec]);
  whole.set(bytes);
  const heard: ToneKey[] = [];
  for (let at = 0; at < whole.length; at += 160) {
    const key = listener.hear(whole.subarray(at, at + 160), codec);
    if (key) heard.push(key);
  }
  return heard;
}

const digits = (heard: ToneKey[]) => heard.map((key) => key.digit).join('');

function pair(rowHz: number, columnHz: number, durationMs: number, rowPeak = 6000, columnPeak = 6000): number[] {
  return Array.from(
    { length: ms(durationMs) },
    (_, n) =>
      rowPeak * Math.sin((2 * Math.PI * rowHz * n) / 8000) + columnPeak * Math.sin((2 * Math.PI * columnHz * n) / 8000),
  );
}

/** A fixed sequence in -1…1. */
function noise(): () => number {
  let seed = 7;
  return () => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff;
    return seed / 0x3fffffff - 1;
  };
}

describe('keys as tones', () => {
  it.each(['PCMU', 'PCMA'] as const)('what we write we hear, every key once and as long as it was (%s)', (codec) => {
    const press = ms(100);
    const bytes = new Uint8Array(keys.length * ms(160)).fill(silenceByte[codec]);
    for (const [i, key] of [...keys].entries()) {
      const from = i * ms(160);
      // In packets: the phase goes on from one to the next.
      for (let at = 0; at < press; at += 160) writeKeyTone(key, codec, at, bytes, from + at, from + at + 160);
    }
    const heard = hear(bytes, codec);
    expect(digits(heard)).toBe(keys);
    for (const { durationMs } of heard) expect(Math.abs(durationMs - 100)).toBeLessThanOrEqual(26);
  });

  it.each([
    ['40 ms', pair(770, 1336, 40), '5'],
    ['20 ms', pair(770, 1336, 20), ''],
    ['quiet (-33 dBm0 each)', pair(770, 1336, 80, 510, 510), '5'],
    ['too quiet', pair(770, 1336, 80, 100, 100), ''],
    ['1.5 % off', pair(770 * 1.015, 1336 * 0.985, 80), '5'],
    ['5 % off', pair(770 * 1.05, 1336 * 1.05, 80), ''],
    ['one tone 6 dB louder', pair(770, 1336, 80, 3000, 6000), '5'],
    ['one tone 12 dB louder', pair(770, 1336, 80, 1500, 6000), ''],
    ['one tone alone', pair(770, 1336, 200, 8000, 0), ''],
    ['two of a group', pair(770, 852, 200), ''],
    ['a dial tone', pair(350, 440, 500), ''],
    ['ringing', pair(440, 480, 500), ''],
    ['busy', pair(480, 620, 500), ''],
    ['a long press', pair(941, 1336, 3000), '0'],
  ])('%s', (_, samples, expected) => {
    expect(digits(hear(encoded(samples, 'PCMU')))).toBe(expected);
  });

  it('one key pressed twice is two keys, and one with a hole of a lost packet is one', () => {
    const once = pair(697, 1209, 60);
    expect(digits(hear(encoded([...once, ...new Array(ms(40)).fill(0), ...once], 'PCMU')))).toBe('11');
    const long = pair(697, 1209, 200);
    for (let i = ms(102); i < ms(108); i++) long[i] = 0;
    expect(digits(hear(encoded(long, 'PCMU')))).toBe('1');
  });

  it('noise 15 dB below hides no key', () => {
    const next = noise();
    const samples = pair(852, 1477, 80).map((sample) => sample + 1800 * next());
    expect(digits(hear(encoded(samples, 'PCMU')))).toBe('9');
  });

  it('a minute of voiced speech holds none', () => {
    const next = noise();
    const samples: number[] = [];
    let pitchHz = 120;
    let phase = 0;
    for (let n = 0; n < ms(60_000); n++) {
      if (n % ms(80) === 0) pitchHz = 90 + 80 * Math.abs(next());
      phase += pitchHz / 8000;
      let sample = 0;
      for (let harmonic = 1; harmonic <= 12; harmonic++) sample += Math.sin(2 * Math.PI * harmonic * phase) / harmonic;
      const syllable = Math.max(0, Math.sin((2 * Math.PI * 4 * n) / 8000));
      samples.push(syllable * (5000 * sample + 400 * next()));
    }
    expect(hear(encoded(samples, 'PCMU'))).toEqual([]);
  });

  it('a press without an end is over when its end is reported', () => {
    const listener = new DtmfListener();
    listener.hear(encoded(pair(697, 1209, 60), 'PCMU'), 'PCMU');
    expect(listener.pressed).toBe(true);
    expect(listener.quiet()).toMatchObject({ digit: '1' });
    expect(listener.pressed).toBe(false);
    expect(listener.quiet()).toBeNull();
  });
});
