import { describe, expect, it } from 'vitest';
import { linearToUlaw, silenceByte, ulawToAlaw } from '../../media/audio/codec/g711.js';
import { Turns } from '../../media/audio/detect/turns.js';
import { tone } from '../../media/audio/dsp/tone.js';

type Speaker = 'caller' | 'agent';
type Words = [Speaker, fromMs: number, toMs: number];

/** Something like speech: a tone whose loudness goes up and down, with short pauses within. */
function speech(ms: number, amplitude = 6000): Uint8Array {
  const samples = tone({ frequencyHz: 300, durationMs: ms, amplitude });
  return Uint8Array.from(samples, (sample, i) => {
    const inMs = i / 8;
    const pause = inMs % 400 > 330 && ms - inMs > 80;
    const loudness = pause ? 0 : 0.6 + 0.4 * Math.sin(inMs / 30);
    return linearToUlaw[Math.round(sample * loudness) & 0xffff]!;
  });
}

/**
 * Something like a spoken word: syllables of a gliding voice with formants, a rise and a long fall of loudness, breath behind each, and
 * the short gaps of stop consonants between them.
 */
function spokenWords(ms: number): Uint8Array {
  const bytes = new Uint8Array(ms * 8);
  let phase = 0;
  let seed = 3;
  for (let i = 0; i < bytes.length; i++) {
    const inMs = i / 8;
    const syllableMs = Math.min(210, ms);
    const at = (inMs % syllableMs) / syllableMs;
    phase += (170 - (40 * inMs) / Math.max(ms, 500) + 15 * Math.sin(inMs / 60)) / 8000;
    let voice = 0;
    for (let harmonic = 1; harmonic <= 18; harmonic++) {
      const hz = harmonic * 150;
      const formants = 1 / (1 + ((hz - 500) / 180) ** 2) + 0.5 / (1 + ((hz - 1500) / 250) ** 2);
      voice += formants * Math.sin(2 * Math.PI * harmonic * phase);
    }
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    const breath = (seed / 0x3fffffff - 1) * 120;
    const gap = ms > 250 && at > 0.78 ? 0 : 1;
    const loudness = Math.min(1, at * 8) * Math.exp(-2.2 * at) * Math.min(1, (ms - inMs) / 20);
    bytes[i] = linearToUlaw[Math.round(gap * (3800 * loudness * voice + breath)) & 0xffff]!;
  }
  return bytes;
}

interface Line {
  /** How words sound. */
  sound?: (ms: number) => Uint8Array;
  codec?: 'PCMU' | 'PCMA';
  ptimeMs?: number;
  noise?: number;
  /** Packets of the caller that never come. */
  lost?: (packet: number) => boolean;
  /** The caller sends nothing while silent. */
  dtx?: boolean;
  jitterMs?: (packet: number) => number;
  amplitude?: number;
}

/** A dialogue of known times, in packets. */
function dialogue(words: Words[], untilMs: number, line: Line = {}) {
  const { codec = 'PCMU', ptimeMs = 20, noise = 0, amplitude, sound = (ms: number) => speech(ms, amplitude) } = line;
  const events: Parameters<ConstructorParameters<typeof Turns>[1]>[0][] = [];
  const turns = new Turns(1000, (event) => events.push(event));
  const tracks = { caller: track(words, 'caller'), agent: track(words, 'agent') };
  function track(all: Words[], speaker: Speaker): Uint8Array {
    let seed = 7;
    const bytes = new Uint8Array(untilMs * 8).map(() => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      return linearToUlaw[Math.round((seed / 0x7fffffff - 0.5) * 2 * noise) & 0xffff]!;
    });
    for (const [who, fromMs, toMs] of all) if (who === speaker) bytes.set(sound(toMs - fromMs), fromMs * 8);
    return codec === 'PCMA' ? bytes.map((byte) => ulawToAlaw[byte]!) : bytes;
  }
  const length = ptimeMs * 8;
  const due: { atMs: number; give(): void }[] = [];
  for (let n = 0; (n + 1) * ptimeMs <= untilMs; n++) {
    const from = n * length;
    const arriveMs = 1000 + (n + 1) * ptimeMs + (line.jitterMs?.(n) ?? 0);
    const quiet = tracks.caller.subarray(from, from + length).every((byte) => byte === silenceByte[codec]);
    if (!line.lost?.(n) && !(line.dtx && quiet))
      due.push({
        atMs: arriveMs,
        give: () => turns.fromCaller(5000 + from, tracks.caller, from, from + length, codec, arriveMs),
      });
    const sendMs = 1000 + n * ptimeMs;
    due.push({
      atMs: sendMs,
      give: () => {
        turns.tick(sendMs);
        turns.fromAgent((0xffffff00 + from) >>> 0, tracks.agent, from, from + length, codec, sendMs);
      },
    });
  }
  for (const { give } of due.sort((a, b) => a.atMs - b.atMs)) give();
  turns.end();
  return events;
}

