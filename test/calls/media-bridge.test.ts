import { afterEach, describe, expect, it } from 'vitest';
import { alawToLinear, linearToUlaw } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import type { MediaSession } from '../../media/engine.js';
import type { EmbeddedEngine } from '../../media/thread/main-side/engine.js';
import { eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { probeTone } from '../support/tone-probe.js';

const signal = () => new AbortController().signal;
const frame = (value: number) => new Uint8Array(160).fill(value);
const toClose: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close();
});

const toneFrames = (frequencyHz: number, ms: number) =>
  Buffer.from(Array.from(tone({ frequencyHz, durationMs: ms }), (sample) => linearToUlaw[sample & 0xffff]!));
const firstBytes = (phone: RtpPhone) => phone.heard.map((packet) => packet.payload[0]);
const bytesOf = (phone: RtpPhone) => Buffer.from(phone.heard.flatMap((packet) => [...packet.payload]));
const greeting = 7;
const spoken = (phone: RtpPhone) =>
  phone.heard.filter(
    ({ payloadType, payload }) => payloadType === 0 && payload[5] !== 0xff && payload.some((byte) => byte !== greeting),
  );
const numbersAreWhole = (phone: RtpPhone) =>
  phone.heard.every((packet, i) => i === 0 || packet.sequence === ((phone.heard[i - 1]!.sequence + 1) & 0xffff));

async function call(engine: EmbeddedEngine, group: string, codecs = '0') {
  const phone = await RtpPhone.open();
  toClose.push(() => phone.close());
  const session: MediaSession = await engine.open(sessionOptions({ group, offer: phone.sdp({ codecs }) }));
  phone.dial(session.localSdp);
  session.attach(null);
  return { phone, session };
}

/** A bridge stands a moment after it was asked for, later on a busy machine: what was said before is not heard. */
async function greet(from: RtpPhone, to: RtpPhone): Promise<void> {
  for (let tries = 0; tries < 500 && !firstBytes(to).includes(greeting); tries++)
    await from.talk(2, () => frame(greeting));
}

