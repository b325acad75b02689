import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createResampler } from '../../media/audio/dsp/resample.js';

const PAIRS: [number, number][] = [
  [8000, 16000],
  [8000, 24000],
  [8000, 48000],
  [16000, 8000],
  [24000, 8000],
  [48000, 8000],
  [16000, 24000],
  [24000, 16000],
];
const AMPLITUDE = 10_000;

function tone(hz: number, rateHz: number, samples: number, amplitude = AMPLITUDE): Int16Array {
  return Int16Array.from({ length: samples }, (_, i) =>
    Math.round(amplitude * Math.sin((2 * Math.PI * hz * i) / rateHz)),
  );
}

/** Amplitude and phase of one frequency, over a Hann window, so that other frequencies do not leak in. */
function probe(samples: Int16Array, hz: number, rateHz: number) {
  let re = 0;
  let im = 0;
  let weight = 0;
  for (const [i, sample] of samples.entries()) {
    const w = 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / samples.length);
    re += w * sample * Math.cos((2 * Math.PI * hz * i) / rateHz);
    im += w * sample * Math.sin((2 * Math.PI * hz * i) / rateHz);
    weight += w;
  }
  return { amplitude: (2 * Math.hypot(re, im)) / weight, phase: Math.atan2(re, im) };
}

const decibel = (ratio: number) => 20 * Math.log10(ratio);

/** One second of a tone through the resampler, without its beginning. */
function settled(hz: number, fromHz: number, toHz: number): Int16Array {
  const resampler = createResampler(fromHz, toHz);
  return resampler.process(tone(hz, fromHz, fromHz)).slice(toHz / 10);
}

describe.each(PAIRS)('%i to %i Hz', (fromHz, toHz) => {
  const lowHz = Math.min(fromHz, toHz);

  test('the speech band passes within 0.1 dB', () => {
    for (const part of [0.0125, 0.05, 0.125, 0.25, 0.375, 0.425]) {
      const hz = part * lowHz;
      const gain = decibel(probe(settled(hz, fromHz, toHz), hz, toHz).amplitude / AMPLITUDE);
      expect(Math.abs(gain), `${hz} Hz`).toBeLessThan(0.1);
    }
  });

  test('what the target cannot carry, and the images of what it can, are below -60 dB', () => {
    const parts = fromHz > toHz ? [0.54, 0.6, 0.75, 0.9] : [0.05, 0.125, 0.25, 0.425];
    for (const part of parts) {
      const hz = part * lowHz;
      if (hz >= fromHz / 2) continue;
      const output = settled(hz, fromHz, toHz);
      // Everything that is not the tone itself: aliases when going down, images when going up, rounding in both.
      const own = fromHz > toHz ? { amplitude: 0, phase: 0 } : probe(output, hz, toHz);
      const at = (i: number) => own.amplitude * Math.sin((2 * Math.PI * hz * i) / toHz + own.phase);
      const rest = Math.sqrt((2 * output.reduce((sum, sample, i) => sum + (sample - at(i)) ** 2, 0)) / output.length);
      expect(decibel(rest / AMPLITUDE), `${hz} Hz`).toBeLessThan(-60);
    }
  });

  test('comes out later by delaySamples', () => {
    const resampler = createResampler(fromHz, toHz);
    const hz = lowHz / 16;
    const output = resampler.process(tone(hz, fromHz, fromHz));
    const { delaySamples } = resampler;
    expect(Number.isInteger(delaySamples)).toBe(true);
    const expected = tone(hz, toHz, output.length);
    const errors = output.map((sample, i) => Math.abs(sample - (expected[i - delaySamples] ?? 0)));
    expect(Math.max(...errors.slice(delaySamples * 3))).toBeLessThan(AMPLITUDE * 0.012);
  });

  test('chunks of any length give the same samples as one piece', () => {
    const input = tone(lowHz / 9, fromHz, 2000);
    const whole = createResampler(fromHz, toHz).process(input);
    const wholeText = whole.join();
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 700 }), { minLength: 1, maxLength: 12 }), (cuts) => {
        const resampler = createResampler(fromHz, toHz);
        const pieces: number[] = [];
        let at = 0;
        for (const length of [...cuts, 2000]) {
          pieces.push(...resampler.process(input.subarray(at, at + length)));
          at += length;
        }
        expect(pieces.join()).toBe(wholeText);
      }),
      { numRuns: 20 },
    );
  });

  test('20 ms in are 20 ms out, every time, into the same memory', () => {
    const resampler = createResampler(fromHz, toHz);
    const frame = new Int16Array(fromHz / 50);
    const first = resampler.process(frame);
    for (let i = 0; i < 100; i++) {
      const output = resampler.process(frame);
      expect(output.length).toBe(toHz / 50);
      expect(output.buffer).toBe(first.buffer);
    }
  });

  test('full scale clips and does not wrap round', () => {
    const square = Int16Array.from({ length: fromHz / 10 }, (_, i) => (i % 80 < 40 ? 32767 : -32768));
    const output = createResampler(fromHz, toHz).process(square);
    // Beside the edges the filter overshoots: wrapped round, the overshoot would change its sign.
    const steady = output.slice(200);
    const signs = steady.filter((each) => each !== 0).map((each) => Math.sign(each));
    const changes = signs.filter((each, i) => i > 0 && each !== signs[i - 1]).length;
    const halfPeriod = (40 * toHz) / fromHz;
    expect(Math.abs(changes - steady.length / halfPeriod)).toBeLessThanOrEqual(1);
    expect(Math.max(...output)).toBe(32767);
    expect(Math.min(...output)).toBe(-32768);
  });

  test('silence stays silence, a constant stays itself, reset forgets', () => {
    const resampler = createResampler(fromHz, toHz);
    expect(resampler.process(new Int16Array(500)).every((each) => each === 0)).toBe(true);
    const constant = resampler.process(new Int16Array(2000).fill(1234)).slice(-50);
    expect(constant.every((each) => each === 1234)).toBe(true);
    resampler.reset();
    expect(resampler.process(new Int16Array(500)).every((each) => each === 0)).toBe(true);
  });
});

test('equal rates pass through', () => {
  const resampler = createResampler(8000, 8000);
  const input = tone(1000, 8000, 160);
  expect(resampler.process(input)).toBe(input);
  expect(resampler.delaySamples).toBe(0);
});