const near = (ms: number | null, expected: number, what: string) => {
  expect(ms, what).not.toBeNull();
  expect(Math.abs(ms! - expected), `${what}: ${ms} instead of ${expected} ms`).toBeLessThanOrEqual(20);
};

function expectTurns(events: ReturnType<typeof dialogue>, expected: [Speaker, number, number, number | null][]): void {
  const turns = events.filter((event) => event.type === 'turn');
  expect(turns.map((turn) => turn.speaker)).toEqual(expected.map(([speaker]) => speaker));
  turns.forEach((turn, i) => {
    const [, startedMs, durationMs, responseMs] = expected[i]!;
    near(turn.startedMs, startedMs, `start of turn ${i + 1}`);
    near(turn.durationMs, durationMs, `length of turn ${i + 1}`);
    if (responseMs === null) expect(turn.responseMs).toBeNull();
    else near(turn.responseMs, responseMs, `response of turn ${i + 1}`);
  });
}

const talk: Words[] = [
  ['agent', 200, 1500],
  ['caller', 1900, 3000],
  ['agent', 3620, 5100],
  ['caller', 5250, 6000],
  ['agent', 7500, 9000],
];
const told: [Speaker, number, number, number | null][] = [
  ['agent', 200, 1300, null],
  ['caller', 1900, 1100, 400],
  ['agent', 3620, 1480, 620],
  ['caller', 5250, 750, 150],
  ['agent', 7500, 1500, 1500],
];

describe('a dialogue of known gaps', () => {
  it.each<[string, Line]>([
    ['μ-law', {}],
    ['A-law', { codec: 'PCMA' }],
    ['packets of 30 ms', { ptimeMs: 30 }],
    ['packets of 60 ms', { ptimeMs: 60 }],
    ['a noisy line', { noise: 120 }],
    ['a caller who sends nothing while silent', { dtx: true }],
    ['a soft voice', { amplitude: 1500 }],
    ['jitter of 40 ms', { jitterMs: (n) => (n * 7) % 40 }],
  ])('is told within 20 ms: %s', (_name, line) => {
    expectTurns(dialogue(talk, 10_000, line), told);
  });

  it('is one turn where one side pauses', () => {
    const events = dialogue(
      [
        ['caller', 500, 1000],
        ['caller', 2000, 2600],
        ['agent', 3000, 4000],
      ],
      5000,
    );
    expectTurns(events, [
      ['caller', 500, 2100, null],
      ['agent', 3000, 1000, 400],
    ]);
  });

  it('has no turns in noise and clicks', () => {
    expect(dialogue([], 5000, { noise: 150 })).toEqual([]);
    expect(
      dialogue(
        [
          ['caller', 1000, 1020],
          ['agent', 2000, 2030],
        ],
        5000,
      ),
    ).toEqual([]);
  });
});

describe('words over words', () => {
  it('of the caller are a barge-in, with the time until the agent was silent', () => {
    const events = dialogue(
      [
        ['agent', 500, 3300],
        ['caller', 3000, 4500],
        ['agent', 5000, 6000],
      ],
      7000,
    );
    const [bargeIn] = events.filter((event) => event.type === 'bargeIn');
    near(bargeIn!.atMs, 3000, 'barge-in');
    near(bargeIn!.silenceMs, 300, 'time to silence');
    expectTurns(events, [
      ['agent', 500, 2800, null],
      ['caller', 3000, 1500, null],
      ['agent', 5000, 1000, 500],
    ]);
    expect(events.filter((event) => event.type === 'turn')[1]!.talkOver).toBe(true);
  });

  it('to which the agent does not listen say so', () => {
    const events = dialogue(
      [
        ['agent', 500, 9000],
        ['caller', 2000, 3500],
      ],
      10_000,
    );
    expect(events.filter((event) => event.type === 'bargeIn')).toMatchObject([{ silenceMs: null }]);
  });
});

const sounds: [string, Line][] = [
  ['tones', {}],
  ['spoken words', { sound: spokenWords }],
  ['spoken words with jitter', { sound: spokenWords, jitterMs: (n) => (n * 11) % 40 }],
  ['spoken words with DTX', { sound: spokenWords, dtx: true }],
  ['spoken words in packets of 60 ms', { sound: spokenWords, ptimeMs: 60 }],
];

