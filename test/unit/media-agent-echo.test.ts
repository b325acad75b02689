import { describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToAlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { AgentEcho } from '../../media/audio/detect/agent-echo.js';
import { Turns } from '../../media/audio/detect/turns.js';
import { UtteranceEndpoint } from '../../media/audio/detect/utterance-endpoint.js';
import { Fourier } from '../../media/audio/dsp/fourier.js';
import { syntheticVoice } from '../support/speech.js';

const packet = 160;
const agentVoice = syntheticVoice(6, 110);
/** Other syllables at other times than the agent's. */
const callerVoice = syntheticVoice(7, 190).slice(4 * 8000);

interface Line {
  delayMs: number;
  lossDb: number;
  /** Of the room; 0: an analogue line. */
  decayMs?: number;
  codec?: 'PCMU' | 'PCMA';
  /** The phone is put on the table then. */
  fromMs?: number;
}
type Words = { voice: Int16Array; atMs: number; ms: number };

const toUlaw = (samples: Float64Array) =>
  Uint8Array.from(samples, (sample) => linearToUlaw[Math.max(-32_768, Math.min(32_767, Math.round(sample))) & 0xffff]!);

function track(words: Words[], untilMs: number): Float64Array {
  const line = new Float64Array(untilMs * 8);
  for (const { voice, atMs, ms } of words) line.set(voice.subarray(0, ms * 8), atMs * 8);
  return line;
}

/** The sent audio as it comes back: later, softer, through an impulse response of decaying noise, and through the codec twice. */
function echoOf(sent: Uint8Array, { delayMs, lossDb, decayMs = 0 }: Line): Float64Array {
  let seed = 99;
  const random = () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 31 - 1;
  };
  const response = new Map([[0, 1]]);
  for (let i = 4; i < 8 * (decayMs || 10); i += decayMs === 0 ? 3 : 7)
    response.set(i, 0.45 * random() * Math.exp((-6.9 * i) / 8 / (decayMs || 10)));
  const gain = 10 ** (-lossDb / 20) / Math.hypot(...response.values());
  const heard = new Float64Array(sent.length);
  for (const [after, tap] of response)
    for (let i = 0, at = after + delayMs * 8; at < heard.length; i++, at++)
      heard[at] = heard[at]! + gain * tap * ulawToLinear[sent[i]!]!;
  return heard;
}

/** What the record says of a call in which these words were said, and its echo. */
function call(agent: Words[], caller: Words[], line: Line | null, untilMs: number, listens = true) {
  const sent = toUlaw(track(agent, untilMs));
  const said = track(caller, untilMs);
  if (line !== null)
    for (const [i, sample] of echoOf(sent, line).entries())
      if (i >= (line.fromMs ?? 0) * 8) said[i] = said[i]! + sample;
  const codec = line?.codec ?? 'PCMU';
  const coded = (bytes: Uint8Array) => (codec === 'PCMA' ? bytes.map((byte) => ulawToAlaw[byte]!) : bytes);
  const [toPhone, fromPhone] = [coded(sent), coded(toUlaw(said))];
  const echo = listens ? new AgentEcho(1000) : null;
  const events: Parameters<ConstructorParameters<typeof Turns>[1]>[0][] = [];
  const turns = new Turns(1000, (event) => events.push(event), undefined, echo);
  for (let from = 0; from + packet <= toPhone.length; from += packet) {
    const nowMs = 1000 + from / 8;
    if (from % (5 * packet) === 0) turns.tick(nowMs);
    echo?.sent(from, toPhone, from, from + packet, codec, nowMs);
    turns.fromAgent(from, toPhone, from, from + packet, codec, nowMs);
    if (from === 0) continue;
    const arrived = fromPhone.subarray(from - packet, from);
    echo?.heard(7000 + from, arrived, codec, nowMs);
    turns.fromCaller(7000 + from, arrived, 0, packet, codec, nowMs);
  }
  turns.end();
  return {
    bargeIns: events.filter((event) => event.type === 'bargeIn'),
    turns: events.filter((event) => event.type === 'turn'),
    figures: echo?.figures ?? null,
  };
}

