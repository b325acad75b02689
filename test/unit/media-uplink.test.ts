import { describe, expect, it } from 'vitest';
import { Uplink } from '../../media/audio/receive/agent-uplink.js';

const silence = 0xff;

class Caller {
  readonly heard: number[] = [];
  readonly atMs: number[] = [];
  readonly uplink = new Uplink('PCMU', (bytes, atMs) => {
    expect(bytes.length).toBe(160);
    this.heard.push(...bytes);
    this.atMs.push(atMs);
  });
  nowMs = 0;

  constructor() {
    this.uplink.start(0);
  }

  /** Packet n carries the byte n % 200 and stands at n * 160, unless said otherwise. */
  packet(
    n: number,
    change: { length?: number; timestamp?: number; codec?: 'PCMU' | 'PCMA'; atMs?: number; byte?: number } = {},
  ) {
    const length = change.length ?? 160;
    this.nowMs = change.atMs ?? this.nowMs;
    const payload = new Uint8Array(length).fill(change.byte ?? n % 200);
    this.uplink.packet(n & 0xffff, (change.timestamp ?? n * length) >>> 0, payload, change.codec ?? 'PCMU', this.nowMs);
  }

  /** The clock runs on, a tick every 20 ms. */
  wait(ms: number) {
    for (const end = this.nowMs + ms; this.nowMs < end; ) {
      this.nowMs += 20;
      this.uplink.tick(this.nowMs);
    }
  }

  /** The frames as runs of one byte: [byte, milliseconds]. */
  get runs(): [number, number][] {
    const runs: [number, number][] = [];
    for (const byte of this.heard) {
      const last = runs.at(-1);
      if (last?.[0] === byte) last[1] += 1 / 8;
      else runs.push([byte, 1 / 8]);
    }
    return runs;
  }
}

