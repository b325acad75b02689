import { describe, expect, it } from 'vitest';
import { linearToAlaw, linearToUlaw } from '../../media/audio/codec/g711.js';
import { AnswerListener } from '../../media/audio/detect/answering-machine.js';
import type { MachineVerdict, PhoneCodec } from '../../media/engine.js';

/** What a callee says: voice, silence and tones, in milliseconds. */
type Part = { voice: number } | { silence: number } | { toneHz: number; ms: number; toHz?: number };

interface Line {
  codec?: PhoneCodec;
  untilMessageEnd?: boolean;
  /** Before the answer. */
  early?: boolean;
  /** Peak of the noise under all of it. */
  noise?: number;
  /** The callee sends nothing while it is silent. */
  dtx?: boolean;
  /** Jitter of the packets. */
  jitterMs?: number;
  hangUpAfterMs?: number;
  /** What lies between the two never comes. */
  lostMs?: [from: number, to: number];
}

/** Something like a voice: harmonics of a gliding pitch, in syllables with gaps. */
function synthesize(parts: Part[], noisePeak: number): { samples: number[]; silent: boolean[] } {
  const samples: number[] = [];
  const silent: boolean[] = [];
  let seed = 11;
  const noise = () => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff;
    return seed / 0x3fffffff - 1;
  };
  let phase = 0;
  for (const part of parts) {
    const ms = 'voice' in part ? part.voice : 'silence' in part ? part.silence : part.ms;
    for (let n = 0; n < ms * 8; n++) {
      let sample = 0;
      if ('voice' in part) {
        const inMs = n / 8;
        phase += (130 + 40 * Math.sin(inMs / 170)) / 8000;
        for (let harmonic = 1; harmonic <= 14; harmonic++)
          sample += Math.sin(2 * Math.PI * harmonic * phase) / (1 + Math.abs(harmonic - 4));
        const gap = inMs % 260 > 200 && ms - inMs > 90;
        sample *= gap ? 0 : 2200 * (0.55 + 0.45 * Math.sin(inMs / 28));
      } else if ('toneHz' in part) sample = 7000 * Math.sin((2 * Math.PI * part.toneHz * n) / 8000);
      samples.push(sample + noisePeak * noise());
      silent.push('silence' in part);
    }
  }
  return { samples, silent };
}

function listen(parts: Part[], line: Line = {}): MachineVerdict | null {
  const { codec = 'PCMU', untilMessageEnd = false, noise = 20, dtx = false, jitterMs = 0 } = line;
  const told: MachineVerdict[] = [];
  const startMs = 5000;
  const listener = new AnswerListener(startMs, { untilMessageEnd, early: line.early ?? false }, (verdict) =>
    told.push(verdict),
  );
  const { samples, silent } = synthesize([...parts, { silence: 40_000 }], noise);
  const table = codec === 'PCMA' ? linearToAlaw : linearToUlaw;
  for (let at = 0, packet = 0; at < samples.length && told.length === 0; at += 160, packet++) {
    const bytes = Uint8Array.from(samples.slice(at, at + 160), (sample) => table[Math.round(sample) & 0xffff]!);
    const nowMs = startMs + (at + 160) / 8 + (packet % 3 === 0 ? jitterMs : 0);
    if (line.hangUpAfterMs !== undefined && nowMs - startMs > line.hangUpAfterMs) listener.close(nowMs);
    const [lostFromMs, lostToMs] = line.lostMs ?? [0, 0];
    const lost = at / 8 >= lostFromMs && at / 8 < lostToMs;
    if (!lost && !(dtx && silent[at])) listener.hear((1000 + at) >>> 0, bytes, codec, nowMs);
    listener.tick(nowMs);
  }
  expect(told.length).toBeLessThanOrEqual(1);
  return told[0] ?? null;
}

const hello: Part[] = [{ silence: 400 }, { voice: 600 }];
const machine: Part[] = [{ silence: 700 }, { voice: 4200 }, { silence: 500 }, { voice: 1800 }];
const beep: Part[] = [{ silence: 400 }, { toneHz: 1000, ms: 400 }];