const speech: Words = { voice: agentVoice, atMs: 400, ms: 4500 };
const lines: [string, Line][] = [
  ['an analogue line', { delayMs: 12, lossDb: 14 }],
  ['a telephone on the table', { delayMs: 140, lossDb: 10, decayMs: 60 }],
  ['a room, A-law', { delayMs: 260, lossDb: 20, decayMs: 150, codec: 'PCMA' }],
  ['half a second', { delayMs: 480, lossDb: 8 }],
  ['a loud echo', { delayMs: 90, lossDb: 3, decayMs: 40 }],
];

describe("the echo of the agent's voice", () => {
  it.each(lines)('is neither a barge-in nor a turn: %s', (_name, line) => {
    const unaware = call([speech], [], line, 6000, false);
    expect(unaware.turns.filter(({ speaker }) => speaker === 'caller').length).toBeGreaterThan(0);
    const { bargeIns, turns, figures } = call([speech], [], line, 6000);
    expect(bargeIns).toEqual([]);
    expect(turns.map(({ speaker }) => speaker)).toEqual(['agent']);
    expect(Math.abs(figures!.delayMs - line.delayMs)).toBeLessThanOrEqual(6);
    expect(Math.abs(figures!.returnLossDb - line.lossDb)).toBeLessThanOrEqual(3);
    expect(figures!.suppressed).toBeGreaterThan(0);
  });

  it.each(lines)('hides no word of the caller: %s', (_name, line) => {
    const { bargeIns } = call([speech], [{ voice: callerVoice, atMs: 3000, ms: 1500 }], line, 6000);
    expect(bargeIns.length).toBeGreaterThan(0);
    expect(Math.abs(bargeIns[0]!.atMs - 3000)).toBeLessThanOrEqual(400);
  });

  it('after the last word of the agent is no answer', () => {
    const word: Words = { voice: agentVoice, atMs: 3000, ms: 350 };
    const answer: Words = { voice: callerVoice, atMs: 5200, ms: 1000 };
    const agent = [{ ...speech, ms: 1500 }, word];
    const { turns } = call(agent, [answer], { delayMs: 450, lossDb: 10 }, 6600);
    const silent = call(agent, [answer], null, 6600);
    expect(turns.map(({ speaker }) => speaker)).toEqual(['agent', 'caller']);
    expect(Math.abs(turns[1]!.responseMs! - silent.turns[1]!.responseMs!)).toBeLessThanOrEqual(20);
  });

  it('is not part of the question that the agent answers at once', () => {
    const question: Words = { voice: callerVoice, atMs: 500, ms: 1000 };
    const answer: Words = { voice: agentVoice, atMs: 1650, ms: 3000 };
    const { turns } = call([answer], [question], { delayMs: 30, lossDb: 8 }, 6000);
    expect(turns.map(({ speaker }) => speaker)).toEqual(['caller', 'agent']);
    expect(turns[1]!.talkOver).toBe(false);
    expect(Math.abs(turns[1]!.responseMs! - 150)).toBeLessThanOrEqual(60);
  });
});

it('a caller on a line without echo interrupts as always', () => {
  const caller: Words[] = [{ voice: callerVoice, atMs: 3000, ms: 1500 }];
  const heard = call([speech], caller, null, 6000);
  expect(heard).toEqual({ ...call([speech], caller, null, 6000, false), figures: null });
  expect(heard.bargeIns).toHaveLength(1);
});