describe.each([
  { where: 'on one thread', threads: 1 },
  { where: 'across two threads', threads: 2 },
])('a bridge $where', ({ threads }) => {
  async function two(codecs: [string, string] = ['0', '0']) {
    const engine = (await startTestEngine({ threads })) as EmbeddedEngine;
    toClose.push(() => engine.close());
    const a = await call(engine, 'a', codecs[0]);
    const b = await call(engine, threads === 1 ? 'a' : 'b', codecs[1]);
    expect(engine.load().threads.map((thread) => thread.sessions)).toEqual(threads === 1 ? [2] : [1, 1]);
    return { engine, a, b };
  }

  it.each(['packets', 'frames'] as const)('carries %s both ways untouched, and keys', async (relay) => {
    const { a, b } = await two();
    const bridge = a.session.bridge(b.session, { relay, dtmf: 'pass' });
    await Promise.all([greet(a.phone, b.phone), greet(b.phone, a.phone)]);
    const [low, high] = [toneFrames(600, 600), toneFrames(1700, 600)];
    await Promise.all([
      a.phone.talk(30, (i) => low.subarray(i * 160, (i + 1) * 160)),
      b.phone.talk(30, (i) => high.subarray(i * 160, (i + 1) * 160)),
    ]);
    for (const [phone, said] of [
      [a.phone, high],
      [b.phone, low],
    ] as const) {
      await phone.until(() => spoken(phone).length >= 30, 'all that was said');
      // As frames, a busy machine may make a pause between two of them, but no byte is another.
      expect(spoken(phone).every((packet) => said.includes(Buffer.from(packet.payload)))).toBe(true);
      if (relay === 'packets') expect(bytesOf(phone).includes(said)).toBe(true);
    }
    const keys = () => b.phone.heard.filter((packet) => packet.payloadType === 101);
    for (let i = 0; i < 3; i++) {
      a.phone.send(Uint8Array.of(5, 0x8a, 3, 0x20), { payloadType: 101, marker: i === 0, samples: 0 });
    }
    await b.phone.until(() => keys().length >= 3, 'the key at b');
    expect(keys()[0]!.payload[0]).toBe(5);
    const end = await bridge.stop();
    expect(end).toMatchObject({ by: 'stopped' });
    expect(Math.min(end.forwarded.toOther, end.forwarded.toThis)).toBeGreaterThanOrEqual(30);
    expect(numbersAreWhole(a.phone) && numbersAreWhole(b.phone)).toBe(true);
    await b.phone.until(() => firstBytes(b.phone).at(-1) === 0xff, 'silence after the bridge');
  });

  it.each(['packets', 'frames'] as const)('turns one law into the other, as %s', async (relay) => {
    const { a, b } = await two(['0', '8']);
    a.session.bridge(b.session, { relay, dtmf: 'block' });
    const low = toneFrames(600, 800);
    await a.phone.talk(40, (i) => low.subarray(i * 160, (i + 1) * 160));
    await b.phone.until(() => b.phone.heard.filter((packet) => packet.payload[5] !== 0xd5).length >= 28, 'a at b');
    expect(b.phone.heard.every((packet) => packet.payloadType === 8)).toBe(true);
    a.phone.send(Uint8Array.of(5, 0x8a, 3, 0x20), { payloadType: 101, samples: 0 });
    b.session.attach(null);
    // As frames, a busy machine may make a pause within one of them.
    const pure = b.phone.heard.filter(({ payload }) => {
      const samples = Int16Array.from(payload, (byte) => alawToLinear[byte]!);
      return probeTone(samples, 600).purityDb > 25;
    });
    expect(pure.length).toBeGreaterThan(20);
    expect(b.phone.heard.some((packet) => packet.payloadType === 101)).toBe(false);
  });

  it('ends with either session, or when another owner is named on either side', async () => {
    const { engine, a, b } = await two();
    const first = a.session.bridge(b.session, { relay: 'packets', dtmf: 'pass' });
    b.session.attach(null);
    expect(await first.ended).toMatchObject({ by: 'replaced' });
    const second = a.session.bridge(b.session, { relay: 'packets', dtmf: 'pass' });
    await a.phone.talk(5, () => frame(9));
    await b.phone.until(() => firstBytes(b.phone).includes(9), 'a at b again');
    await b.session.close();
    expect(await second.ended).toMatchObject({ by: 'closed' });
    const clip = new SharedArrayBuffer(160);
    expect(await a.session.play({ kind: 'clip', clip }, signal())).toMatchObject({ by: 'finished' });
    expect(() => a.session.bridge(a.session, { relay: 'packets', dtmf: 'pass' })).toThrow(/another one/);
    expect(await a.session.bridge(b.session, { relay: 'packets', dtmf: 'pass' }).ended).toMatchObject({ by: 'closed' });
    await a.session.close();
    await eventually(() => engine.load().ports.used + engine.load().ports.quarantined === 0, 'ports to be free');
    expect(engine.load()).toMatchObject({ sessions: 0, faults: 0 });
  });
});

it('a thread that dies ends the bridge, and the phone on the other thread goes on', async () => {
  const engine = (await startTestEngine({ threads: 2 })) as EmbeddedEngine;
  toClose.push(() => engine.close());
  const a = await call(engine, 'a');
  const b = await call(engine, 'b');
  const bridge = a.session.bridge(b.session, { relay: 'frames', dtmf: 'pass' });
  await a.phone.talk(5, () => frame(9));
  await b.phone.until(() => firstBytes(b.phone).includes(9), 'a at b');
  await engine.crash(1);
  expect(await b.session.lost).toBe('engine-gone');
  expect(await bridge.ended).toMatchObject({ by: 'closed' });
  expect(await a.session.play({ kind: 'clip', clip: new SharedArrayBuffer(160) }, signal())).toMatchObject({
    by: 'finished',
  });
});
