import { describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { HeldNotes } from '../../media/audio/detect/held-notes.js';
import { bestCut, writeCut } from '../../media/audio/dsp/time-scale.js';
import { Playout } from '../../media/audio/playout/playout.js';
import { SearchBudget, SpeechPace } from '../../media/audio/playout/shortening.js';
import { PlayoutSchedule } from '../support/playout-line.js';
import { espeakVoice, syntheticVoice } from '../support/speech.js';

const spoken: [string, Int16Array][] = [
  ['a synthetic voice', syntheticVoice(16)],
  ['a high synthetic voice', syntheticVoice(16, 210)],
];
for (const [voice, pitch] of [
  ['en-us', 50],
  ['en-us+f3', 60],
  ['de', 50],
] as const) {
  const audio = espeakVoice(voice, pitch);
  if (audio) spoken.push([`${voice} ${pitch}`, audio]);
}
const voices = spoken.map(([name, audio]): [string, Int16Array] => [name, audio.subarray(0, 12 * 8000)]);
const codes = (audio: Int16Array) => Uint8Array.from(audio, (sample) => linearToUlaw[sample & 0xffff]!);
const at = (sorted: number[], part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!;

/** An agent that stands still for `stallMs` at its frame `frame`, and then sends at once what it could not send. */
function stalled(audio: Int16Array, frame: number, stallMs: number): PlayoutSchedule {
  const line = new PlayoutSchedule();
  line.time.advance(500);
  const frames = stallMs / 20;
  line.speak(audio, (i) => (i >= frame && i < frame + frames ? (frame + frames - i) * 20 : 0));
  line.time.advance(300);
  return line;
}

/** Seconds from the end of a stall until the call is within 5 ms of its old delay, for stalls all over the speech. */
function recoveries(stallMs: number): number[] {
  const all: number[] = [];
  for (const [, audio] of voices)
    for (let frame = 60; frame + 200 < audio.length / 160; frame += 23) {
      const delays = stalled(audio, frame, stallMs).sent.filter(({ delayMs }) => delayMs !== null);
      const stalledMs = 1500 + frame * 20;
      const beforeMs = delays.filter(({ atMs }) => atMs < stalledMs).at(-1)!.delayMs!;
      const late = delays.filter(({ atMs, delayMs }) => atMs < stalledMs + 4000 && delayMs! > beforeMs + 5);
      all.push(((late.at(-1)?.atMs ?? stalledMs) - stalledMs - stallMs) / 1000);
    }
  return all.sort((a, b) => a - b);
}

describe('after an agent stood still while it spoke', () => {
  it.each([
    [20, 0.3],
    [60, 0.4],
    [100, 0.5],
  ])('for %i ms, the call is on time again: p50 %d s, p95 1 s, worst 2 s', (stallMs, halfSec) => {
    const sorted = recoveries(stallMs);
    expect(at(sorted, 0.5)).toBeLessThanOrEqual(halfSec);
    expect(at(sorted, 0.95)).toBeLessThanOrEqual(1);
    expect(at(sorted, 1)).toBeLessThanOrEqual(2);
  });

  it.each([20, 60, 100])('for %i ms, no packet in mid-word is silent', (stallMs) => {
    const level = (payload: Uint8Array) =>
      Math.sqrt(payload.reduce((sum, code) => sum + ulawToLinear[code]! ** 2, 0) / payload.length);
    for (const [name, audio] of voices)
      for (let frame = 60; frame + 100 < audio.length / 160; frame += 17) {
        const around = [frame - 2, frame - 1, frame, frame + 1].map((i) =>
          level(codes(audio.subarray(i * 160, i * 160 + 160))),
        );
        if (Math.min(...around) < 1000) continue;
        const { sent } = stalled(audio, frame, stallMs);
        const first = sent.findIndex(({ atMs }) => atMs > 1500 + frame * 20 - 20);
        const during = sent.slice(first, first + stallMs / 20 + 2).map(({ payload }) => level(payload));
        expect(Math.min(...during), `${name}, frame ${frame}`).toBeGreaterThan(50);
      }
  });

  it('the heard time and the marks are exact to the sample, whatever was left out', () => {
    const line = new PlayoutSchedule();
    const reached: string[] = [];
    line.playout.onMark = (name) => reached.push(`${name} at ${line.position}`);
    line.time.advance(500);
    const audio = voices[0]![1];
    for (let i = 0; i < 300; i++) {
      // Frames 100 to 103 come together, 80 ms after the one before.
      line.time.advance(i === 100 ? 80 : i > 100 && i <= 103 ? 0 : 20);
      line.arrive(codes(audio.subarray(i * 160, i * 160 + 160)), 'item');
      if (i % 10 === 9) line.playout.mark(`after ${160 * (i + 1)}`);
    }
    expect(line.playout.trimmedMs).toBeGreaterThan(0);
    const { heardMs, droppedMs } = line.playout.clear();
    expect(heardMs + droppedMs).toBe(300 * 20);
    expect(reached.length).toBeGreaterThan(20);
    for (const mark of reached.filter((each) => !each.startsWith('after 48000'))) {
      const [, wanted, position] = /after (\d+) at (\d+)/.exec(mark)!;
      // Reached in the packet that contains it.
      expect(Number(position)).toBeGreaterThanOrEqual(Number(wanted));
      expect(Number(position) - Number(wanted)).toBeLessThanOrEqual(320);
    }
  });
});

describe('while our own thread stands still again and again, 2.2 s in all, and the agent speaks in real time', () => {
  const inAllMs = 2200;
  const firstFrame = 66;

  /** Delay before, in the mean while the thread stands still now and then, and the seconds until the old delay after the last time. */
  function disturbed(audio: Int16Array, stallMs: number, everyFrames: number, slotFirst: boolean) {
    const line = new PlayoutSchedule();
    line.time.advance(500);
    const startMs = line.time.nowMs;
    const stalls = inAllMs / stallMs;
    const isStall = (i: number) =>
      i >= firstFrame && (i - firstFrame) % everyFrames === 0 && i < firstFrame + stalls * everyFrames;
    line.speakToStalledThread(audio, (i) => (isStall(i) ? stallMs : 0), slotFirst);
    const firstMs = startMs + firstFrame * 20;
    const lastMs = firstMs + (stalls - 1) * everyFrames * 20 + stallMs;
    const delays = line.sent.filter(({ delayMs }) => delayMs !== null);
    const beforeMs = delays.filter(({ atMs }) => atMs < firstMs).at(-1)!.delayMs!;
    const during = delays.filter(({ atMs }) => atMs >= firstMs && atMs < lastMs);
    const late = delays.filter(({ atMs, delayMs }) => atMs >= lastMs && delayMs! > beforeMs + 5);
    return {
      meanMs: during.reduce((sum, { delayMs }) => sum + delayMs!, 0) / during.length,
      recoveredSec: ((late.at(-1)?.atMs ?? lastMs) - lastMs) / 1000,
    };
  }

  it.each([
    { stallMs: 100, everyFrames: 25, read: 'before', halfWithinSec: 0.5 },
    { stallMs: 100, everyFrames: 25, read: 'after', halfWithinSec: 0.5 },
    { stallMs: 200, everyFrames: 50, read: 'before', halfWithinSec: 1 },
    { stallMs: 200, everyFrames: 50, read: 'after', halfWithinSec: 1 },
  ])(
    '$stallMs ms of each $everyFrames frames, its audio read $read the slot: no delay stays',
    ({ stallMs, everyFrames, read, halfWithinSec }) => {
      const all = spoken.map(([, audio]) => disturbed(audio, stallMs, everyFrames, read === 'after'));
      const means = all.map(({ meanMs }) => meanMs).sort((a, b) => a - b);
      const recovered = all.map(({ recoveredSec }) => recoveredSec).sort((a, b) => a - b);
      expect(at(means, 0.5)).toBeLessThanOrEqual(stallMs);
      expect(at(recovered, 0.5)).toBeLessThanOrEqual(halfWithinSec);
      expect(at(recovered, 1)).toBeLessThanOrEqual(2);
    },
  );
});

describe('a cut', () => {
  it('leaves the pitch as it is, within 1 %', () => {
    for (const hz of [90, 120, 180, 260]) {
      const voice = Int16Array.from({ length: 4000 }, (_, i) => {
        let sample = 0;
        for (let harmonic = 1; harmonic * hz < 3400; harmonic++)
          sample += (3000 / harmonic) * Math.sin((2 * Math.PI * harmonic * hz * i) / 8000 + harmonic);
        return Math.round(sample);
      });
      const cut = bestCut(voice, 160, 320, 8000)!;
      expect(cut.likeness).toBeGreaterThan(0.98);
      const periods = (cut.length * hz) / 8000;
      expect(Math.abs(periods - Math.round(periods))).toBeLessThan(0.03);
      const into = new Int16Array(160);
      writeCut(voice, cut, 160, 8000, into);
      // The frame continues in the audio after the cut.
      expect(into[159]).toBe(voice[159 + cut.length]);
    }
  });

  it('never leaves a rest that is too short to be cut', () => {
    const voice = syntheticVoice(2);
    for (let owed = 20; owed < 400; owed += 7) {
      const cut = bestCut(voice.subarray(3000, 3400), 160, owed, 8000);
      if (cut) expect(owed - cut.length === 0 || owed - cut.length >= 20).toBe(true);
    }
  });
});

it('speech that is shortened is a fifth faster, after its first period', () => {
  const pace = new SpeechPace();
  pace.begin();
  let leftOutMs = 0;
  for (let playedMs = 20; playedMs <= 2000; playedMs += 20) {
    pace.played(20);
    const ms = Math.min(7.5, pace.mostMs);
    pace.leftOut(ms);
    leftOutMs += ms;
    expect(leftOutMs).toBeLessThanOrEqual(10 + playedMs / 5);
  }
  expect(leftOutMs).toBeGreaterThan(380);
});

describe('the searches of a thread', () => {
  it('are spread over the slots of its calls when all are behind at once', () => {
    const budget = new SearchBudget();
    let made = 0;
    for (let slot = 0; slot < 400; slot++) {
      budget.slot();
      if (budget.take()) made += 1;
    }
    expect(made).toBeGreaterThan(190);
    expect(made).toBeLessThan(220);
  });

  it('do not limit one call alone', () => {
    const budget = new SearchBudget();
    for (let slot = 0; slot < 16; slot++) {
      budget.slot();
      expect(budget.take()).toBe(true);
    }
  });
});

describe('the recognizer', () => {
  const kindOf = (audio: Int16Array) => {
    const notes = new HeldNotes();
    const kinds = new Set<string>();
    for (let i = 0; i + 160 <= audio.length; i += 160) {
      notes.hear(audio.subarray(i, i + 160), 8000);
      kinds.add(notes.kind);
    }
    return kinds;
  };

  it('knows every voice as speech within its first second', () => {
    for (const [name, audio] of voices) expect(kindOf(audio.subarray(4000, 12_000)), name).toContain('speech');
  });

  it('never takes notes for speech: chords, a melody, tones, through μ-law', () => {
    const strings = [
      [261.6, 329.6, 392],
      [349.2, 440, 523.3],
      [392, 493.9, 587.3],
      [220, 261.6, 329.6],
    ];
    const music = (notesHz: number[][], noteMs: number, decay: number, harmonics: number) =>
      Int16Array.from({ length: 8000 * 4 }, (_, i) => {
        const note = Math.floor(i / (8 * noteMs));
        const at = (i % (8 * noteMs)) / 8000;
        let sample = 0;
        for (const hz of notesHz[note % notesHz.length]!)
          for (let h = 1; h <= harmonics && h * hz < 3600; h++)
            sample += Math.sin((2 * Math.PI * h * hz * i) / 8000) / h;
        return ulawToLinear[linearToUlaw[Math.round(2500 * Math.exp(-decay * at) * sample) & 0xffff]!]!;
      });
    for (const audio of [
      music(strings, 600, 0, 8),
      music(strings, 500, 3, 6),
      music(
        strings.flat().map((hz) => [hz]),
        300,
        2,
        5,
      ),
      music([[440]], 1000, 0, 1),
      music([[697, 1209]], 1000, 0, 1),
      music([[440, 480]], 1000, 0, 1),
    ])
      expect(kindOf(audio)).not.toContain('speech');
  });
});

it('an agent that sends ahead is not shortened, at any speed', () => {
  for (const speed of [1.5, 2, 5]) {
    const playout = new Playout('PCMU');
    const audio = codes(voices[0]![1]);
    const into = new Uint8Array(160);
    let sent = 0;
    for (let slot = 0; slot < 500; slot++) {
      for (; sent < Math.min(audio.length, slot * 160 * speed + 160); sent += 160) {
        playout.spare(playout.queuedMs);
        playout.push(audio.subarray(sent, sent + 160));
      }
      playout.take(into, 0, 160);
    }
    expect(playout.trimmedMs, `${speed}`).toBe(0);
  }
});