describe.each(sounds)('nods of the caller (%s)', (_name, line) => {
  const bargeIns = (events: ReturnType<typeof dialogue>) => events.filter((event) => event.type === 'bargeIn');

  it.each([100, 130, 160])('of %d ms over the agent are neither barge-ins nor turns', (ms) => {
    const events = dialogue(
      [
        ['agent', 500, 5300],
        ['caller', 2000, 2000 + ms],
        ['caller', 3600, 3600 + ms],
      ],
      6500,
      line,
    );
    expect(bargeIns(events)).toEqual([]);
    expectTurns(events, [['agent', 500, 4800, null]]);
  });

  it('are none either when they come as a pair', () => {
    const events = dialogue(
      [
        ['agent', 500, 5300],
        ['caller', 2000, 2120],
        ['caller', 2300, 2440],
      ],
      6500,
      line,
    );
    expect(bargeIns(events)).toEqual([]);
    expectTurns(events, [['agent', 500, 4800, null]]);
  });

  it('leave the turn that follows as long as its words', () => {
    const events = dialogue(
      [
        ['agent', 500, 6000],
        ['caller', 1800, 1930],
        ['caller', 4000, 4150],
        ['caller', 6600, 7600],
        ['agent', 8300, 9000],
      ],
      10_000,
      line,
    );
    expect(bargeIns(events)).toEqual([]);
    expectTurns(events, [
      ['agent', 500, 5500, null],
      ['caller', 6600, 1000, 600],
      ['agent', 8300, 700, 700],
    ]);
  });

  it('before an interruption do not count as its beginning', () => {
    const events = dialogue(
      [
        ['agent', 500, 5400],
        ['caller', 1500, 1640],
        ['caller', 3000, 3150],
        ['caller', 5000, 6200],
        ['agent', 6800, 7500],
      ],
      8500,
      line,
    );
    const [bargeIn, ...others] = bargeIns(events);
    expect(others).toEqual([]);
    near(bargeIn!.atMs, 5000, 'barge-in');
    near(bargeIn!.silenceMs, 400, 'time to silence');
    expectTurns(events, [
      ['agent', 500, 4900, null],
      ['caller', 5000, 1200, null],
      ['agent', 6800, 700, 600],
    ]);
  });

  it('in a short pause of the agent do not end its turn', () => {
    const events = dialogue(
      [
        ['agent', 500, 2000],
        ['caller', 2060, 2180],
        ['agent', 2260, 4000],
        ['caller', 4500, 5200],
      ],
      6500,
      line,
    );
    expect(bargeIns(events)).toEqual([]);
    expectTurns(events, [
      ['agent', 500, 3500, null],
      ['caller', 4500, 700, 500],
    ]);
  });

  it('after the last words of the agent are answers', () => {
    const events = dialogue(
      [
        ['agent', 500, 2000],
        ['caller', 1950, 2090],
        ['agent', 2800, 3500],
        ['caller', 3600, 3740],
        ['agent', 4400, 5000],
      ],
      6500,
      line,
    );
    expect(bargeIns(events)).toEqual([]);
    expectTurns(events, [
      ['agent', 500, 1500, null],
      ['caller', 1950, 140, null],
      ['agent', 2800, 700, 710],
      ['caller', 3600, 140, 100],
      ['agent', 4400, 600, 660],
    ]);
  });
});

describe('words that the other side talks over', () => {
  it('nods of the agent are no turns', () => {
    const events = dialogue(
      [
        ['caller', 500, 4000],
        ['agent', 2000, 2140],
        ['agent', 4600, 5600],
      ],
      6500,
    );
    expectTurns(events, [
      ['caller', 500, 3500, null],
      ['agent', 4600, 1000, 600],
    ]);
  });

  it('are turns of their own when the agent talks on between them', () => {
    const events = dialogue(
      [
        ['agent', 500, 9000],
        ['caller', 2000, 3000],
        ['caller', 9600, 10_300],
      ],
      11_000,
    );
    expectTurns(events, [
      ['caller', 2000, 1000, null],
      ['agent', 500, 8500, null],
      ['caller', 9600, 700, 600],
    ]);
    expect(events.filter((event) => event.type === 'bargeIn')).toMatchObject([{ silenceMs: null }]);
  });

  it('are as long as they were heard, one by one', () => {
    const events = dialogue(
      [
        ['agent', 500, 7000],
        ['caller', 2000, 2500],
        ['caller', 4000, 4600],
        ['caller', 7600, 8200],
      ],
      9000,
    );
    expectTurns(events, [
      ['caller', 2000, 500, null],
      ['agent', 500, 6500, null],
      ['caller', 4000, 600, null],
      ['caller', 7600, 600, 600],
    ]);
  });

  it('end with what was heard when the call does', () => {
    const events = dialogue(
      [
        ['agent', 500, 3000],
        ['caller', 2400, 3000],
      ],
      3000,
    );
    expectTurns(events, [
      ['agent', 500, 2500, null],
      ['caller', 2400, 600, null],
    ]);
  });

  it('response times do not count from a click', () => {
    const events = dialogue(
      [
        ['caller', 500, 1500],
        ['caller', 2000, 2020],
        ['agent', 2300, 3000],
      ],
      4000,
    );
    expectTurns(events, [
      ['caller', 500, 1000, null],
      ['agent', 2300, 700, 800],
    ]);
  });
});
