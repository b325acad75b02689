import { describe, expect, it } from 'vitest';
import { linearToAlaw, linearToUlaw, silenceByte, ulawToLinear } from '../../media/audio/codec/g711.js';
import { Uplink } from '../../media/audio/receive/agent-uplink.js';
import { probeTone } from '../support/tone-probe.js';

const law = { PCMU: linearToUlaw, PCMA: linearToAlaw };

/** A voice: harmonics of a pitch that glides a little. */
function voice(samples: number, pitchHz: number): Int16Array {
  const said = new Int16Array(samples);
  let phase = 0;
  for (let i = 0; i < samples; i++) {
    phase += (2 * Math.PI * (pitchHz + 4 * Math.sin(i / 3000))) / 8000;
    let sum = 0;
    for (let k = 1; k <= 12; k++) sum += Math.sin(k * phase) / k;
    said[i] = 3500 * sum;
  }
  return said;
}

function sine(samples: number, frequencyHz: number): Int16Array {
  return Int16Array.from({ length: samples }, (_, i) => 8000 * Math.sin((2 * Math.PI * frequencyHz * i) / 8000));
}

/** What an agent hears of packets of 20 ms of which some are lost. */
function hearWithLoss(
  said: Int16Array,
  lost: (packet: number) => boolean,
  conceal = true,
  codec: 'PCMU' | 'PCMA' = 'PCMU',
) {
  const bytes: number[] = [];
  const uplink = new Uplink(codec, (frame) => bytes.push(...frame), conceal);
  uplink.start(0);
  const coded = Uint8Array.from(said, (sample) => law[codec][sample & 0xffff]!);
  for (let n = 0; n * 160 < coded.length; n++) {
    uplink.tick(n * 20);
    if (!lost(n)) uplink.packet(n, n * 160, coded.subarray(n * 160, (n + 1) * 160), codec, n * 20);
  }
  return bytes;
}

const linear = (bytes: number[]) => Int16Array.from(bytes, (byte) => ulawToLinear[byte]!);
const steepest = (samples: Int16Array) =>
  samples.slice(1).reduce((most, sample, i) => Math.max(most, Math.abs(sample - samples[i]!)), 0);
const loudness = (samples: Int16Array) => Math.sqrt(samples.reduce((sum, each) => sum + each ** 2, 0) / samples.length);

describe('a packet that is lost', () => {
  it.each([200, 440, 1000, 2010])('of a tone of %i Hz sounds on, without a click', (hz) => {
    const said = sine(160 * 30, hz);
    const heard = linear(hearWithLoss(said, (n) => n === 15));
    expect(heard).toHaveLength(160 * 30);
    const gap = heard.subarray(15 * 160, 16 * 160);
    expect(probeTone(gap, hz).amplitude).toBeGreaterThan(5000);
    // No step is much steeper than the tone itself has them.
    const own = steepest(said);
    expect(steepest(heard.subarray(14 * 160, 17 * 160))).toBeLessThan(1.35 * own + 300);
    const silent = linear(hearWithLoss(said, (n) => n === 15, false));
    expect(loudness(silent.subarray(15 * 160, 16 * 160))).toBe(0);
  });

  it.each([90, 120, 190, 250])('of a voice of %i Hz is more like it than silence is', (pitchHz) => {
    const said = voice(160 * 60, pitchHz);
    const lost = (n: number) => n > 10 && n % 7 === 0;
    const errorOf = (heard: Int16Array) => loudness(heard.map((sample, i) => sample - said[i]!));
    const concealed = linear(hearWithLoss(said, lost));
    expect(errorOf(concealed)).toBeLessThan(0.6 * errorOf(linear(hearWithLoss(said, lost, false))));
    expect(steepest(concealed)).toBeLessThan(1.2 * steepest(said));
  });

  it('leaves the line as long as it was', () => {
    const said = voice(160 * 40, 110);
    for (const lost of [(n: number) => n % 5 === 4, (n: number) => n > 10 && n < 16, (n: number) => n % 2 === 1])
      expect(hearWithLoss(said, lost).length).toBeGreaterThanOrEqual(160 * 37);
  });

  it('and many after it: the voice fades and is silent after 60 ms, and the next words begin softly', () => {
    const said = voice(160 * 40, 110);
    const heard = linear(hearWithLoss(said, (n) => n >= 15 && n < 21));
    const by10 = Array.from({ length: 12 }, (_, i) => loudness(heard.subarray(2400 + i * 80, 2480 + i * 80)));
    expect(by10[0]).toBeGreaterThan(0.7 * loudness(said));
    expect(by10[4]).toBeLessThan(0.5 * by10[0]!);
    expect(by10.slice(6)).toEqual(Array(6).fill(0));
    expect(steepest(heard)).toBeLessThan(1.2 * steepest(said));
  });

  it('of the other law is made up in it', () => {
    const heard = hearWithLoss(sine(160 * 30, 440), (n) => n === 15, true, 'PCMA');
    expect(new Set(heard.slice(2400, 2560)).size).toBeGreaterThan(20);
    expect(heard.slice(2400, 2560)).not.toContain(silenceByte.PCMA);
  });
});

it('a pause that the phone did not send (DTX) is silence, and so is what is lost at the beginning', () => {
  const said = sine(160 * 10, 440);
  const bytes: number[] = [];
  const uplink = new Uplink('PCMU', (frame) => bytes.push(...frame), true);
  uplink.start(0);
  const coded = Uint8Array.from(said, (sample) => linearToUlaw[sample & 0xffff]!);
  const send = (sequence: number, place: number) =>
    uplink.packet(sequence, place * 160, coded.slice(0, 160), 'PCMU', place * 20);
  for (let n = 0; n < 5; n++) send(n, n);
  send(5, 8);
  expect(bytes.slice(800, 1280)).toEqual(Array(480).fill(silenceByte.PCMU));
  send(7, 10);
  send(8, 11);
  send(9, 12);
  expect(bytes.slice(1440, 1600)).toEqual(Array(160).fill(silenceByte.PCMU));
});
