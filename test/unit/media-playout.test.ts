import { describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToAlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { ArrivalMargin } from '../../media/audio/playout/arrival-margin.js';
import { Playout, playoutLimitMs } from '../../media/audio/playout/playout.js';
import { syntheticVoice } from '../support/speech.js';
import { purestTenths } from '../support/tone-probe.js';

const frame = (value: number, length = 160) => new Uint8Array(length).fill(value);
const voice = (frames: number) =>
  Uint8Array.from(syntheticVoice(frames / 50), (sample) => linearToUlaw[sample & 0xffff]!);
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

  it('is bounded: ten minutes, and the rest is reported', () => {
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
  function pace(standing: number, audio: Uint8Array, pauseEvery = 0) {
    const { playout } = playing();
    const into = new Uint8Array(160);
    const heard: number[] = [];
    for (let i = 0; i * 160 + 160 <= audio.length; i++) {
      const next = audio.subarray(i * 160, i * 160 + 160);
      if (i > standing) playout.spare(playout.queuedMs);
      playout.push(pauseEvery > 0 && i % pauseEvery === 0 ? frame(0xff) : next);
      if (i < standing) continue;
      playout.take(into, 0, 160);
      heard.push(...into);
    }
    return { playout, heard };
  }

  it('is taken out in a pause', () => {
    const { playout } = pace(3, voice(150), 10);
    expect(playout.queuedMs).toBe(0);
    expect(playout.trimmedMs).toBe(60);
  });

  it('is taken out of speech without a pause, within a second and in whole frames', () => {
    const { playout } = pace(2, voice(60));
    expect(playout.queuedMs).toBe(0);
    expect(playout.trimmedMs).toBe(40);
  });

  it.each<[string, number[]]>([
    ['the ringing tone', [440, 480]],
    ['a key', [770, 1336]],
    ['a chord', [261.6, 329.6, 392]],
  ])('stays in %s, which passes bit for bit', (_what, frequenciesHz) => {
    const audio = Uint8Array.from({ length: 160 * 400 }, (_, i) => {
      const sum = frequenciesHz.reduce((sample, hz) => sample + Math.sin((2 * Math.PI * hz * i) / 8000), 0);
      return linearToUlaw[Math.round((9000 * sum) / frequenciesHz.length) & 0xffff]!;
    });
    const { playout, heard } = pace(3, audio);
    expect(playout.trimmedMs).toBe(0);
    expect(heard).toEqual([...audio.subarray(0, heard.length)]);
  });

  it.each([440, 1004, 1100, 2100])(
    'leaves a tone of %i Hz that is steady for seconds, which goes on as before',
    (hz) => {
      const audio = Uint8Array.from(
        tone({ frequencyHz: hz, durationMs: 8000 }),
        (sample) => linearToUlaw[sample & 0xffff]!,
      );
      const { playout, heard } = pace(3, audio);
      expect(playout.queuedMs).toBeLessThan(20);
      expect(heard.slice(0, 8000)).toEqual([...audio.subarray(0, 8000)]);
      const samples = Int16Array.from(heard, (byte) => ulawToLinear[byte]!);
      // tenths of a second: nothing but the tone and as loud, also where some cuts have moved its phase by a few degrees
      const tenths = purestTenths(samples, hz);
      expect(tenths.at(-1)!.purityDb).toBeGreaterThan(15);
      for (const { amplitude } of tenths) expect(Math.abs(20 * Math.log10(amplitude / 8000))).toBeLessThan(0.2);
    },
  );

  it('stays in a row of keys with short pauses, and leaves in the long pause after it', () => {
    const keys = Uint8Array.from({ length: 160 * 150 }, (_, i) => {
      const at = i % (160 * 8);
      if (at >= 160 * 5 || i >= 160 * 80) return 0xff;
      const sample = Math.sin((2 * Math.PI * 770 * at) / 8000) + Math.sin((2 * Math.PI * 1477 * at) / 8000);
      return linearToUlaw[Math.round(5000 * sample) & 0xffff]!;
    });
    const { playout, heard } = pace(3, keys);
    expect(heard.slice(0, 160 * 80)).toEqual([...keys.subarray(0, 160 * 80)]);
    expect(playout.queuedMs).toBe(60);
  });

  it('is measured longer after the queue ran dry soon after a removal: that agent is late again and again', () => {
    const removals = (everyFrames: number) => {
      const { playout } = playing();
      const into = new Uint8Array(160);
      const audio = voice(1000);
      let queued = 0;
      for (let i = 0; i < 1000; i++) {
        // Two frames come late together, again and again.
        const late = i % everyFrames >= everyFrames - 2;
        for (; !late && queued <= i; queued++) {
          playout.spare(playout.queuedMs);
          playout.push(audio.subarray(queued * 160, queued * 160 + 160));
        }
        playout.take(into, 0, 160);
      }
      return playout.trimmedMs / 20;
    };
    // Every 300 ms: measured for long enough, the delay is seen as what this agent needs.
    expect(removals(15)).toBeLessThan(30);
  });

  it('comes from our own standing still too, and leaves in the next pause', () => {
    const { playout, take } = playing();
    playout.push(voice(10));
    playout.push(frame(0xff, 3200));
    playout.missed(100);
    for (let i = 0; i < 10; i++) take();
    expect(playout.trimmedMs).toBe(0);
    for (let i = 0; i < 10; i++) take();
    expect(playout.trimmedMs).toBe(100);
    expect(playout.queuedMs).toBe(100);
  });

  it('is none when the agent keeps up', () => {
    expect(pace(0, voice(500), 10).playout.trimmedMs).toBe(0);
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
