import { describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToAlaw } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { ArrivalMargin } from '../../media/audio/playout/arrival-margin.js';
import { Playout, playoutLimitMs } from '../../media/audio/playout/playout.js';

const frame = (value: number, length = 160) => new Uint8Array(length).fill(value);
const loud = (frames: number) =>
  Uint8Array.from(tone({ frequencyHz: 400, durationMs: frames * 20 }), (sample) => linearToUlaw[sample & 0xffff]!);

function playing() {
  const playout = new Playout('PCMU');
  const marks: string[] = [];
  playout.onMark = (name, cleared) => marks.push(cleared ? `${name}!` : name);
  const take = (length = 160) => {
    const into = new Uint8Array(length).fill(7);
    const filled = playout.take(into, 0, length);
    return [...into.subarray(0, filled)];
  };
  return { playout, marks, take };
}

describe('the queue', () => {
  it('plays every byte in order, whatever the chunks', () => {
    const { playout, take } = playing();
    const said = Uint8Array.from({ length: 1000 }, (_, i) => i & 0xff);
    for (const [from, to] of [
      [0, 1],
      [1, 330],
      [330, 331],
      [331, 1000],
    ]) {
      playout.push(said.subarray(from, to));
    }
    expect(playout.queuedMs).toBe(125);
    const heard = [take(), take(480), take(80), take(), take(), take()].flat();
    expect(heard).toEqual([...said]);
    expect(playout.queuedMs).toBe(0);
  });

  it('says how much audio there was, and leaves the rest of the packet alone', () => {
    const { playout } = playing();
    playout.push(frame(1, 100));
    const into = frame(9, 200);
    expect(playout.take(into, 12, 160)).toBe(100);
    expect([into[11], into[12], into[111], into[112]]).toEqual([9, 1, 1, 9]);
  });

  it('is bounded: ten minutes, and the rest is told', () => {
    const { playout } = playing();
    const minute = new Uint8Array(60_000 * 8);
    for (let i = 0; i < 10; i++) expect(playout.push(minute)).toBe(0);
    expect(playout.push(minute)).toBe(minute.length);
    expect(playout.queuedMs).toBe(playoutLimitMs);
  });

  it('tells when an agent is nine minutes ahead, when it is too much, and when it is well again', () => {
    const { playout } = playing();
    const levels: string[] = [];
    playout.onLevel = (level) => levels.push(`${level} at ${Math.round(playout.queuedMs / 1000)} s`);
    const chunk = new Uint8Array(30_000 * 8);
    const into = new Uint8Array(60_000 * 8);
    for (let i = 0; i < 22; i++) playout.push(chunk);
    expect(levels).toEqual(['high at 570 s', 'full at 600 s']);
    for (let i = 0; i < 3; i++) playout.take(into, 0, into.length);
    expect(levels.slice(2)).toEqual(['normal at 420 s']);
    for (let i = 0; i < 5; i++) playout.push(chunk);
    playout.clear();
    expect(levels.slice(3)).toEqual(['high at 570 s', 'normal at 0 s']);
  });

  it('turns what waits into another codec', () => {
    const { playout, take } = playing();
    const said = loud(2);
    playout.push(said);
    take();
    playout.changeCodec('PCMA');
    expect(take()).toEqual([...said.subarray(160)].map((byte) => ulawToAlaw[byte]));
  });
});

describe('marks', () => {
  it('are reached when the audio before them was played, at once when there is none', () => {
    const { playout, marks, take } = playing();
    playout.mark('empty');
    expect(marks).toEqual(['empty']);
    playout.push(frame(1));
    playout.mark('a');
    playout.push(frame(2));
    playout.mark('b');
    expect(marks).toEqual(['empty']);
    take(80);
    expect(marks).toEqual(['empty']);
    take(80);
    take(10);
    expect(marks).toEqual(['empty', 'a']);
    take();
    expect(marks).toEqual(['empty', 'a', 'b']);
  });

  it('are reached by clearing too, in order, and say so', () => {
    const { playout, marks } = playing();
    playout.push(frame(1));
    playout.mark('a');
    playout.push(frame(2));
    playout.mark('b');
    playout.clear();
    expect(marks).toEqual(['a!', 'b!']);
  });

  it('may lead to more audio and marks from within', () => {
    const { playout, take } = playing();
    playout.onMark = (name) => {
      if (name !== 'again') return;
      playout.push(frame(3));
      playout.mark('last');
    };
    playout.push(frame(1, 80));
    playout.mark('again');
    expect(take(80)).toHaveLength(80);
    expect(playout.queuedMs).toBe(20);
  });
});