describe('the line to the agent', () => {
  it('passes packets in order at once', () => {
    const caller = new Caller();
    for (const n of [5, 6, 7]) {
      caller.packet(n);
      expect(caller.heard.at(-1)).toBe(n);
    }
    expect(caller.atMs).toEqual([0, 20, 40]);
  });

  it('is silent before start and after stop', () => {
    const caller = new Caller();
    caller.uplink.stop();
    caller.packet(1);
    caller.wait(1000);
    expect(caller.heard).toEqual([]);
  });

  it.each([10, 20, 30, 40, 60])('cuts packets of %i ms into frames of 20 ms', (ptimeMs) => {
    const caller = new Caller();
    for (let n = 1; n <= 12; n++) caller.packet(n, { length: ptimeMs * 8 });
    const total = Math.floor((12 * ptimeMs) / 20) * 160;
    expect(caller.heard).toHaveLength(total);
    expect(caller.heard).toEqual(Array.from({ length: total }, (_, i) => 1 + Math.floor(i / (ptimeMs * 8))));
  });

  it('puts reordered packets right', () => {
    const caller = new Caller();
    for (const n of [1, 3, 2, 4, 7, 6, 5, 8]) caller.packet(n);
    expect(caller.runs.map(([byte]) => byte)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(caller.uplink.late).toBe(0);
  });

  it('waits for two packets behind a hole, then tells it as silence', () => {
    const caller = new Caller();
    for (const n of [1, 3, 4]) caller.packet(n);
    expect(caller.runs).toEqual([[1, 20]]);
    caller.packet(5);
    expect(caller.runs).toEqual([
      [1, 20],
      [silence, 20],
      [3, 20],
      [4, 20],
      [5, 20],
    ]);
    caller.packet(2);
    expect(caller.uplink.late).toBe(1);
    expect(caller.heard).toHaveLength(800);
  });

  it('does not wait for a hole longer than 40 ms when nothing follows', () => {
    const caller = new Caller();
    caller.packet(1);
    caller.packet(3);
    caller.wait(40);
    expect(caller.runs).toEqual([
      [1, 20],
      [silence, 20],
      [3, 20],
    ]);
  });

  it('goes around the wrap of sequence and timestamp', () => {
    const caller = new Caller();
    for (const n of [65_534, 65_535, 65_536, 65_537]) caller.packet(n, { timestamp: (n - 65_536) * 160 });
    expect(caller.heard).toHaveLength(640);
    expect(caller.heard).not.toContain(silence);
  });

  it('goes on with another sender and with a jump of the timestamp, without a hole', () => {
    const caller = new Caller();
    caller.packet(1);
    caller.uplink.restart();
    caller.packet(40_000, { timestamp: 99, byte: 50 });
    caller.packet(40_001, { timestamp: 5_000_000, byte: 51 });
    caller.packet(40_002, { timestamp: 1000, byte: 52 });
    expect(caller.runs).toEqual([
      [1, 20],
      [50, 20],
      [51, 20],
      [52, 20],
    ]);
  });

  it('turns the other law into the one of the call', () => {
    const caller = new Caller();
    caller.packet(1, { codec: 'PCMA', byte: 0x2a });
    expect(caller.runs).toEqual([[0x00, 20]]);
  });
});

describe('silence of the phone (DTX)', () => {
  it('becomes silence for the agent as time goes by', () => {
    const caller = new Caller();
    caller.packet(1, { atMs: 20 });
    caller.wait(180);
    expect(caller.heard).toHaveLength(160);
    caller.wait(820);
    const toldMs = caller.heard.length / 8;
    expect(toldMs).toBeGreaterThanOrEqual(960);
    expect(toldMs).toBeLessThanOrEqual(1020);
    expect(new Set(caller.heard.slice(160))).toEqual(new Set([silence]));
  });

  it('ends where the next packet stands on the line', () => {
    const caller = new Caller();
    caller.packet(1, { timestamp: 160, atMs: 20 });
    caller.wait(1000);
    caller.packet(2, { timestamp: 160 + 8000, atMs: 1020 });
    expect(caller.runs).toEqual([
      [1, 20],
      [silence, 980],
      [2, 20],
    ]);
  });

  it('runs from the start for a phone that says nothing', () => {
    const caller = new Caller();
    caller.wait(1000);
    expect(caller.heard.length / 8).toBeGreaterThanOrEqual(960);
  });

  it('is followed by what a stall of the network held back: words count more than the clock', () => {
    const caller = new Caller();
    caller.packet(1, { atMs: 20 });
    caller.wait(500);
    for (let n = 2; n <= 26; n++) caller.packet(n);
    expect(caller.runs.map(([byte]) => byte)).toEqual([1, silence, ...Array.from({ length: 25 }, (_, i) => i + 2)]);
    expect(caller.uplink.late).toBe(0);
  });

  it('is not what our own standing still left in the socket', () => {
    const caller = new Caller();
    caller.wait(20);
    caller.packet(1);
    caller.wait(20);
    caller.nowMs += 500;
    caller.wait(20);
    for (let n = 2; n <= 27; n++) caller.packet(n);
    expect(caller.runs.map(([byte]) => byte)).toEqual(Array.from({ length: 27 }, (_, i) => i + 1));
    expect(caller.uplink.late).toBe(0);
  });

  it('does not become longer by words that waited in the socket while we stood still', () => {
    const caller = new Caller();
    caller.packet(1, { timestamp: 160, atMs: 20 });
    caller.wait(1000);
    // In the phone's pause we stand still for 600 ms; 100 ms later it speaks, and 25 packets wait in the socket.
    const fromMs = caller.nowMs + 100;
    caller.nowMs += 600;
    caller.uplink.tick(caller.nowMs);
    for (let n = 2; n <= 26; n++) caller.packet(n, { timestamp: 160 + (fromMs - 20 + (n - 2) * 20) * 8 });
    caller.wait(100);
    expect(caller.runs).toEqual([
      [1, 20],
      [silence, fromMs - 40],
      ...Array.from({ length: 25 }, (_, i) => [i + 2, 20]),
    ]);
  });

  it('loses nothing of a phone whose clock stood still meanwhile', () => {
    const caller = new Caller();
    caller.packet(1, { atMs: 20 });
    caller.wait(3000);
    for (let n = 2; n <= 26; n++) {
      caller.packet(n);
      caller.wait(20);
    }
    expect(caller.runs.map(([byte]) => byte)).toEqual([1, silence, ...Array.from({ length: 25 }, (_, i) => i + 2)]);
  });

  it('delivers a stall under 200 ms in full', () => {
    const caller = new Caller();
    caller.packet(1, { atMs: 20 });
    caller.wait(160);
    for (let n = 2; n <= 9; n++) caller.packet(n);
    expect(caller.runs.map(([byte]) => byte)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});

it('a phone on hold is silence, whatever it plays', () => {
  const caller = new Caller();
  caller.uplink.mute(true);
  for (let n = 1; n <= 50; n++) {
    caller.packet(n);
    caller.wait(20);
  }
  expect(new Set(caller.heard)).toEqual(new Set([silence]));
  expect(caller.heard.length / 8).toBeGreaterThan(940);
});

it('the silence under a key goes out with its packets, not as a burst with what follows', () => {
  const caller = new Caller();
  for (const n of [0, 1, 2]) caller.packet(n, { atMs: n * 20 });
  const event = (n: number, samples: number, atMs: number) =>
    caller.uplink.packet(n, 480 + samples, null, 'PCMU', atMs);
  for (let i = 1; i <= 8; i++) {
    event(2 + i, i * 160, 40 + i * 20);
    expect(caller.heard.length).toBe(480 + i * 160);
  }
  // The end is said three times and adds nothing.
  event(11, 8 * 160, 205);
  event(12, 8 * 160, 210);
  expect(caller.heard.length).toBe(480 + 1280);
  caller.packet(13, { timestamp: 480 + 1280, byte: 77, atMs: 220 });
  expect(caller.runs.slice(3)).toEqual([
    [silence, 160],
    [77, 20],
  ]);
});
