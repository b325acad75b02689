import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { alawToLinear, linearToAlaw, linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { readWav } from '../../media/audio/wav.js';
import type { EmbeddedEngine } from '../../media/thread/main-side/engine.js';
import { eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { probeTone } from '../support/tone-probe.js';

const toClose: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close();
});

/** Each has whole periods in 20 ms: one frame is the tone. */
const tonesHz = [500, 1100, 1900] as const;
const amplitude = 8000;
const tables = {
  '0': { code: linearToUlaw, linear: ulawToLinear, payloadType: 0 },
  '8': { code: linearToAlaw, linear: alawToLinear, payloadType: 8 },
};

/** Somebody who says one tone all the time. */
async function caller(engine: EmbeddedEngine, frequencyHz: number, codec: '0' | '8' = '0') {
  const phone = await RtpPhone.open();
  toClose.push(() => phone.close());
  const session = await engine.open(sessionOptions({ offer: phone.sdp({ codecs: codec }) }));
  phone.dial(session.localSdp);
  session.attach(null);
  const { code, linear, payloadType } = tables[codec];
  const frame = Uint8Array.from(tone({ frequencyHz, durationMs: 20, amplitude }), (sample) => code[sample & 0xffff]!);
  const silence = new Uint8Array(160).fill(code[0]!);
  const voice = { on: true };
  const startMs = performance.now();
  let frames = 0;
  const timer = setInterval(() => {
    for (; performance.now() - startMs >= frames * 20; frames++)
      phone.send(voice.on ? frame : silence, { payloadType });
  }, 5);
  toClose.push(() => clearInterval(timer));
  /** Amplitudes of the three tones, in what was heard last. */
  const hears = () => {
    const samples = Int16Array.from(
      phone.heard.slice(-10).flatMap((packet) => [...packet.payload]),
      (byte) => linear[byte]!,
    );
    return tonesHz.map((hz) => probeTone(samples, hz).amplitude / amplitude);
  };
  /** 1 of each of these, within the half dB that the companding leaves, and nothing of the others. */
  const untilHears = (wanted: number[], what: string) =>
    phone.until(() => hears().every((level, i) => Math.abs(level - wanted[i]!) < 0.06), `${what}: ${wanted}`, 10_000);
  return { phone, session, hears, untilHears, voice };
}

describe.each([
  { where: 'on one thread', threads: 1 },
  { where: 'across threads', threads: 2 },
])('a room $where', ({ threads }) => {
  it('lets each hear the two others as loud as they are, and nobody itself', async () => {
    const engine = (await startTestEngine({ threads })) as EmbeddedEngine;
    toClose.push(() => engine.close());
    const [a, b, c] = [
      await caller(engine, tonesHz[0]),
      await caller(engine, tonesHz[1], '8'),
      await caller(engine, tonesHz[2]),
    ];
    const room = engine.room(3);
    const [atA, atB] = [room.join(a.session, { muted: false }), room.join(b.session, { muted: false })];
    await Promise.all([a.untilHears([0, 1, 0], 'b at a'), b.untilHears([1, 0, 0], 'a at b')]);
    const atC = room.join(c.session, { muted: true });
    await c.untilHears([1, 1, 0], 'both at c');
    await a.untilHears([0, 1, 0], 'c, who is muted, not at a');
    atC?.mute(false);
    await Promise.all([
      a.untilHears([0, 1, 1], 'the others at a'),
      b.untilHears([1, 0, 1], 'the others at b'),
      c.untilHears([1, 1, 0], 'the others at c'),
    ]);
    expect(atC?.speaks).toBe(true);
    expect(room.join((await caller(engine, 700)).session, { muted: false })).toBeNull();
    c.voice.on = false;
    await eventually(() => atC?.speaks === false, 'c to be silent');
    expect(await atB?.leave()).toBe('cancelled');
    await b.untilHears([0, 0, 0], 'silence outside');
    await a.untilHears([0, 0, 0], 'silence, for b is gone and c is silent');
    // The seat is free again, and what takes the place of the room ends it.
    const again = room.join(b.session, { muted: false });
    await a.untilHears([0, 1, 0], 'b at a again');
    b.session.attach(null);
    expect(await again?.ended).toBe('replaced');
    await a.session.close();
    expect(await atA?.ended).toBe('closed');
    await Promise.all([b.session.close(), c.session.close()]);
    expect(engine.load().faults).toBe(0);
  });
});

it('a room is recorded whole, beeps, and keys are not heard', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-room-'));
  toClose.push(() => rmSync(folder, { recursive: true }));
  const engine = (await startTestEngine({ threads: 2 })) as EmbeddedEngine;
  toClose.push(() => engine.close());
  const [a, b] = [await caller(engine, tonesHz[0]), await caller(engine, tonesHz[1])];
  const room = engine.room(250);
  const seats = [room.join(a.session, { muted: false }), room.join(b.session, { muted: false })];
  await a.untilHears([0, 1, 0], 'b at a');
  const file = path.join(folder, 'room.wav');
  const recording = room.record({ path: file });
  const from = a.phone.heard.length;
  room.beep('entered');
  const beeped = () => {
    const samples = Int16Array.from(
      a.phone.heard.slice(from).flatMap((packet) => [...packet.payload]),
      (byte) => ulawToLinear[byte]!,
    );
    for (let at = 0; at + 400 <= samples.length; at += 80)
      if (probeTone(samples.subarray(at, at + 400), 620).amplitude > 2000) return true;
    return false;
  };
  await a.phone.until(beeped, 'the beep');
  await a.phone.until(() => a.phone.heard.length > from + 100, 'two seconds');
  const end = await recording.stop();
  expect(end).toMatchObject({ by: 'stopped', error: null });
  const wav = readWav(new Uint8Array(readFileSync(file)));
  expect(wav.channels).toHaveLength(1);
  const last = wav.channels[0]!.subarray(-4000, -400);
  for (const hz of [500, 1100]) expect(probeTone(last, hz).amplitude / amplitude).toBeGreaterThan(0.8);
  expect(end.durationMs).toBeGreaterThan(1500);
  for (let i = 0; i < 3; i++)
    b.phone.send(Uint8Array.of(5, 0x8a, 3, 0x20), { payloadType: 101, marker: i === 0, samples: 0 });
  await Promise.all(seats.map((seat) => seat?.leave()));
  expect(a.phone.heard.some((packet) => packet.payloadType === 101)).toBe(false);
  await Promise.all([a.session.close(), b.session.close()]);
  await eventually(() => engine.load().ports.used + engine.load().ports.quarantined === 0, 'ports to be free');
});

it('goes on for the others when a thread dies', async () => {
  const engine = (await startTestEngine({ threads: 2 })) as EmbeddedEngine;
  toClose.push(() => engine.close());
  const three = [
    await caller(engine, tonesHz[0]),
    await caller(engine, tonesHz[1]),
    await caller(engine, tonesHz[2]),
  ] as const;
  const room = engine.room(10);
  const seats = three.map(({ session }) => room.join(session, { muted: false }));
  await three[0].untilHears([0, 1, 1], 'the others at a');
  await engine.crash(1);
  expect(await seats[1]?.ended).toBe('closed');
  await three[0].untilHears([0, 0, 1], 'only c at a');
});