it('an echo that begins late in a call full of interruptions is found with the second sentence at the latest', () => {
  const sentences = Array.from({ length: 14 }, (_, i) => ({ voice: agentVoice, atMs: 400 + i * 3000, ms: 1800 }));
  const interruptions = sentences
    .slice(0, 9)
    .map(({ atMs }, i) => ({ voice: callerVoice.slice(i * 1500), atMs: atMs + 500, ms: 900 }));
  const line = { delayMs: 140, lossDb: 10, decayMs: 60, fromMs: 27_000 };
  const { turns, figures } = call(sentences, interruptions, line, 43_000);
  const alone = call(sentences, interruptions, null, 43_000);
  expect(Math.abs(figures!.delayMs - line.delayMs)).toBeLessThanOrEqual(6);
  const late = (heard: typeof turns) =>
    heard.filter(({ speaker, startedMs }) => speaker === 'caller' && startedMs > line.fromMs).length;
  expect(late(alone.turns)).toBe(0);
  expect(late(turns)).toBeLessThanOrEqual(1);
});

it.each([440, 697])('a caller whose tone the agent returns is heard: %s Hz', (frequencyHz) => {
  const beep = Int16Array.from({ length: 1400 * 8 }, (_, i) => 8000 * Math.sin((2 * Math.PI * frequencyHz * i) / 8000));
  const beeps = [400, 2400, 4400].map((atMs) => ({ voice: beep, atMs, ms: 1400 }));
  const returned = beeps.map(({ voice, atMs, ms }) => ({ voice, atMs: atMs + 60, ms }));
  const heard = call(returned, beeps, null, 7000);
  expect(heard).toEqual({ ...call(returned, beeps, null, 7000, false), figures: null });
  expect(heard.turns.filter(({ speaker }) => speaker === 'caller')).toHaveLength(3);
});

describe('an input of speech during a prompt', () => {
  /** When the input says that speech began. */
  function begins(caller: Words[], line: Line | null): number[] {
    const sent = toUlaw(track([speech], 6000));
    const said = track(caller, 6000);
    if (line !== null) for (const [i, sample] of echoOf(sent, line).entries()) said[i] = said[i]! + sample;
    const fromPhone = toUlaw(said);
    const echo = new AgentEcho(500);
    const begun: number[] = [];
    let nowMs = 1000;
    const input = new UtteranceEndpoint(
      1000,
      { beforeMs: 60_000, afterMs: 1000 },
      () => begun.push(nowMs - 1000),
      echo,
    );
    for (let from = packet; from + packet <= sent.length; from += packet) {
      nowMs = 1000 + from / 8;
      echo.sent(from, sent, from, from + packet, 'PCMU', nowMs);
      const arrived = fromPhone.subarray(from - packet, from);
      echo.heard(from, arrived, 'PCMU', nowMs);
      input.hear(from, arrived, 'PCMU', nowMs);
      input.tick(nowMs);
    }
    return begun;
  }

  it.each(lines)('does not begin with its echo: %s', (_name, line) => {
    expect(begins([], line)).toEqual([]);
  });

  it('begins with the caller', () => {
    const caller: Words[] = [{ voice: callerVoice, atMs: 3000, ms: 1500 }];
    for (const line of [null, lines[1]![1]]) {
      const [atMs] = begins(caller, line);
      expect(atMs).toBeGreaterThan(3000);
      expect(atMs).toBeLessThan(3500);
    }
  });
});

it.each([4, 8, 32, 64, 2048])('transforms %i samples and back', (length) => {
  const signal = Float64Array.from({ length }, (_, i) => Math.sin(i * i) + 0.3);
  const [re, im] = [signal.slice(), new Float64Array(length)];
  const fourier = new Fourier(length);
  fourier.transform(re, im);
  for (const k of [0, 1, length / 4, length / 2 - 1, length - 1]) {
    let [sumRe, sumIm] = [0, 0];
    for (const [i, sample] of signal.entries()) {
      sumRe += sample * Math.cos((2 * Math.PI * k * i) / length);
      sumIm -= sample * Math.sin((2 * Math.PI * k * i) / length);
    }
    expect(re[k]).toBeCloseTo(sumRe, 6);
    expect(im[k]).toBeCloseTo(sumIm, 6);
  }
  fourier.transform(im, re);
  signal.forEach((sample, i) => {
    expect(re[i]! / length).toBeCloseTo(sample, 9);
  });
});