describe('answering machine detection', () => {
  it.each<[string, Part[], Line, Partial<MachineVerdict>]>([
    ['"Hello?"', hello, {}, { result: 'human', reason: 'short_greeting' }],
    ['"Hello?" at once', [{ voice: 400 }], {}, { result: 'human' }],
    [
      'a name and a company',
      [{ silence: 300 }, { voice: 700 }, { silence: 350 }, { voice: 800 }],
      {},
      { result: 'human' },
    ],
    ['"Hello?" twice', [...hello, { silence: 1500 }, { voice: 500 }], {}, { result: 'human' }],
    ['"Hello?" in a noisy street', hello, { noise: 120 }, { result: 'human' }],
    ['"Hello?" with A-law and jitter', hello, { codec: 'PCMA', jitterMs: 30 }, { result: 'human' }],
    ['"Hello?" of a phone that sends no silence', hello, { dtx: true }, { result: 'human' }],
    ['a greeting that goes on', machine, {}, { result: 'machine', reason: 'long_greeting' }],
    ['one in A-law, noisy', machine, { codec: 'PCMA', noise: 100 }, { result: 'machine' }],
    ['one with a pause within', [{ voice: 1500 }, { silence: 700 }, { voice: 1500 }], {}, { result: 'machine' }],
    [
      'a short greeting and a beep',
      [{ voice: 1200 }, ...beep],
      {},
      { result: 'machine', reason: 'beep', beepHz: 1000 },
    ],
    [
      'a beep and nothing else',
      [{ silence: 800 }, { toneHz: 440, ms: 300 }],
      {},
      { result: 'machine', reason: 'beep' },
    ],
    [
      'a fax that answers (CED)',
      [{ silence: 300 }, { toneHz: 2100, ms: 2600 }],
      {},
      { result: 'fax', reason: 'fax_tone' },
    ],
    ['a fax that calls (CNG)', [{ silence: 300 }, { toneHz: 1100, ms: 500 }], {}, { result: 'fax' }],
    ['nobody who speaks', [], {}, { result: 'unknown', reason: 'silence', greetingMs: null }],
    ['nobody, not even a packet', [], { dtx: true }, { result: 'unknown', reason: 'silence' }],
    ['a tone without end', [{ toneHz: 425, ms: 40_000 }], {}, { result: 'unknown', reason: 'timeout' }],
    [
      'a short greeting, and a beep with which RTP stops',
      [{ voice: 1200 }, ...beep],
      { dtx: true },
      { result: 'machine', reason: 'beep', beepHz: 1000 },
    ],
    [
      '"Hello?" and a tone with which RTP stops',
      [...hello, { toneHz: 350, ms: 60 }],
      { dtx: true },
      { result: 'human' },
    ],
    ['a click', [{ silence: 500 }, { voice: 20 }], {}, { result: 'unknown', reason: 'silence' }],
    ['somebody who hangs up', machine, { hangUpAfterMs: 900 }, { result: 'unknown', reason: 'call_ended' }],
  ])('%s', (_, parts, line, expected) => {
    expect(listen(parts, line)).toMatchObject(expected);
  });

  it('a person is known a second after the greeting, a machine while it talks', () => {
    const human = listen(hello);
    expect(human?.decidedMs).toBeGreaterThanOrEqual(1990);
    expect(human?.decidedMs).toBeLessThanOrEqual(2300);
    expect(human?.greetingMs).toBeGreaterThan(500);
    expect(human?.greetingMs).toBeLessThan(700);
    const talks = listen(machine);
    expect(talks?.decidedMs).toBeGreaterThanOrEqual(3100);
    expect(talks?.decidedMs).toBeLessThanOrEqual(3400);
  });
});

describe('the end of a message', () => {
  it.each([440, 800, 1000, 1400, 1950])('is the beep of %d Hz, not its beginning', (toneHz) => {
    const verdict = listen([...machine, { silence: 400 }, { toneHz, ms: 500 }], { untilMessageEnd: true, noise: 60 });
    expect(verdict).toMatchObject({ result: 'machine', reason: 'long_greeting', messageEnd: 'beep' });
    expect(Math.abs((verdict?.beepHz ?? 0) - toneHz)).toBeLessThan(10);
    const ends = 700 + 4200 + 500 + 1800 + 400 + 500;
    expect(Math.abs((verdict?.messageEndMs ?? 0) - ends)).toBeLessThanOrEqual(40);
  });

  it.each<[string, number, number]>([
    ['with the packets', 500, 0],
    ['within a block of the detector', 490, 0],
    ['with the packets, which came with jitter', 500, 60],
  ])('is a beep that ends %s: RTP stops there', (_, ms, jitterMs) => {
    const parts: Part[] = [...machine, { silence: 400 }, { toneHz: 1000, ms }];
    const verdict = listen(parts, { untilMessageEnd: true, dtx: true, jitterMs });
    expect(verdict).toMatchObject({ result: 'machine', messageEnd: 'beep', beepHz: 1000 });
    const ends = 700 + 4200 + 500 + 1800 + 400 + ms;
    expect(Math.abs((verdict?.messageEndMs ?? 0) - ends)).toBeLessThanOrEqual(40 + jitterMs);
  });

  it('is one beep where the network loses 100 ms within it', () => {
    const parts: Part[] = [...machine, { silence: 400 }, { toneHz: 1000, ms: 600 }];
    const beginsMs = 700 + 4200 + 500 + 1800 + 400;
    const verdict = listen(parts, { untilMessageEnd: true, lostMs: [beginsMs + 200, beginsMs + 300] });
    expect(verdict).toMatchObject({ messageEnd: 'beep' });
    expect(Math.abs((verdict?.messageEndMs ?? 0) - beginsMs - 600)).toBeLessThanOrEqual(40);
  });

  it('is silence where a long tone stops together with the packets', () => {
    const verdict = listen([...machine, { toneHz: 425, ms: 4000 }], { untilMessageEnd: true, dtx: true });
    expect(verdict).toMatchObject({ messageEnd: 'silence' });
  });

  it('is silence where there is no beep, and never later than 30 s', () => {
    const silent = listen(machine, { untilMessageEnd: true });
    expect(silent).toMatchObject({ messageEnd: 'silence', beepHz: null });
    expect(Math.abs((silent?.messageEndMs ?? 0) - 7200)).toBeLessThanOrEqual(60);
    expect(listen([{ voice: 45_000 }], { untilMessageEnd: true })).toMatchObject({ messageEnd: 'timeout' });
  });

  it('of a person is not waited for', () => {
    expect(listen(hello, { untilMessageEnd: true })).toMatchObject({ result: 'human', messageEnd: null });
  });

  it('of a machine that is cut off is not known', () => {
    const verdict = listen(machine, { untilMessageEnd: true, hangUpAfterMs: 4000 });
    expect(verdict).toMatchObject({ result: 'machine', messageEnd: null });
  });
});

