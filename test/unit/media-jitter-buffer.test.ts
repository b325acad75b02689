import { describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { meanSquare } from '../../media/audio/detect/frame-level.js';
import { PlayoutClock } from '../../media/audio/playout/playout-clock.js';
import { Uplink } from '../../media/audio/receive/agent-uplink.js';
import { ClockedJitterBuffer } from '../../media/thread/session/clocked-jitter-buffer.js';
import { FakeTime } from '../support/fake-time.js';
import { syntheticVoice } from '../support/speech.js';

const frame = 160;
/** The same "random" numbers from 0 to 1 in every run. */
const noise = (i: number) => ((Math.imul(i + 1, 2654435761) >>> 8) % 10_007) / 10_007;
/** With the noise of a room, so that each frame sounds like no other. */
const spoken = Uint8Array.from(
  syntheticVoice(30),
  (sample, i) => linearToUlaw[Math.round(sample + 120 * (noise(i) - 0.5)) & 0xffff]!,
);
const frames = Math.floor(spoken.length / frame);
const frameOf = (i: number) => spoken.subarray(i * frame, (i + 1) * frame);
const nameOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');
const indexes = new Map<string, number>();
for (let i = 0; i < frames; i++) indexes.set(nameOf(frameOf(i)), i);
const isSilent = (bytes: Uint8Array) => bytes.every((code) => Math.abs(ulawToLinear[code]!) < 16);
const isLoud = (i: number) => meanSquare(frameOf(i), 'PCMU') > 1000 * 1000;
const at = (sorted: number[], part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!;

interface Arrival {
  i: number;
  sentMs: number;
  atMs: number;
}

/** A caller's packets, an uplink and a jitter buffer on a clock of the test. */
class Line {
  readonly time = new FakeTime();
  readonly got: { nowMs: number; atMs: number; i: number | null; silent: boolean; delayMs: number }[] = [];
  private readonly sentMs = new Map<number, number>();
  readonly uplink: Uplink;
  private readonly clock = new PlayoutClock(this.time);
  readonly buffer: ClockedJitterBuffer;
  private readonly startMs = this.time.nowMs;

  constructor(mostMs = 200, conceal = true) {
    this.buffer = new ClockedJitterBuffer('PCMU', mostMs, { clock: this.clock, now: this.time.now }, (bytes, atMs) => {
      const { nowMs } = this.time;
      const i = indexes.get(nameOf(bytes)) ?? null;
      const delayMs = i === null ? Number.NaN : nowMs - (this.sentMs.get(i) ?? Number.NaN);
      this.got.push({ nowMs, atMs, i, silent: isSilent(bytes), delayMs });
    });
    this.uplink = new Uplink('PCMU', (bytes, atMs) => void this.buffer.push(bytes, atMs), conceal);
    this.uplink.start(this.time.nowMs);
    let dueMs = this.startMs + 7;
    this.clock.add((nowMs) => {
      this.uplink.tick(nowMs);
      dueMs += 20;
      return dueMs;
    }, dueMs);
  }

  /** Packet `i` is sent at `i` times 20 ms, and arrives `delayMs(i)` later, after the one before it; null: it is lost. */
  speak(
    count: number,
    delayMs: (i: number) => number | null,
    packet: (i: number) => { sequence: number; timestamp: number } = (i) => ({
      sequence: i & 0xffff,
      timestamp: i * frame,
    }),
    from = 0,
  ): void {
    const arrivals: Arrival[] = [];
    let lastMs = 0;
    for (let i = from; i < from + count; i++) {
      const sentMs = this.startMs + i * 20;
      const late = delayMs(i);
      if (late === null) continue;
      lastMs = Math.max(lastMs, sentMs + late);
      arrivals.push({ i, sentMs, atMs: lastMs });
    }
    for (const { i, sentMs, atMs } of arrivals) {
      this.time.advance(Math.max(0, atMs - this.time.nowMs));
      this.sentMs.set(i, sentMs);
      const { sequence, timestamp } = packet(i);
      this.uplink.packet(sequence, timestamp, frameOf(i), 'PCMU', this.time.nowMs);
    }
  }

  /** Of what was delivered from `fromSec` on. */
  after(fromSec: number) {
    const got = this.got.filter(({ nowMs }) => nowMs >= this.startMs + fromSec * 1000);
    const gaps = got.slice(1).map(({ nowMs }, n) => nowMs - got[n]!.nowMs);
    const exact = got.filter(({ i }) => i !== null);
    const delays = exact.map(({ delayMs }) => delayMs).sort((a, b) => a - b);
    return { got, gaps: gaps.sort((a, b) => a - b), exact, delays };
  }
}

const expectEven = (gaps: number[]) => {
  expect(gaps[0]).toBeGreaterThanOrEqual(18);
  expect(gaps.at(-1)).toBeLessThanOrEqual(22);
};
const expectInOrder = (exact: { i: number | null }[]) => {
  for (let n = 1; n < exact.length; n++) expect(exact[n]!.i!).toBeGreaterThan(exact[n - 1]!.i!);
};

describe('an agent with a jitter buffer', () => {
  it('hears a punctual caller soon, every 20 ms, bit for bit', () => {
    const line = new Line();
    line.speak(500, () => 30);
    const { gaps, exact, got, delays } = line.after(2);
    expectEven(gaps);
    expectInOrder(exact);
    expect(exact.length).toBe(got.length);
    // 30 ms on the way, and what the buffer needs.
    expect(at(delays, 1)).toBeLessThanOrEqual(30 + 30);
    expect(line.got.map(({ atMs }) => atMs)).toEqual(line.got.map((_, n) => n * 20));
  });

  it('hears a caller whose packets take 0 to 80 ms every 20 ms, and nearly all of it as it was said', () => {
    const line = new Line();
    line.speak(1200, (i) => 80 * noise(i));
    const { gaps, exact, got, delays } = line.after(3);
    expectEven(gaps);
    expectInOrder(exact);
    expect(exact.length / got.length).toBeGreaterThan(0.95);
    expect(at(delays, 1)).toBeLessThanOrEqual(80 + 30);
    expect(at(delays, 1) - at(delays, 0)).toBeLessThanOrEqual(45);
  });

  it('hears no hole when the network stands still for 100 ms, everything after it, and soon with the old delay', () => {
    const line = new Line();
    const stalled = Array.from({ length: 100 }, (_, i) => 150 + i).find((i) => isLoud(i - 2) && isLoud(i - 1))!;
    line.speak(450, (i) => (i >= stalled && i < stalled + 5 ? (stalled + 5 - i) * 20 : 0));
    expectEven(line.after(1).gaps);
    const stalledMs = 1000 + stalled * 20;
    const during = line.got.filter(({ nowMs }) => nowMs >= stalledMs && nowMs < stalledMs + 140);
    expect(during.filter(({ silent }) => silent)).toEqual([]);
    const { exact, delays } = line.after((stalled * 20) / 1000 + 2);
    expectInOrder(exact);
    expect(at(delays, 1)).toBeLessThanOrEqual(40);
    // Nothing but what was shortened is missing.
    const heard = new Set(line.got.map(({ i }) => i));
    const missing = Array.from({ length: 440 }, (_, i) => i).filter((i) => !heard.has(i));
    expect(missing.filter((i) => i > 50 && (i < stalled || i > stalled + 100))).toEqual([]);
    expect(missing.length).toBeLessThan(40);
  });

  it('hears lost packets concealed, one in twenty, without a change of the delay', () => {
    const line = new Line();
    line.speak(1000, (i) => (i % 20 === 13 ? null : 20 * noise(i)));
    const { gaps, exact, got, delays } = line.after(2);
    expectEven(gaps);
    expect(got.filter(({ silent, i }) => silent && i === null)).toEqual([]);
    expect(exact.length / got.length).toBeGreaterThan(0.88);
    // A packet waits 40 ms for one that is missing.
    expect(at(delays, 0.99)).toBeLessThanOrEqual(20 + 40 + 30);
  });

  it('hears silence where the phone sends nothing (DTX), and no more delay after it', () => {
    const line = new Line();
    const talks = (i: number) => i % 100 < 60;
    line.speak(
      1000,
      (i) => (talks(i) ? 10 * noise(i) : null),
      (i) => ({ sequence: (Math.floor(i / 100) * 60 + (i % 100)) & 0xffff, timestamp: i * frame }),
    );
    const { gaps, got, delays } = line.after(1);
    expectEven(gaps);
    expect(got.filter(({ silent }) => silent).length / got.length).toBeGreaterThan(0.3);
    expect(at(delays, 0.9)).toBeLessThanOrEqual(60);
  });

  it('goes on when the timestamps jump and when another sender takes over', () => {
    const line = new Line();
    const packet = (sequence: number, timestamp: number) => (i: number) => ({
      sequence: (sequence + i) & 0xffff,
      timestamp: (timestamp + i * frame) >>> 0,
    });
    line.speak(200, (i) => 15 * noise(i));
    line.speak(200, (i) => 15 * noise(i), packet(0, 3_000_000_000), 200);
    line.uplink.restart();
    line.speak(200, (i) => 15 * noise(i), packet(40_000, 77), 400);
    const { gaps, exact, delays } = line.after(1);
    expectEven(gaps);
    expectInOrder(exact);
    expect(exact.length).toBeGreaterThan(520);
    expect(at(delays, 1)).toBeLessThanOrEqual(70);
  });

  it('holds no more than it may, however late packets are', () => {
    const line = new Line(60);
    line.speak(1200, (i) => (i % 50 === 0 ? 300 : 0));
    expectEven(line.after(2).gaps);
    const { delays } = line.after(3);
    expect(at(delays, 0.5)).toBeLessThanOrEqual(60 + 300);
    const quiet = new Line(60);
    quiet.speak(1200, (i) => (i < 400 ? 200 * noise(i) : 0));
    expect(at(quiet.after(20).delays, 1)).toBeLessThanOrEqual(60);
  });

  it('holds two seconds at most of a phone that sends ten times too fast', () => {
    const line = new Line();
    line.uplink.stop(); // which would send silence meanwhile
    line.buffer.push(frameOf(0), 0);
    for (let i = 1; i < 1000; i++) {
      line.buffer.push(frameOf(i), i * 20);
      if (i % 10 === 0) line.time.advance(20);
    }
    const waitMs = line.buffer.push(frameOf(1000), 20_000);
    expect(waitMs).toBeLessThanOrEqual(2020);
    line.time.advance(2100);
    expect(line.buffer.push(frameOf(0), 20_020)).toBeLessThanOrEqual(40);
  });

  it('sends nothing while nobody speaks to it, and begins again', () => {
    const line = new Line();
    line.speak(50, () => 0);
    line.uplink.stop();
    line.time.advance(5000);
    const before = line.got.length;
    expect(before).toBeLessThan(50 + 30);
    line.uplink.start(line.time.nowMs);
    line.speak(50, () => 0, undefined, 400);
    expect(line.got.length).toBeGreaterThan(before + 40);
    line.buffer.close();
  });
});
