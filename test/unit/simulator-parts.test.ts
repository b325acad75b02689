import { describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { FrameTimer } from '../../src/simulator/phone/frame-timer.js';
import { HeardAudio } from '../../src/simulator/phone/heard-audio.js';
import { ImpairedPath, type Impairments, seeded, type Timers } from '../../src/simulator/phone/impairments.js';
import { isSound, listen } from '../../src/simulator/phone/listen.js';
import { findMarker, markers } from '../../src/simulator/phone/marker.js';
import { signallingTimes } from '../../src/simulator/phone/signalling-times.js';
import { CallerVoice } from '../../src/simulator/phone/voice.js';

/** Time that only moves when told. Callbacks may come late, as real ones do. */
class HandTimers implements Timers {
  nowMs = 0;
  private readonly due: { atMs: number; fn: () => void }[] = [];

  now(): number {
    return this.nowMs;
  }

  after(delayMs: number, fn: () => void): { cancel(): void } {
    const entry = { atMs: this.nowMs + delayMs, fn };
    this.due.push(entry);
    return { cancel: () => void this.due.splice(this.due.indexOf(entry), this.due.includes(entry) ? 1 : 0) };
  }

  get waiting(): number {
    return this.due.length;
  }

  advance(toMs: number, lateMs = 0): void {
    for (;;) {
      const next = this.due.filter((entry) => entry.atMs <= toMs).sort((a, b) => a.atMs - b.atMs)[0];
      if (!next) break;
      this.due.splice(this.due.indexOf(next), 1);
      this.nowMs = Math.max(this.nowMs, next.atMs + lateMs);
      next.fn();
    }
    this.nowMs = Math.max(this.nowMs, toMs);
  }
}

const [rising, falling] = markers;

/** As the line does it: through G.711 and back. */
function overTheLine(samples: Int16Array): Int16Array {
  return samples.map((sample) => ulawToLinear[linearToUlaw[sample & 0xffff]!]!);
}

describe('marker', () => {
  it.each([0, 1, 777, 8000])('is found at sample %i, quiet and through G.711', (at) => {
    const samples = new Int16Array(16_000);
    samples.set(
      rising.map((sample) => sample / 8),
      at,
    );
    expect(findMarker(rising, overTheLine(samples), 0, 16_000)).toMatchObject({ at });
  });

  it('is found in a tone and beside the other marker', () => {
    const samples = tone({ frequencyHz: 440, durationMs: 2000 });
    samples.set(falling, 2000);
    samples.set(rising, 9000);
    expect(findMarker(rising, overTheLine(samples), 0, 16_000)?.at).toBe(9000);
    expect(findMarker(falling, overTheLine(samples), 0, 16_000)?.at).toBe(2000);
  });

  it('survives a lost packet in its middle', () => {
    const samples = new Int16Array(4000);
    samples.set(rising, 1000);
    samples.fill(0, 1160, 1320);
    expect(findMarker(rising, samples, 0, 4000)?.at).toBe(1000);
  });

  it('is not found where there is none', () => {
    const random = seeded(3);
    const noise = Int16Array.from({ length: 16_000 }, () => (random() - 0.5) * 20_000);
    expect(findMarker(rising, noise, 0, 16_000)).toBeNull();
    expect(findMarker(rising, tone({ frequencyHz: 1000, durationMs: 2000 }), 0, 16_000)).toBeNull();
    expect(findMarker(rising, new Int16Array(16_000), 0, 16_000)).toBeNull();
    expect(findMarker(rising, new Int16Array(100), 0, 100)).toBeNull();
  });
});

describe('impairments', () => {
  function send(
    impairments: Impairments,
    packets = 5000,
  ): { arrived: { index: number; lateMs: number }[]; path: ImpairedPath } {
    const timers = new HandTimers();
    const arrived: { index: number; lateMs: number }[] = [];
    const sentMs: number[] = [];
    const path = new ImpairedPath(
      impairments,
      (packet) => {
        const index = packet[0]! * 256 + packet[1]!;
        arrived.push({ index, lateMs: timers.now() - sentMs[index]! });
      },
      20,
      timers,
    );
    for (let index = 0; index < packets; index++) {
      timers.advance(index * 20);
      sentMs[index] = timers.now();
      path.forward(Uint8Array.of(index >> 8, index & 255));
    }
    timers.advance(packets * 20 + 1000);
    expect(timers.waiting).toBe(0);
    return { arrived, path };
  }

  it('do nothing unless asked', () => {
    const { arrived } = send({});
    expect(arrived).toHaveLength(5000);
    expect(arrived.every((packet, i) => packet.index === i && packet.lateMs === 0)).toBe(true);
  });

  it('lose the share that was asked for, the same packets for the same seed', () => {
    const { arrived, path } = send({ lossPercent: 5, seed: 7 });
    expect(path.counts.dropped).toBe(5000 - arrived.length);
    expect(path.counts.dropped / 50).toBeGreaterThan(4);
    expect(path.counts.dropped / 50).toBeLessThan(6);
    expect(send({ lossPercent: 5, seed: 7 }).arrived).toEqual(arrived);
    expect(send({ lossPercent: 5, seed: 8 }).arrived).not.toEqual(arrived);
  });

  it('hold back by at most the jitter and keep the order', () => {
    const { arrived } = send({ jitterMs: 30 });
    expect(arrived.every((packet, i) => packet.index === i)).toBe(true);
    const late = arrived.map((packet) => packet.lateMs);
    expect(Math.max(...late)).toBeLessThanOrEqual(30);
    expect(Math.max(...late)).toBeGreaterThan(28);
    expect(Math.min(...late)).toBeLessThan(2);
  });

  it('keep the order, though timers do not', () => {
    const due: (() => void)[] = [];
    let nowMs = 0;
    const timers: Timers = { now: () => nowMs, after: (_, fn) => ({ cancel: () => {}, at: due.push(fn) }) };
    const arrived: number[] = [];
    const path = new ImpairedPath({ jitterMs: 40 }, (packet) => arrived.push(packet[0]!), 20, timers);
    for (let index = 0; index < 9; index++) {
      path.forward(Uint8Array.of(index));
      nowMs += 5;
    }
    for (const fire of due.splice(0).reverse()) fire();
    expect(arrived).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('let packets overtake', () => {
    const { arrived, path } = send({ reorderPercent: 2 });
    expect(arrived).toHaveLength(5000);
    const overtaken = arrived.filter((packet, i) => i > 0 && packet.index < arrived[i - 1]!.index).length;
    expect(overtaken).toBeLessThanOrEqual(path.counts.reordered); // neighbours that are both held back keep their order
    expect(overtaken).toBeGreaterThan(path.counts.reordered * 0.9);
    expect(overtaken).toBeGreaterThan(60);
  });

  it('send duplicates', () => {
    const { arrived, path } = send({ duplicatePercent: 10 });
    expect(arrived).toHaveLength(5000 + path.counts.duplicated);
    expect(path.counts.duplicated).toBeGreaterThan(400);
  });

  it('send nothing after close', () => {
    const timers = new HandTimers();
    let sent = 0;
    const path = new ImpairedPath({ jitterMs: 50, seed: 2 }, () => sent++, 20, timers);
    for (let i = 0; i < 10; i++) path.forward(new Uint8Array(2));
    path.close();
    expect(timers.waiting).toBe(0);
    timers.advance(1000);
    expect(sent).toBe(0);
  });
});

describe('frameTimer', () => {
  it('does not drift, however late each timer is', () => {
    const timers = new HandTimers();
    const beats: number[] = [];
    const frameTimer = new FrameTimer(20, () => beats.push(timers.now()), timers);
    frameTimer.start();
    timers.advance(10_000, 3);
    expect(beats).toHaveLength(501);
    expect(beats.at(-1)).toBe(10_003);
    expect(frameTimer.worstLateMs).toBe(3);
    frameTimer.stop();
    expect(timers.waiting).toBe(0);
  });

  it('catches up after a short stall', () => {
    const timers = new HandTimers();
    const beats: number[] = [];
    const frameTimer = new FrameTimer(20, (leftOut) => beats.push(leftOut), timers);
    frameTimer.start();
    timers.advance(20, 50); // due at 20, runs at 70: 20, 40 and 60 are due
    expect(beats).toEqual([0, 0, 0, 0]);
    frameTimer.stop();
  });

  it('leaves beats out after a long one, and keeps the grid', () => {
    const timers = new HandTimers();
    const beats: [number, number][] = [];
    const frameTimer: FrameTimer = new FrameTimer(
      20,
      (leftOut) => {
        beats.push([timers.now(), leftOut]);
        if (beats.length === 4) frameTimer.stop();
      },
      timers,
    );
    frameTimer.start();
    timers.advance(20, 1005);
    expect(beats).toEqual([
      [0, 0],
      [1025, 50],
    ]);
    expect(frameTimer.worstLateMs).toBe(1005);
    timers.advance(2000);
    expect(beats.slice(2)).toEqual([
      [1040, 0],
      [1060, 0],
    ]);
    expect(timers.waiting).toBe(0);
  });
});

describe('voice', () => {
  it.each([80, 160, 240, 480])('speaks an unbroken tone with markers at frame borders (%i samples)', (frameSamples) => {
    const voice = new CallerVoice({ kind: 'tone', frequencyHz: 440 }, true);
    const whole = new Int16Array(frameSamples * Math.floor(80_000 / frameSamples));
    const begins: [number, number][] = [];
    for (let at = 0; at < whole.length; at += frameSamples) {
      const marker = voice.next(whole.subarray(at, at + frameSamples));
      if (marker !== null) begins.push([marker, at]);
    }
    expect(begins.map(([index]) => index)).toEqual([0, 1, 2, 3, 4]);
    for (const [index, at] of begins) {
      expect(Array.from(whole.subarray(at, at + rising.length))).toEqual(
        Array.from(index % 2 === 0 ? rising : falling),
      );
      expect(Math.abs(at - 4000 - index * 16_000)).toBeLessThan(frameSamples * 2);
    }
    const plain = new Int16Array(8000);
    new CallerVoice({ kind: 'tone', frequencyHz: 440 }, false).next(plain);
    expect(Array.from(whole.subarray(6000, 6100))).toEqual(Array.from(plain.subarray(6000, 6100)));
  });

  it('says a recording once, then silence', () => {
    const voice = new CallerVoice({ kind: 'samples', samples: Int16Array.of(1, 2, 3) }, false);
    const frame = new Int16Array(5);
    voice.next(frame);
    expect(Array.from(frame)).toEqual([1, 2, 3, 0, 0]);
    voice.next(frame);
    expect(Array.from(frame)).toEqual([0, 0, 0, 0, 0]);
  });
});

describe('heard audio', () => {
  const frame = (value: number) => new Int16Array(160).fill(value);

  it('puts packets where their timestamps say', () => {
    const heard = new HeardAudio(60);
    heard.add(1000, frame(1), 100);
    heard.add(1320, frame(3), 140);
    heard.add(1160, frame(2), 145);
    expect([0, 160, 320].map((at) => heard.samples[at])).toEqual([1, 2, 3]);
    expect(heard.samples).toHaveLength(480);
    expect([0, 80, 160, 320].map((at) => heard.arrivalMsOf(at))).toEqual([100, 110, 145, 140]);
    expect(heard.placeAt(139)).toBe(160);
  });

  it('wraps with the timestamp, keeps gaps silent', () => {
    const heard = new HeardAudio(60);
    heard.add(0xffffff60, frame(1), 0);
    heard.add(160, frame(3), 40);
    expect([0, 160, 320].map((at) => heard.samples[at])).toEqual([1, 0, 3]);
  });

  it('goes on by the clock when a new stream starts with another timestamp', () => {
    const heard = new HeardAudio(60);
    heard.add(5, frame(1), 0);
    heard.add(4_000_000, frame(2), 20);
    expect([0, 160].map((at) => heard.samples[at])).toEqual([1, 2]);
    expect(heard.samples).toHaveLength(320);
  });

  it.each([
    ['a clock that is 2 percent slow', (ms: number) => ms * 1.02, -20_000],
    ['a queue that grew by a packet', (ms: number) => (ms < 3000 ? ms : ms + 20), null],
  ])('tells %s by its drift', (_, arrival, ppm) => {
    const heard = new HeardAudio(60);
    for (let ms = 0; ms < 10_000; ms += 20) heard.add(ms * 8, frame(1), arrival(ms));
    if (ppm === null) expect(heard.clockSkewPpm).toBeNull();
    else expect(heard.clockSkewPpm).toBeCloseTo(ppm, -3);
  });

  it('keeps no more than it may', () => {
    const heard = new HeardAudio(1);
    for (let i = 0; i < 100; i++) heard.add(i * 160, frame(1), i * 20);
    expect(heard.samples).toHaveLength(8000);
  });
});

describe('listening', () => {
  it.each([300, 440, 1004, 3000])('tells level and frequency of %i Hz', (frequencyHz) => {
    const heard = listen(overTheLine(tone({ frequencyHz, durationMs: 3000, amplitude: 8000 })));
    expect(heard.frequencyHz).toBeGreaterThan(frequencyHz - 2);
    expect(heard.frequencyHz).toBeLessThan(frequencyHz + 2);
    expect(heard.levelDbfs).toBeCloseTo(20 * Math.log10(8000 / Math.SQRT2 / 32768), 0);
    expect(heard.activePercent).toBe(100);
  });

  it('tells silence', () => {
    expect(listen(new Int16Array(8000))).toEqual({ levelDbfs: null, activePercent: 0, frequencyHz: null });
    expect(listen(new Int16Array(0))).toEqual({ levelDbfs: null, activePercent: 0, frequencyHz: null });
    expect(isSound(new Int16Array(160))).toBe(false);
    expect(isSound(new Int16Array(160).fill(15_000))).toBe(true);
  });
});

describe('signalling times', () => {
  const entry = (ms: number, direction: 'sent' | 'received', start: string, cseq = '1 INVITE') => ({
    at: new Date(1_800_000_000_000 + ms).toISOString(),
    direction,
    peer: null,
    message: `${start}\r\nVia: x\r\nCSeq: ${cseq}\r\n\r\n`,
  });

  it('are of the first messages of the INVITE', () => {
    const trace = [
      entry(10, 'sent', 'INVITE sip:1@x SIP/2.0'),
      entry(12, 'received', 'SIP/2.0 100 Trying'),
      entry(15, 'received', 'SIP/2.0 401 Unauthorized'),
      entry(16, 'sent', 'INVITE sip:1@x SIP/2.0', '2 INVITE'),
      entry(30, 'received', 'SIP/2.0 180 Ringing', '2 INVITE'),
      entry(40, 'received', 'SIP/2.0 183 Session Progress', '2 INVITE'),
      entry(45, 'received', 'SIP/2.0 200 OK', '3 PRACK'),
      entry(90, 'received', 'SIP/2.0 200 OK', '2 INVITE'),
    ];
    expect(signallingTimes(trace, 1_800_000_000_000)).toEqual({ invitedMs: 10, ringingMs: 30, answeredMs: 90 });
    expect(signallingTimes([], 0)).toEqual({ invitedMs: null, ringingMs: null, answeredMs: null });
  });
});