describe('an announcement of the network', () => {
  const tones = (hz: number[], ms: number[]): Part[] => hz.map((toneHz, i) => ({ toneHz, ms: ms[i]! }));
  const after: Part[] = [{ silence: 100 }, { voice: 3000 }];

  it.each<[string, number[], number[]]>([
    ['of E.180', [950, 1400, 1800], [330, 330, 330]],
    ['no circuit', [985.2, 1428.5, 1776.7], [380, 380, 380]],
    ['intercept', [913.8, 1370.6, 1776.7], [274, 274, 380]],
    ['vacant code', [985.2, 1370.6, 1776.7], [380, 274, 380]],
    ['reorder', [913.8, 1428.5, 1776.7], [274, 380, 380]],
  ])('is known by its three tones: %s', (_, hz, ms) => {
    for (const line of [{}, { codec: 'PCMA' }, { noise: 100 }, { early: true }, { untilMessageEnd: true }] as Line[]) {
      const verdict = listen([{ silence: 300 }, ...tones(hz, ms), ...after], line);
      expect(verdict).toMatchObject({ result: 'operator', reason: 'sit_tone' });
      expect(verdict?.decidedMs).toBeLessThan(1800);
    }
  });

  it.each<[string, Part[]]>([
    ['in another order', tones([1800, 1400, 950], [330, 330, 330])],
    ['of other lengths', tones([950, 1400, 1800], [100, 100, 100])],
    ['with pauses between', tones([950, 1400, 1800], [330, 330, 330]).flatMap((tone) => [tone, { silence: 400 }])],
  ])('is not three tones %s', (_, parts) => {
    expect(listen([{ silence: 300 }, ...parts, ...after])?.result).not.toBe('operator');
  });

  it('is all that is listened for before the answer', () => {
    const ringing: Part[] = [{ toneHz: 425, ms: 1000 }, { silence: 4000 }];
    expect(listen([...ringing, ...machine, ...beep, ...ringing], { early: true })).toBeNull();
    expect(listen([{ toneHz: 2100, ms: 3000 }], { early: true })).toBeNull();
  });
});

describe('a beep', () => {
  it.each([100, 120, 150])('may be as short as %d ms, after a pause', (ms) => {
    const verdict = listen([...machine, { silence: 300 }, { toneHz: 1000, ms }], { untilMessageEnd: true });
    expect(verdict).toMatchObject({ messageEnd: 'beep', beepHz: 1000 });
  });

  it.each([100, 500, 900])('is not the end of the ringing, %d ms from the answer on', (ms) => {
    const verdict = listen([{ toneHz: 425, ms }, ...hello]);
    expect(verdict).toMatchObject({ result: 'human' });
    expect(Math.abs((verdict?.greetingMs ?? 0) - 600), 'the word, not the tone').toBeLessThan(100);
    expect(verdict?.decidedMs).toBeGreaterThan(ms + 400 + 600 + 900);
  });

  it('is the end of the ringing even if nothing follows', () => {
    expect(listen([{ toneHz: 1400, ms: 500 }])).toMatchObject({ result: 'unknown', reason: 'silence' });
  });

  it('is not a pure vowel within a word', () => {
    const word: Part[] = [{ voice: 400 }, { toneHz: 600, ms: 100 }, { voice: 300 }];
    expect(listen([{ silence: 300 }, ...word])).toMatchObject({ result: 'human' });
  });
});
