import { describe, expect, it } from 'vitest';
import { PlayoutClock } from '../../media/audio/playout/playout-clock.js';
import { PlayoutSchedule } from '../../media/audio/playout/playout-schedule.js';
import { FakeTime } from '../support/fake-time.js';

describe('slots that audio waits for', () => {
  it('come nearer as far as the lead allows, and give it back', () => {
    const line = new PlayoutSchedule(0, 20);
    expect(line.comeNearer(12)).toBe(true);
    expect([line.dueMs, line.leadMs]).toEqual([8, 12]);
    expect(line.comeNearer(9)).toBe(false);
    expect([line.dueMs, line.leadMs]).toEqual([8, 12]);
    line.giveBack(5);
    expect([line.dueMs, line.leadMs]).toEqual([13, 7]);
    line.giveBack(50);
    expect([line.dueMs, line.leadMs]).toEqual([20, 0]);
  });
});

describe('the clock of a thread', () => {
  it('runs every entry at its time, with one timer', () => {
    const time = new FakeTime();
    const clock = new PlayoutClock(time);
    const turns: [string, number][] = [];
    for (const [name, offset] of [
      ['a', 7],
      ['b', 3],
      ['c', 15],
    ] as const) {
      let due = 1000 + offset;
      clock.add((now) => {
        turns.push([name, now]);
        due += 20;
        return due;
      }, due);
    }
    expect(time.pending).toBe(1);
    time.advance(45);
    expect(time.pending).toBe(1);
    expect(turns.map(([name]) => name).join('')).toBe('bacbacb');
    expect(turns.map(([, now]) => now)).toEqual([1003, 1007, 1015, 1023, 1027, 1035, 1043]);
  });

  it('does not drift: 3000 turns at 20 ms end at a minute, though every timer is late', () => {
    const time = new FakeTime();
    time.latenessMs = 0.8;
    const clock = new PlayoutClock(time);
    let due = time.nowMs + 20;
    let turns = 0;
    clock.add(() => {
      turns += 1;
      due += 20;
      return due;
    }, due);
    time.advance(60_010);
    expect(turns).toBe(3000);
  });

  it('never turns more than half a millisecond early', () => {
    const time = new FakeTime();
    const clock = new PlayoutClock(time);
    let due = time.nowMs + 3.7;
    clock.add((now) => {
      expect(now).toBeGreaterThanOrEqual(due - 0.5);
      due += 3.7;
      return due;
    }, due);
    time.advance(1000);
  });

  it('moves a turn nearer and farther, and lets one leave in its own turn', () => {
    const time = new FakeTime();
    const clock = new PlayoutClock(time);
    const at: number[] = [];
    const entry = clock.add((now) => {
      at.push(now);
      clock.remove(entry);
      return now + 20;
    }, 1020);
    clock.move(entry, 1005);
    time.advance(100);
    expect(at).toEqual([1005]);
    expect(time.pending).toBe(0);
    clock.move(entry, 1200);
    time.advance(500);
    expect(at).toEqual([1005]);
  });
});

/** A line driven like a session: slots in which something is sent, and when. */
class Driven {
  nowMs = 0;
  readonly line: PlayoutSchedule;
  readonly sent: { atMs: number; speaks: boolean }[] = [];
  skipped = 0;

  constructor(ptimeMs = 20) {
    this.line = new PlayoutSchedule(0, ptimeMs);
  }

  until(endMs: number, lateMs = 0): this {
    while (this.line.dueMs + lateMs <= endMs) {
      this.nowMs = Math.max(this.nowMs, this.line.dueMs + lateMs);
      this.skipped += this.line.skip(this.nowMs);
      this.line.enter(this.nowMs);
      this.sent.push({ atMs: this.nowMs, speaks: this.line.speaks });
      this.line.leave();
    }
    this.nowMs = Math.max(this.nowMs, endMs);
    return this;
  }

  get spokenAtMs(): number | undefined {
    return this.sent.find((slot) => slot.speaks)?.atMs;
  }
}

describe('the line of a session', () => {
  it('keeps to 20 ms in silence', () => {
    expect(new Driven().until(100).sent.map((slot) => slot.atMs)).toEqual([20, 40, 60, 80, 100]);
  });

  it('begins an utterance when it was asked to, between two slots', () => {
    const driven = new Driven().until(105);
    driven.line.start(108);
    driven.until(200);
    expect(driven.spokenAtMs).toBe(108);
    expect(driven.line.leadMs).toBe(12);
    expect(driven.sent.slice(-4).map((slot) => slot.atMs)).toEqual([128, 148, 168, 188]);
  });

  it('leads the wall by no more than 20 ms', () => {
    const driven = new Driven();
    for (let i = 0; i < 20; i++) {
      driven.until(driven.nowMs + 33);
      driven.line.start(driven.nowMs + 3);
      driven.until(driven.nowMs + 45);
      driven.line.stop();
      expect(driven.line.leadMs).toBeLessThanOrEqual(20);
      const elapsed = driven.sent.length * 20 + 20;
      expect(elapsed - driven.line.dueMs).toBeLessThanOrEqual(20.001);
    }
  });

  it('pays the lead back in silence, a millisecond per packet, and then keeps to 20 ms again', () => {
    const driven = new Driven().until(105);
    driven.line.start(108);
    driven.until(200);
    driven.line.stop();
    const from = driven.sent.length;
    driven.until(700);
    const gaps = driven.sent.slice(from).map((slot, i) => slot.atMs - driven.sent[from + i - 1]!.atMs);
    expect(gaps.slice(1, 13)).toEqual(Array(12).fill(21));
    expect(new Set(gaps.slice(13))).toEqual(new Set([20]));
    expect(driven.line.leadMs).toBe(0);
  });

  it('is not put off for ever by frames that come while it waits', () => {
    const driven = new Driven().until(105);
    driven.line.leadMs = 20;
    for (let frame = 0; frame < 10; frame++) {
      driven.line.start(driven.nowMs + 15);
      driven.until(driven.nowMs + 20);
    }
    expect(driven.spokenAtMs).toBeLessThanOrEqual(140);
  });

  it('catches up after a short stall', () => {
    const driven = new Driven().until(100);
    driven.nowMs = 155;
    driven.until(200);
    expect(driven.skipped).toBe(0);
    expect(driven.sent).toHaveLength(10);
  });

  it('skips slots after a long one: no burst, and the line is where the wall is', () => {
    const driven = new Driven().until(100);
    driven.nowMs = 325;
    driven.until(400);
    expect(driven.skipped).toBe(10);
    expect(driven.sent.length + driven.skipped).toBe(20);
    expect(driven.sent.filter((slot) => slot.atMs === 325)).toHaveLength(1);
  });
});