describe('clear', () => {
  it('empties at once and tells what was heard of the item that played', () => {
    const { playout, take } = playing();
    playout.push(frame(1, 320), 'one');
    playout.push(frame(2, 800), 'two');
    take();
    take();
    take();
    playout.push(frame(3, 320), 'three');
    expect(playout.clear()).toEqual({
      itemId: 'two',
      heardMs: 20,
      droppedMs: 120,
      items: [
        { itemId: 'two', heardMs: 20, droppedMs: 80 },
        { itemId: 'three', heardMs: 0, droppedMs: 40 },
      ],
    });
    expect(playout.queuedMs).toBe(0);
    expect(take()).toEqual([]);
  });

  it('tells of the first item when nothing was heard yet', () => {
    const { playout } = playing();
    playout.push(frame(1, 800), 'one');
    expect(playout.clear()).toEqual({
      itemId: 'one',
      heardMs: 0,
      droppedMs: 100,
      items: [{ itemId: 'one', heardMs: 0, droppedMs: 100 }],
    });
  });

  it('tells of the last item when all was heard', () => {
    const { playout, take } = playing();
    playout.push(frame(1, 320), 'one');
    take(320);
    expect(playout.clear()).toMatchObject({ itemId: 'one', items: [{ itemId: 'one', heardMs: 40, droppedMs: 0 }] });
  });

  it('counts what has no item from the start of the utterance', () => {
    const { playout, take } = playing();
    playout.push(frame(1, 320));
    take(320);
    playout.push(frame(1, 320));
    take(160);
    expect(playout.clear()).toEqual({
      heardMs: 20,
      droppedMs: 20,
      items: [{ itemId: null, heardMs: 20, droppedMs: 20 }],
    });
    expect(playout.clear().items).toEqual([]);
  });
});

describe('a standing queue', () => {
  /** An agent at the pace of the clock with `standing` frames too many; every `pauseEvery`-th frame is quiet. */
  function pace(standing: number, frames: number, pauseEvery = 0) {
    const { playout } = playing();
    const voice = loud(1);
    const into = new Uint8Array(160);
    let longestMs = 0;
    for (let i = 0; i < standing; i++) playout.push(voice);
    for (let i = 0; i < frames; i++) {
      playout.spare(playout.queuedMs);
      playout.push(pauseEvery > 0 && i % pauseEvery === 0 ? frame(0xff) : voice);
      playout.take(into, 0, 160);
      longestMs = Math.max(longestMs, playout.queuedMs);
    }
    return playout;
  }

  it('is taken out in a pause', () => {
    const playout = pace(3, 150, 10);
    expect(playout.queuedMs).toBe(0);
    expect(playout.trimmedMs).toBe(60);
  });

  it('is left alone for a while when there is no pause, then taken out of speech', () => {
    expect(pace(2, 150).trimmedMs).toBe(0);
    expect(pace(2, 450).queuedMs).toBe(0);
  });

  it('comes from our own standing still too, and leaves in the next pause', () => {
    const { playout, take } = playing();
    playout.push(loud(10));
    playout.push(frame(0xff, 3200));
    playout.missed(100);
    for (let i = 0; i < 10; i++) take();
    expect(playout.trimmedMs).toBe(0);
    for (let i = 0; i < 10; i++) take();
    expect(playout.trimmedMs).toBe(100);
    expect(playout.queuedMs).toBe(100);
  });

  it('is none when the agent keeps up', () => {
    expect(pace(0, 500, 10).trimmedMs).toBe(0);
  });

  it('is no delay when the agent sends its sentence ahead', () => {
    const { playout, take } = playing();
    playout.push(loud(300));
    for (let i = 0; i < 300; i++) expect(take()).toHaveLength(160);
    expect(playout.trimmedMs).toBe(0);
  });
});

describe('the margin', () => {
  it.each<[string, (i: number) => number, number, number]>([
    ['a punctual agent', () => 0, 3, 3],
    ['an agent late by up to 8 ms', (i) => (i % 5 === 0 ? 8 : 0), 8, 8],
    ['an agent late by 40 ms', (i) => (i % 5 === 0 ? 40 : 0), 15, 15],
    ['one straggler in 250', (i) => (i === 100 ? 12 : 0), 3, 3],
  ])('of %s', (_what, late, least, most) => {
    const margin = new ArrivalMargin();
    for (let i = 0; i < 250; i++) margin.arrived(i * 20 + late(i), 20);
    expect(margin.marginMs).toBeGreaterThanOrEqual(least);
    expect(margin.marginMs).toBeLessThanOrEqual(most);
  });

  it('does not take pauses and bursts for jitter', () => {
    const margin = new ArrivalMargin();
    for (let i = 0; i < 200; i++) margin.arrived(i * 1000, 20);
    for (let i = 0; i < 200; i++) margin.arrived(300_000 + i, 20);
    expect(margin.marginMs).toBe(3);
  });
});
