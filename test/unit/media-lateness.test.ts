import { expect, it } from 'vitest';
import { PlayoutClock } from '../../media/audio/playout/playout-clock.js';
import { Lateness, noLateCauses, noLatePackets } from '../../media/thread/lateness.js';
import { FakeTime } from '../support/fake-time.js';

function thread() {
  const time = new FakeTime();
  const core = { ranMs: 100, waitedMs: 10 };
  const lateness = new Lateness({
    now: time.now,
    coreTime: () => ({ ...core }),
    after: (ms, fn) => void time.setTimer(fn, ms),
  });
  return { time, core, lateness };
}
const none = noLateCauses();

it.each([
  ['waiting for a core', 2, 28, 0, { ...none, waitingForCore: 1 }],
  ['its own work', 27, 1, 0, { ...none, ownWork: 1 }],
  ['a garbage collection', 29, 0, 25, { ...none, garbageCollection: 1 }],
  ['a stop of the process', 0.2, 0.1, 0, { ...none, stopped: 1 }],
])('a thread that is 30 ms late knows why: %s', (_what, ranMs, waitedMs, collectedMs, causes) => {
  const { time, core, lateness } = thread();
  const dueMs = time.nowMs;
  time.stall(30);
  core.ranMs += ranMs;
  core.waitedMs += waitedMs;
  const heard = noLateCauses();
  lateness.late(dueMs, time.nowMs);
  lateness.heard(heard, dueMs);
  // The collection is reported after the turns.
  if (collectedMs > 0) lateness.collected(dueMs + 2, collectedMs);
  expect(lateness.causes).toEqual(none);
  time.advance(100);
  expect(lateness.causes).toEqual(causes);
  expect(heard).toEqual(causes);
});

it('a collection outside the late time is not its cause', () => {
  const { time, core, lateness } = thread();
  lateness.collected(time.nowMs - 40, 30);
  const dueMs = time.nowMs;
  time.stall(20);
  core.ranMs += 20;
  lateness.late(dueMs, time.nowMs);
  time.advance(100);
  expect(lateness.causes).toEqual({ ...none, ownWork: 1 });
});

it('what the thread did long before is not its cause: its times are read while it is on time', () => {
  const { time, core, lateness } = thread();
  for (let turn = 0; turn < 50; turn++) {
    time.advance(20);
    core.ranMs += 10;
    lateness.onTime(time.nowMs);
  }
  const dueMs = time.nowMs + 20;
  time.advance(20);
  core.ranMs += 8;
  time.stall(20);
  lateness.late(dueMs, time.nowMs);
  time.advance(100);
  expect(lateness.causes).toEqual({ ...none, stopped: 1 });
});

it('a packet that waited until the sockets had been read has the cause of the turn before, also when that is judged', () => {
  const { time, lateness } = thread();
  const dueMs = time.nowMs;
  const [heard, later, punctual] = [noLatePackets(), noLatePackets(), noLatePackets()];
  time.stall(25);
  lateness.late(dueMs, time.nowMs);
  time.advance(3);
  expect(lateness.heard(heard, dueMs + 1)).toBe(true);
  expect(lateness.heard(punctual, time.nowMs)).toBe(false);
  time.advance(100);
  expect(lateness.heard(later, dueMs + 2)).toBe(true);
  for (const causes of [heard, later]) expect(causes).toEqual({ ...noLatePackets(), stopped: 1 });
  expect(punctual).toEqual(noLatePackets());
});

it('a call that ends before its cause is judged has it all the same, once', () => {
  const { time, lateness } = thread();
  const dueMs = time.nowMs;
  const [ended, other] = [noLatePackets(), noLatePackets()];
  time.stall(25);
  lateness.late(dueMs, time.nowMs);
  lateness.heard(ended, dueMs);
  lateness.settle(other);
  expect(lateness.causes).toEqual(none);
  lateness.settle(ended);
  time.advance(200);
  expect(ended.stopped).toBe(1);
  expect(lateness.causes).toEqual({ ...none, stopped: 1 });
});

it('the clock reports turns that are late by 5 ms, and no others', () => {
  const { time, lateness } = thread();
  const clock = new PlayoutClock(time, lateness);
  const entry = clock.add((nowMs) => nowMs + 20, time.nowMs + 20);
  time.advance(500);
  expect(lateness.causes).toEqual(none);
  time.stall(32);
  time.advance(200);
  expect(Object.values(lateness.causes).reduce((sum, count) => sum + count)).toBe(1);
  clock.remove(entry);
});
