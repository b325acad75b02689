import { describe, expect, it } from 'vitest';
import { linearToUlaw, silenceByte, ulawToAlaw } from '../../media/audio/g711.js';
import { tone } from '../../media/audio/tone.js';
import { Turns } from '../../media/audio/turns.js';

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

interface Line {
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
  const { codec = 'PCMU', ptimeMs = 20, noise = 0, amplitude } = line;
  const events: Parameters<ConstructorParameters<typeof Turns>[1]>[0][] = [];
  const turns = new Turns(1000, (event) => events.push(event));
  const tracks = { caller: track(words, 'caller'), agent: track(words, 'agent') };
  function track(all: Words[], speaker: Speaker): Uint8Array {
    let seed = 7;
    const bytes = new Uint8Array(untilMs * 8).map(() => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      return linearToUlaw[Math.round((seed / 0x7fffffff - 0.5) * 2 * noise) & 0xffff]!;
    });
    for (const [who, fromMs, toMs] of all) if (who === speaker) bytes.set(speech(toMs - fromMs, amplitude), fromMs * 8);
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

  it('of the caller that are only a nod are none', () => {
    const events = dialogue(
      [
        ['agent', 500, 4000],
        ['caller', 2000, 2100],
      ],
      5000,
    );
    expect(events.filter((event) => event.type === 'bargeIn')).toEqual([]);
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
