import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { WakeupBatching } from '../../media/thread/wakeup-batching.js';

function rest(sessions: number, dueInMs: number) {
  const slept: number[] = [];
  const seen = { woke: 0 };
  const thread = new WakeupBatching({
    now: () => 1000,
    sessions: () => sessions,
    dueMs: () => 1000 + dueInMs,
    sleep: (ms) => slept.push(ms),
    woke: () => {
      seen.woke += 1;
    },
  });
  return { thread, slept, seen };
}

describe('a media thread', () => {
  it('with few calls passes each packet on at once', async () => {
    const { thread, slept, seen } = rest(5, 20);
    thread.packetCame();
    await nextTurn();
    expect([slept, seen.woke]).toEqual([[], 0]);
  });

  it('with many calls sleeps once for all packets that are there, and then sends what is due', async () => {
    const { thread, slept, seen } = rest(50, 20);
    for (let i = 0; i < 10; i++) thread.packetCame();
    expect(slept).toEqual([]);
    await nextTurn();
    expect([slept, seen.woke]).toEqual([[0.5], 1]);
    await nextTurn();
    expect(slept).toHaveLength(1);
    thread.packetCame();
    await nextTurn();
    expect(slept).toHaveLength(2);
  });

  it('wakes in time for the next packet to be sent', async () => {
    const soon = rest(50, 0.25);
    soon.thread.packetCame();
    await nextTurn();
    expect(soon.slept).toEqual([0.25]);
    const late = rest(50, -3);
    late.thread.packetCame();
    await nextTurn();
    expect([late.slept, late.seen.woke]).toEqual([[], 1]);
  });
});
