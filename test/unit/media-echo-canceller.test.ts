import { describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToAlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { OpusCoder } from '../../media/audio/codec/opus.js';
import { G722Coder, type WideDecoder, type WideEncoder } from '../../media/audio/codec/wide-codec.js';
import { AgentEcho } from '../../media/audio/detect/agent-echo.js';
import { DtmfListener, writeKeyTone } from '../../media/audio/detect/dtmf-tones.js';
import { Turns } from '../../media/audio/detect/turns.js';
import { EchoFilter } from '../../media/audio/dsp/echo-filter.js';
import { createResampler } from '../../media/audio/dsp/resample.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { PlacedSamples } from '../../media/audio/placed-samples.js';
import { EchoCanceller } from '../../media/audio/receive/echo-canceller.js';
import { readSamples, sampleFormatOf, writeSamples } from '../../media/audio/sample-format.js';
import { ScratchBuffer } from '../../media/audio/scratch-buffer.js';
import type { PhoneCodec } from '../../media/engine.js';
import { opusDefaults } from '../../media/opus-parameters.js';
import { breathyVoice, syntheticVoice } from '../support/speech.js';

/** A second of silence, and the agent speaks. */
const beganMs = 1000;
const endedMs = 7000;
const untilMs = 8000;
const narrowVoice = breathyVoice(7, 110);
/** Other syllables at other times than the agent's. */
const callerVoice = syntheticVoice(9, 190).slice(5 * 8000);

interface Path {
  delayMs: number;
  /** Echo return loss. */
  lossDb: number;
  /** Length of the response, of decaying noise. */
  tailMs: number;
  seed?: number;
}

const hybrid: Path = { delayMs: 40, lossDb: 6, tailMs: 32 };

function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

/** An echo path at 8 kHz, whose taps are spread for higher rates. */
function echoOf(sent: Int16Array, { delayMs, lossDb, tailMs, seed = 99 }: Path, samplesPerMs: number): Float64Array {
  const noise = random(seed);
  const response = Float64Array.from({ length: tailMs * 8 }, (_, i) => noise() * Math.exp((-6.9 * i) / (tailMs * 8)));
  response[3] = 1.5;
  const gain = 10 ** (-lossDb / 20) / Math.hypot(...response);
  const heard = new Float64Array(sent.length);
  for (const [i, tap] of response.entries()) {
    const after = Math.round((delayMs + i / 8) * samplesPerMs);
    for (let at = after; at < heard.length; at++) heard[at] = heard[at]! + gain * tap * sent[at - after]!;
  }
  return heard;
}

/** At 8 kHz: silence with this in it. */
function line(...parts: { samples: Int16Array; atMs: number; ms?: number }[]): Int16Array {
  const whole = new Int16Array(untilMs * 8);
  for (const { samples, atMs, ms = Number.POSITIVE_INFINITY } of parts)
    whole.set(samples.subarray(0, Math.min(ms, untilMs - atMs) * 8), atMs * 8);
  return whole;
}

const agentLine = line({ samples: narrowVoice, atMs: beganMs, ms: endedMs - beganMs });

const rounded = (line: Float64Array) =>
  Int16Array.from(line, (sample) => Math.max(-32_768, Math.min(32_767, Math.round(sample))));

type Coder = WideEncoder & WideDecoder;

async function coderOf(codec: PhoneCodec): Promise<Coder | null> {
  if (!sampleFormatOf[codec].linear) return null;
  if (codec === 'G722') return new G722Coder();
  const coder = await OpusCoder.open();
  coder.tune({ ...opusDefaults, inbandFec: true });
  return coder;
}

/** Samples as the far side of the codec has them. */
async function coded(samples: Int16Array, codec: PhoneCodec): Promise<Int16Array> {
  const [coder, decoder] = [await coderOf(codec), await coderOf(codec)];
  if (coder === null || decoder === null)
    return readSamples(writeSamples(samples, codec), codec, new ScratchBuffer(Int16Array)).slice();
  const frame = sampleFormatOf[codec].sampleRateHz / 50;
  const out = new Int16Array(samples.length);
  const packet = new Uint8Array(2000);
  for (let at = 0; at + frame <= samples.length; at += frame) {
    const bytes = coder.encode(samples.subarray(at, at + frame), packet, 0);
    const decoded = bytes > 0 ? decoder.decode(packet.slice(0, bytes)) : null;
    if (decoded) out.set(decoded, at);
  }
  return out;
}

interface CallOptions {
  codec?: PhoneCodec;
  /** What the phone sends, if that is another codec of the same rate. */
  answers?: PhoneCodec;
  /** null: a line without echo. */
  path?: Path | null;
  /** From `atMs` on. */
  thenPath?: { path: Path; atMs: number };
  /** What the caller says, at 8 kHz. */
  caller?: Int16Array;
  removes?: boolean;
  /** Packets of 20 ms of the caller that do not arrive; that arrive after the next one. */
  lost?: (packet: number) => boolean;
  late?: (packet: number) => boolean;
  /** Packets of the agent that do not reach the phone. */
  unheard?: (packet: number) => boolean;
  agent?: Int16Array;
}

/** A call as the media session carries it, on an invented clock: what arrived, what the agent heard, and what the record says. */
async function call(options: CallOptions) {
  const { codec = 'PCMU', path = hybrid, caller = new Int16Array(untilMs * 8), removes = true } = options;
  const { lost = () => false, late = () => false, unheard = () => false, agent = agentLine } = options;
  const { answers = codec } = options;
  const { sampleRateHz, bytesPerMs } = sampleFormatOf[codec];
  const samplesPerMs = sampleRateHz / 1000;
  const atRate = (samples: Int16Array) => createResampler(8000, sampleRateHz).process(samples).slice();
  const sent = atRate(agent);
  const played = await coded(sent, codec);
  const packetSamples = 20 * samplesPerMs;
  for (let at = 0; at < played.length; at += packetSamples)
    if (unheard(at / packetSamples)) played.fill(0, at, at + packetSamples);
  const mix = Float64Array.from(atRate(caller));
  const noise = random(5);
  const first = path && echoOf(played, path, samplesPerMs);
  const { thenPath } = options;
  const second = thenPath ? echoOf(played, thenPath.path, samplesPerMs) : first;
  const changesAt = (thenPath?.atMs ?? 0) * samplesPerMs;
  for (let i = 0; i < mix.length; i++) {
    const echo = i < changesAt ? first : second;
    mix[i] = mix[i]! + (echo?.[i] ?? 0) + 12 * noise();
  }
  const [toPhone, fromPhone] = [writeSamples(sent, codec), writeSamples(await coded(rounded(mix), answers), answers)];
  const echo = new AgentEcho(500);
  echo.remove(removes);
  const events: Parameters<ConstructorParameters<typeof Turns>[1]>[0][] = [];
  const turns = new Turns(500, (event) => events.push(event), undefined, echo);
  const heard = fromPhone.slice();
  const packet = 20 * bytesPerMs;
  let knownMs: number | null = null;
  let waiting: number | null = null;
  const arrives = (number: number, nowMs: number) => {
    const from = number * packet;
    const bytes = fromPhone.slice(from, from + packet);
    const clean = echo.heard(90_000 + number * 160, bytes, answers, nowMs);
    expect(bytes).toEqual(fromPhone.slice(from, from + packet));
    heard.set(clean, from);
    turns.fromCaller(90_000 + number * 160, clean, 0, packet, answers, nowMs);
  };
  for (let number = 0; (number + 1) * packet <= toPhone.length; number++) {
    const nowMs = 500 + number * 20;
    if (number % 5 === 0) turns.tick(nowMs);
    const bytes = toPhone.slice(number * packet, (number + 1) * packet);
    echo.sent(4000 + number * 160, bytes, 0, packet, codec, nowMs);
    turns.fromAgent(4000 + number * 160, bytes, 0, packet, codec, nowMs);
    if (number === 0 || lost(number - 1)) continue;
    if (late(number - 1)) {
      waiting = number - 1;
      continue;
    }
    arrives(number - 1, nowMs);
    if (waiting !== null) arrives(waiting, nowMs);
    waiting = null;
    if (echo.isKnown) knownMs ??= number * 20;
  }
  turns.end();
  const linear = (bytes: Uint8Array) => readSamples(bytes, answers, new ScratchBuffer(Int16Array)).slice();
  const [before, after] = [linear(fromPhone), linear(heard)];
  const energy = (samples: Int16Array, fromMs: number, toMs: number) => {
    let sum = 0;
    for (let i = fromMs * samplesPerMs; i < Math.min(toMs * samplesPerMs, samples.length); i++)
      if (!lost(Math.floor(i / packetSamples))) sum += samples[i]! ** 2;
    return sum;
  };
  return {
    events,
    figures: echo.figures,
    arrived: fromPhone,
    heard,
    before,
    after,
    knownMs: knownMs ?? Number.NaN,
    callerTurns: events.filter((event) => event.type === 'turn' && event.speaker === 'caller'),
    bargeIns: events.filter((event) => event.type === 'bargeIn'),
    /** By how much softer the agent heard it than it arrived. */
    removedDb: (fromMs: number, toMs: number) =>
      10 * Math.log10((energy(before, fromMs, toMs) + 1) / (energy(after, fromMs, toMs) + 1)),
    energy: (fromMs: number, toMs: number) => energy(after, fromMs, toMs),
  };
}

const paths: [string, Path, PhoneCodec?][] = [
  ['a hybrid with the least loss', hybrid],
  ['a hybrid, A-law', { delayMs: 12, lossDb: 12, tailMs: 24 }, 'PCMA'],
  ['a telephone on the table', { delayMs: 180, lossDb: 10, tailMs: 90 }],
  ['half a second', { delayMs: 480, lossDb: 8, tailMs: 32 }],
];

describe('the canceller of echoes', () => {
  it.each(paths)('removes 20 dB a second after it found the echo, and 25 dB later: %s', async (_name, path, codec) => {
    const { knownMs, removedDb, callerTurns, figures } = await call({ path, codec });
    expect(knownMs - beganMs - path.delayMs).toBeLessThan(700);
    expect(removedDb(knownMs, knownMs + 1000)).toBeGreaterThan(10);
    expect(removedDb(knownMs + 1000, knownMs + 2000)).toBeGreaterThan(20);
    expect(removedDb(knownMs + 2000, endedMs)).toBeGreaterThan(25);
    expect(figures!.removedDb).toBeGreaterThan(15);
    expect(callerTurns).toEqual([]);
  });

  it('removes it from A-law when μ-law is sent, and leaves audio at another rate alone', async () => {
    const { removedDb } = await call({ answers: 'PCMA' });
    expect(removedDb(3000, endedMs)).toBeGreaterThan(25);
    const canceller = new EchoCanceller();
    const wide = new Uint8Array(640).fill(9);
    expect(canceller.heard(0, wide, 'G722', 20)).toBe(wide);
    canceller.sent(0, wide.subarray(0, 160), 0, 160, 'PCMU', false);
    expect(canceller.heard(0, wide, 'G722', 20)).toBe(wide);
  });

  it('leaves a line without echo alone, bit for bit', async () => {
    const caller = line({ samples: callerVoice, atMs: 1800, ms: 3000 });
    const { heard, arrived, figures } = await call({ path: null, caller });
    expect(heard).toEqual(arrived);
    expect(figures).toBeNull();
  });

  it('leaves everything alone where it is not wanted', async () => {
    const { heard, arrived, figures } = await call({ removes: false });
    expect(heard).toEqual(arrived);
    expect(figures).toMatchObject({ removedDb: null });
  });

  it('lets a caller who speaks over the echo pass, and knows the path afterwards', async () => {
    const caller = line({ samples: callerVoice, atMs: 4000, ms: 1500 });
    const { after, bargeIns, removedDb } = await call({ caller });
    let [same, own] = [0, 0];
    for (let i = 4000 * 8; i < 5500 * 8; i++) {
      same += after[i]! * caller[i]!;
      own += caller[i]! ** 2;
    }
    // The caller's share of what is heard, and how much else is there.
    expect(Math.abs(20 * Math.log10(same / own))).toBeLessThan(1);
    let other = 0;
    for (let i = 4000 * 8; i < 5500 * 8; i++) other += (after[i]! - caller[i]!) ** 2;
    expect(10 * Math.log10(own / other)).toBeGreaterThan(15);
    expect(removedDb(5700, endedMs)).toBeGreaterThan(20);
    expect(bargeIns).toHaveLength(1);
    expect(Math.abs(bargeIns[0]!.atMs - 4000)).toBeLessThan(100);
  });

  it.each<[string, Path]>([
    ['another room', { ...hybrid, lossDb: 9, seed: 7 }],
    ['a jitter buffer that grew', { ...hybrid, delayMs: 60 }],
    ['a jitter buffer that shrank', { ...hybrid, delayMs: 20 }],
  ])('learns another path: %s', async (_name, path) => {
    const { removedDb, callerTurns } = await call({ thenPath: { path, atMs: 3500 } });
    expect(removedDb(2700, 3500)).toBeGreaterThan(20);
    expect(removedDb(3500, endedMs)).toBeGreaterThan(5);
    expect(removedDb(5500, endedMs)).toBeGreaterThan(20);
    expect(callerTurns).toEqual([]);
  });

  it('goes on when packets are lost, late, or do not reach the phone', async () => {
    const { removedDb, callerTurns } = await call({
      lost: (packet) => packet % 41 === 7,
      late: (packet) => packet % 29 === 3,
      unheard: (packet) => packet % 37 === 11,
    });
    expect(removedDb(4000, endedMs)).toBeGreaterThan(10);
    expect(callerTurns).toEqual([]);
    const undisturbed = await call({ lost: (packet) => packet % 41 === 7, late: (packet) => packet % 29 === 3 });
    expect(undisturbed.removedDb(4000, endedMs)).toBeGreaterThan(25);
  });

  it("eats neither keys nor a fax's tone", async () => {
    const keys = new Uint8Array(untilMs * 8).fill(0xff);
    const digits = '159#';
    for (const [i, digit] of [...digits].entries())
      writeKeyTone(digit, 'PCMU', 0, keys, (4000 + 300 * i) * 8, (4120 + 300 * i) * 8);
    const pressed = Int16Array.from(keys, (byte) => ulawToLinear[byte]!);
    const { heard } = await call({ caller: pressed });
    const listener = new DtmfListener();
    let found = '';
    for (let at = 0; at < heard.length; at += 160)
      found += listener.hear(heard.subarray(at, at + 160), 'PCMU')?.digit ?? '';
    expect(found).toBe(digits);
    const calling = tone({ frequencyHz: 1100, durationMs: 500 });
    const fax = await call({ caller: line({ samples: calling, atMs: 4500 }) });
    let own = 0;
    for (const sample of calling) own += sample ** 2;
    expect(Math.abs(10 * Math.log10(fax.energy(4500, 5000) / own))).toBeLessThan(1);
  });

  it('learns nothing from a tone, and still removes the echo of speech after it', async () => {
    const beep = tone({ frequencyHz: 440, durationMs: 1500 });
    const agent = line(
      { samples: narrowVoice, atMs: 500, ms: 3000 },
      { samples: beep, atMs: 3500 },
      {
        samples: narrowVoice.subarray(24_000),
        atMs: 5200,
      },
    );
    const { removedDb } = await call({ agent });
    expect(removedDb(2500, 3500)).toBeGreaterThan(20);
    expect(removedDb(5300, endedMs)).toBeGreaterThan(20);
  });
});

describe.each<[PhoneCodec, number]>([
  ['G722', 20],
  ['OPUS', 15],
])('a phone with %s', (codec, leastDb) => {
  const path: Path = { delayMs: 120, lossDb: 10, tailMs: 40 };

  it('has its echo recognized without the canceller', async () => {
    const caller = line({ samples: callerVoice, atMs: 4000, ms: 1500 });
    const { figures, callerTurns, bargeIns } = await call({ codec, path, caller, removes: false });
    expect(Math.abs(figures!.delayMs - path.delayMs)).toBeLessThan(20);
    expect(callerTurns.filter((turn) => turn.type === 'turn' && turn.startedMs < 3600)).toEqual([]);
    expect(bargeIns).toHaveLength(1);
    expect(Math.abs(bargeIns[0]!.atMs - 4000)).toBeLessThan(400);
  });

  it('has it removed', async () => {
    const caller = line({ samples: callerVoice, atMs: 4000, ms: 1500 });
    const { removedDb, bargeIns, callerTurns } = await call({ codec, path, caller });
    expect(removedDb(2700, 3900)).toBeGreaterThan(leastDb);
    expect(removedDb(5900, endedMs)).toBeGreaterThan(leastDb);
    expect(Math.abs(removedDb(4000, 5500))).toBeLessThan(3);
    expect(bargeIns).toHaveLength(1);
    expect(callerTurns).toHaveLength(1);
  });
});

describe('the adaptive filter', () => {
  const sent = new PlacedSamples(8192 * 8, 8000);
  const toUlaw = Uint8Array.from(agentLine, (sample) => linearToUlaw[sample & 0xffff]!);
  sent.write(0, toUlaw, 0, toUlaw.length, 'PCMU');
  const exact = Int16Array.from(toUlaw, (byte) => ulawToLinear[byte]!);

  /** What a second of an exact echo is softer by, from `fromMs` on. */
  function run(heard: Float64Array, fromMs: number): number {
    const filter = new EchoFilter(1024, 8);
    const made = new Float64Array(160);
    let [before, after] = [0, 0];
    for (let at = 1024; at + 160 <= (fromMs + 1000) * 8; at += 160) {
      filter.block(sent, at + 160, heard.subarray(at, at + 160), 160, made);
      if (at < fromMs * 8) continue;
      before += filter.heardEnergy;
      after += filter.leftEnergy;
    }
    return 10 * Math.log10(before / after);
  }

  it('makes an exact echo 30 dB softer within two seconds of speech', () => {
    expect(run(echoOf(exact, { delayMs: 0, lossDb: 6, tailMs: 32 }, 8), 3000)).toBeGreaterThan(30);
  });

  it('is limited by the quantization of G.711 alone', () => {
    const echo = echoOf(exact, { delayMs: 0, lossDb: 6, tailMs: 32 }, 8);
    const quantized = Float64Array.from(
      readSamples(writeSamples(rounded(echo), 'PCMU'), 'PCMU', new ScratchBuffer(Int16Array)),
    );
    expect(run(quantized, 3000)).toBeGreaterThan(25);
  });

  it('moves its path', () => {
    const filter = new EchoFilter(1024, 8);
    const made = new Float64Array(160);
    const echo = echoOf(exact, { delayMs: 10, lossDb: 6, tailMs: 20 }, 8);
    for (let at = 1024; at < 24_000; at += 160) filter.block(sent, at + 160, echo.subarray(at, at + 160), 160, made);
    expect(filter.strongestTap()).toBe(83);
    filter.shift(-40);
    expect(filter.strongestTap()).toBe(43);
    let [before, after] = [0, 0];
    for (let at = 24_000; at < 32_000; at += 160) {
      filter.block(sent, at + 160 - 40, echo.subarray(at, at + 160), 160, made);
      before += filter.heardEnergy;
      after += filter.leftEnergy;
    }
    expect(10 * Math.log10(before / after)).toBeGreaterThan(25);
  });
});

it('keeps the samples of A-law as those of μ-law', () => {
  const bytes = Uint8Array.of(0x12, 0x34, 0x9a);
  const kept = new PlacedSamples(16, 8000);
  kept.write(
    20,
    bytes.map((byte) => ulawToAlaw[byte]!),
    0,
    3,
    'PCMA',
  );
  const read = new Float64Array(3);
  kept.read(20, 3, read);
  for (const [i, sample] of read.entries())
    expect(Math.abs(sample - ulawToLinear[bytes[i]!]!)).toBeLessThan(Math.abs(sample) / 10);
});
