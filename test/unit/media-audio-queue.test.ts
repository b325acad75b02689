import { describe, expect, it } from 'vitest';
import { AudioQueue } from '../../media/audio/playout/audio-queue.js';

/** The same queue without reuse of memory. */
function model(playedAtMost: number) {
  let played: number[] = [];
  let queued: number[] = [];
  return {
    get played() {
      return played.slice(-playedAtMost);
    },
    get queued() {
      return queued;
    },
    append: (bytes: Uint8Array) => {
      queued.push(...bytes);
    },
    advance: (count: number) => {
      played = [...played, ...queued.splice(0, count)].slice(-playedAtMost);
    },
    leaveOut: (count: number) => {
      queued.splice(0, count);
    },
    clear: () => {
      queued = [];
    },
  };
}

const chunk = (length: number, seed: number) => Uint8Array.from({ length }, (_, i) => (seed * 13 + i * 7) & 0xff);

function expectSame(queue: AudioQueue, wanted: ReturnType<typeof model>): void {
  expect([...queue.bytes.subarray(queue.from, queue.to)]).toEqual(wanted.queued);
  expect([...queue.last(queue.played)]).toEqual(wanted.played);
}

describe('a queue of audio', () => {
  it('plays all bytes in order and remembers what it played, wherever its memory begins', () => {
    const queue = new AudioQueue(1280, 640);
    const wanted = model(1280);
    for (let n = 0; n < 200; n++) {
      const count = [160, 80, 160, 37, 2000, 1, 480][n % 7]!;
      queue.append(chunk(count, n));
      wanted.append(chunk(count, n));
      const taken = Math.min(queue.queued, [160, 320, 7, 160, 700][n % 5]!);
      if (n % 9 === 4) {
        queue.leaveOut(taken);
        wanted.leaveOut(taken);
      } else {
        queue.advance(taken);
        wanted.advance(taken);
      }
      if (n % 50 === 49) {
        queue.clear();
        wanted.clear();
      }
      expectSame(queue, wanted);
    }
  });

  it('gives memory back after a long queue', () => {
    const queue = new AudioQueue(1280, 640);
    queue.append(chunk(500_000, 1));
    expect(queue.bytes.length).toBeGreaterThan(500_000);
    queue.advance(500_000);
    for (let n = 0; n < 10_000 && queue.bytes.length > 20_000; n++) {
      queue.append(chunk(160, n));
      queue.advance(160);
    }
    expect(queue.bytes.length).toBeLessThan(20_000);
    expect([...queue.last(160)]).toHaveLength(160);
  });

  it('remembers what was played in place of the queued audio', () => {
    const queue = new AudioQueue(320, 640);
    queue.append(chunk(320, 1));
    queue.advance(320);
    queue.correctPlayed(chunk(200, 5), 40, 160);
    expect([...queue.last(320)]).toEqual([...chunk(160, 1), ...chunk(200, 5).subarray(40)]);
  });
});
