import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Heartbeat } from '../../media/agents/connection/heartbeat.js';
import { ReceiveBudget } from '../../media/agents/connection/receive-budget.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

describe('heartbeat', () => {
  function heartbeat() {
    const seen: [number, string][] = [];
    const startedAt = performance.now();
    const note = (what: string) => () => seen.push([performance.now() - startedAt, what]);
    return { seen, beat: new Heartbeat({ ping: note('ping'), lost: note('lost'), intervalMs: 5000, limitMs: 15_000 }) };
  }

  test('silence is over the limit to the millisecond', () => {
    const { seen, beat } = heartbeat();
    beat.start();
    vi.advanceTimersByTime(2000);
    beat.heard(performance.now());
    vi.advanceTimersByTime(60_000);
    expect(seen).toEqual([
      [0, 'ping'],
      [5000, 'ping'],
      [10_000, 'ping'],
      [15_000, 'ping'],
      [17_000, 'lost'],
    ]);
  });

  test('an answer to every ping keeps it alive', () => {
    const { seen, beat } = heartbeat();
    beat.start();
    for (let i = 0; i < 100; i++) {
      vi.advanceTimersByTime(5000);
      beat.heard(performance.now());
    }
    expect(seen).toHaveLength(101);
    expect(seen.every(([, what]) => what === 'ping')).toBe(true);
    beat.stop();
  });

  test('tells how long a ping is unanswered, by agents that answer pings at all', () => {
    const { beat } = heartbeat();
    beat.start();
    vi.advanceTimersByTime(6000);
    beat.heard(performance.now());
    expect(beat.unansweredMs()).toBe(0);
    beat.pong();
    vi.advanceTimersByTime(4000);
    expect(beat.unansweredMs()).toBe(0);
    vi.advanceTimersByTime(6000); // Pings at 10,000 and 15,000: the older one counts.
    expect(beat.unansweredMs()).toBe(6000);
    beat.pong();
    expect(beat.unansweredMs()).toBe(0);
    beat.stop();
  });

  test('a thread that was held up does not blame the agent', () => {
    const { seen, beat } = heartbeat();
    beat.start();
    const realNow = performance.now.bind(performance);
    const held = vi.spyOn(performance, 'now').mockImplementation(() => realNow() + 20_000);
    vi.advanceTimersByTime(5000);
    expect(seen.map(([, what]) => what)).toEqual(['ping', 'ping']);
    held.mockRestore();
    beat.stop();
  });
});

describe('receiveBudget', () => {
  const limits = { windowMs: 100, messagesPerWindow: 10, bytesPerWindow: 1000, garbagePerSec: 3 };

  function receiveBudget() {
    const calls: string[] = [];
    return {
      calls,
      flow: new ReceiveBudget(limits, { pause: () => calls.push('pause'), resume: () => calls.push('resume') }),
    };
  }

  test.each([
    ['messages', 11, 1],
    ['bytes', 2, 501],
  ])('too many %s pause the socket until the window ends', (_what, messages, bytes) => {
    const { calls, flow } = receiveBudget();
    flow.message(1, performance.now());
    vi.advanceTimersByTime(150); // A new window begins with the next message.
    for (let i = 0; i < messages - 1; i++) flow.message(bytes, performance.now());
    expect(calls).toEqual([]);
    flow.message(bytes, performance.now());
    flow.message(bytes, performance.now());
    expect(calls).toEqual(['pause']);
    vi.advanceTimersByTime(99);
    expect(calls).toEqual(['pause']);
    vi.advanceTimersByTime(1);
    expect(calls).toEqual(['pause', 'resume']);
    flow.message(1, performance.now());
    expect(calls).toHaveLength(2);
  });

  test('the rate of an ordinary agent is never paused', () => {
    const { calls, flow } = receiveBudget();
    for (let i = 0; i < 1000; i++) {
      flow.message(160, performance.now());
      vi.advanceTimersByTime(20);
    }
    expect(calls).toEqual([]);
  });

  test('stopping while paused lets the socket go on, so that its close is seen', () => {
    const { calls, flow } = receiveBudget();
    for (let i = 0; i < 11; i++) flow.message(1, performance.now());
    flow.stop();
    flow.stop();
    expect(calls).toEqual(['pause', 'resume']);
  });

  test('garbage is counted per second', () => {
    const { flow } = receiveBudget();
    expect([1, 2, 3, 4].map(() => flow.garbage())).toEqual([true, true, true, false]);
    vi.advanceTimersByTime(1000);
    expect([1, 2, 3, 4].map(() => flow.garbage())).toEqual([true, true, true, false]);
  });
});
