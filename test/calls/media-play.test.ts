import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startEchoAgent } from '../../examples/echo-agent/index.js';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { readWav } from '../../media/audio/wav.js';
import type { Clip, MediaEngine, MediaSession, StreamDemand } from '../../media/engine.js';
import { agentTarget, collectEvents, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RtpPhone } from '../support/rtp-phone.js';

const signal = () => new AbortController().signal;
const frame = (value: number) => new Uint8Array(160).fill(value);
const toClose: (() => unknown)[] = [];
let engine: MediaEngine;
let folder: string;

beforeEach(async () => {
  engine = await startTestEngine();
  folder = await mkdtemp(path.join(tmpdir(), 'trunkline-play-'));
  toClose.push(
    () => rm(folder, { recursive: true }),
    () => engine.close(),
  );
});

afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close();
});

async function call(group: string, codecs = '0'): Promise<{ phone: RtpPhone; session: MediaSession }> {
  const phone = await RtpPhone.open();
  toClose.push(() => phone.close());
  const session = await engine.open(sessionOptions({ group, offer: phone.sdp({ codecs }) }));
  phone.dial(session.localSdp);
  session.attach(null);
  return { phone, session };
}

function clipOf(...frames: number[]): Clip {
  const clip = new SharedArrayBuffer(frames.length * 160);
  frames.forEach((value, i) => {
    new Uint8Array(clip).fill(value, i * 160, (i + 1) * 160);
  });
  return clip;
}

const firstBytes = (phone: RtpPhone) => phone.heard.map((packet) => packet.payload[0]);
const withTone = (phone: RtpPhone) => phone.heard.filter((packet) => packet.payload.some((byte) => byte !== 0xff));
const spoken = (phone: RtpPhone) => firstBytes(phone).filter((byte) => byte !== 0xff);

describe('play', () => {
  it('sends a clip as it is, as often as asked, and ends with it', async () => {
    const { phone, session } = await call('a');
    const end = await session.play({ kind: 'clip', clip: clipOf(1, 2, 3), repeat: 2 }, signal());
    expect(end).toEqual({ by: 'finished', playedMs: 120 });
    await phone.until(() => spoken(phone).length >= 6, 'the clip');
    expect(spoken(phone)).toEqual([1, 2, 3, 1, 2, 3]);
  });

  it('turns a clip into the law of the phone', async () => {
    const { phone, session } = await call('a', '8');
    await session.play({ kind: 'clip', clip: clipOf(0x80, 0x00) }, signal());
    await phone.until(() => firstBytes(phone).includes(0x2a), 'the loudest code of the other law');
    expect(firstBytes(phone).filter((byte) => byte !== 0xd5)).toEqual([0xaa, 0x2a]);
  });

  it('ends at once when it is cancelled, and a play after it begins anew', async () => {
    const { phone, session } = await call('a');
    const cancel = new AbortController();
    const playing = session.play({ kind: 'clip', clip: clipOf(7), repeat: 0 }, cancel.signal);
    await phone.until(() => spoken(phone).length >= 5, 'some of it');
    cancel.abort();
    const { by, playedMs } = await playing;
    expect(by).toBe('cancelled');
    expect(playedMs).toBeGreaterThanOrEqual(100);
    const count = phone.heard.length;
    await phone.until(() => phone.heard.length >= count + 5, 'silence');
    expect(firstBytes(phone).slice(-3)).toEqual([0xff, 0xff, 0xff]);
    expect(spoken(phone)).toHaveLength(playedMs / 20);
    expect(await session.play({ kind: 'clip', clip: clipOf(9) }, signal())).toEqual({ by: 'finished', playedMs: 20 });
    expect(await session.play({ kind: 'clip', clip: clipOf(9) }, AbortSignal.abort())).toMatchObject({
      by: 'cancelled',
    });
  });

  it('gives way to another play, and ends with the session', async () => {
    const { session } = await call('a');
    const first = session.play({ kind: 'clip', clip: clipOf(1), repeat: 0 }, signal());
    const second = session.play({ kind: 'clip', clip: clipOf(2), repeat: 0 }, signal());
    expect(await first).toMatchObject({ by: 'replaced' });
    await session.close();
    expect(await second).toMatchObject({ by: 'closed' });
    await expect(session.play({ kind: 'clip', clip: clipOf(2) }, signal())).rejects.toMatchObject({ code: 'closed' });
  });

  it('stands in the place of the agent, who is heard again after it', async () => {
    const echo = await startEchoAgent({ port: 0 });
    toClose.push(() => echo.close());
    const { phone, session } = await call('a');
    const events = collectEvents(session);
    const link = await session.prepareAgent(agentTarget(echo.urls.raw), signal());
    session.attach(link);
    link.start();
    const playing = session.play({ kind: 'clip', clip: clipOf(1), repeat: 15 }, signal());
    await phone.talk(10, () => frame(5));
    expect(await playing).toMatchObject({ by: 'finished' });
    await phone.talk(10, () => frame(6));
    await phone.until(() => spoken(phone).includes(6), 'the agent after the play');
    expect(spoken(phone).slice(0, 15)).toEqual(Array(15).fill(1));
    // What the agent said meanwhile waited.
    expect(spoken(phone)).toContain(5);
    expect(events.filter((event) => event.type === 'agentAudio')).toHaveLength(1);
  });

  it('plays tones of the frequencies asked for', async () => {
    const { phone, session } = await call('a');
    const segments = [
      { frequenciesHz: [440], durationMs: 200 },
      { frequenciesHz: [], durationMs: 100 },
    ];
    expect(await session.play({ kind: 'tone', segments }, signal())).toEqual({ by: 'finished', playedMs: 300 });
    await phone.until(() => withTone(phone).length >= 10, 'the tone');
    const bytes = phone.heard.flatMap((packet) => [...packet.payload]);
    const from = bytes.findIndex((byte) => byte !== 0xff);
    const samples = bytes.slice(from, from + 1600).map((byte) => ulawToLinear[byte]!);
    const crossings = samples.filter((sample, i) => i > 0 && sample >= 0 && samples[i - 1]! < 0).length;
    expect(crossings).toBeGreaterThanOrEqual(86);
    expect(crossings).toBeLessThanOrEqual(89);
    await expect(
      session.play({ kind: 'tone', segments: [{ frequenciesHz: [9000], durationMs: 5 }] }, signal()),
    ).rejects.toMatchObject({ code: 'bad_source' });
  });

  it('plays a stream with water marks until it ends', async () => {
    const { phone, session } = await call('a');
    const { port1, port2 } = new MessageChannel();
    toClose.push(() => port1.close());
    const demands: StreamDemand[] = [];
    const paused = new Promise<void>((resolve) => {
      port1.on('message', (demand: StreamDemand) => {
        demands.push(demand);
        resolve();
      });
    });
    const playing = session.play(
      { kind: 'stream', port: port2, format: { encoding: 'l16', sampleRateHz: 8000 } },
      signal(),
    );
    const second = new Uint8Array(tone({ frequencyHz: 400, durationMs: 700 }).buffer);
    for (let i = 0; i < 3; i++) port1.postMessage(second);
    await paused;
    port1.postMessage('end');
    expect(demands).toEqual(['pause']);
    expect(await playing).toEqual({ by: 'finished', playedMs: 2100 });
    await phone.until(() => withTone(phone).length >= 104, 'the stream');
  });

  it('ends a stream whose source went away', async () => {
    const { session } = await call('a');
    const { port1, port2 } = new MessageChannel();
    const format = { encoding: 'ulaw', sampleRateHz: 8000 } as const;
    const playing = session.play({ kind: 'stream', port: port2, format }, signal());
    port1.postMessage(frame(3));
    port1.close();
    expect(await playing).toEqual({ by: 'finished', playedMs: 20 });
  });
});

describe('record', () => {
  it('writes both directions where they were, with silence between', async () => {
    const { phone, session } = await call('a');
    const file = path.join(folder, 'sub', 'call.wav');
    const recording = session.record({ path: file });
    await phone.talk(20, () => frame(0x10));
    phone.sequence += 10;
    phone.timestamp += 1600;
    await new Promise((resolve) => setTimeout(resolve, 200)); // real time: the pause of 1,600 samples that the recording must show
    await phone.talk(20, () => frame(0x20));
    await session.play({ kind: 'clip', clip: clipOf(0x30), repeat: 10 }, signal());
    const end = await recording.stop();
    expect(end.error).toBeNull();
    const { sampleRateHz, channels } = readWav(await readFile(file));
    expect(sampleRateHz).toBe(8000);
    const [left, right] = channels as [Int16Array, Int16Array];
    expect(Math.abs(left.length / 8 - end.durationMs)).toBeLessThan(2);
    const ms = (channel: Int16Array, byte: number) =>
      channel.filter((sample) => sample === ulawToLinear[byte]!).length / 8;
    expect([ms(left, 0x10), ms(left, 0x20), ms(right, 0x30)]).toEqual([400, 400, 200]);
    const gapMs = (left.indexOf(ulawToLinear[0x20]!) - left.lastIndexOf(ulawToLinear[0x10]!)) / 8;
    expect(Math.abs(gapMs - 200)).toBeLessThan(1);
    // What the phone hears after it spoke lies after it, but for the jitter of a busy machine.
    const answerMs = (right.indexOf(ulawToLinear[0x30]!) - left.lastIndexOf(ulawToLinear[0x20]!)) / 8;
    expect(answerMs).toBeGreaterThan(-60);
    expect(answerMs).toBeLessThan(200);
  });

  it('of the phone alone ends with its silence, tells its first words, and leaves out what lies around them', async () => {
    const { phone, session } = await call('a');
    const told: string[] = [];
    session.onEvent((event) => told.push(event.type));
    const file = path.join(folder, 'words.wav');
    const silence = { beforeMs: 5000, afterMs: 500 };
    const whole = session.record({ path: path.join(folder, 'beside.wav') });
    const words = session.record({ path: file, tracks: 'phone', silence, trim: true });
    await phone.talk(20, () => frame(0xff));
    await phone.talk(20, () => frame(0x10));
    await phone.talk(60, () => frame(0xff));
    const end = await words.ended;
    expect(end).toMatchObject({ by: 'silence', error: null });
    expect(Math.abs(end.durationMs - 600)).toBeLessThan(60);
    expect(told.filter((type) => type === 'words')).toHaveLength(1);
    const { channels } = readWav(await readFile(file));
    expect(channels).toHaveLength(1);
    expect(channels[0]?.length).toBe(end.durationMs * 8);
    expect(channels[0]?.filter((sample) => sample === ulawToLinear[0x10]!)).toHaveLength(3200);
    expect(await whole.stop()).toMatchObject({ by: 'stopped', error: null });
  });

  it('of a phone that says nothing ends and is empty', async () => {
    const { phone, session } = await call('a');
    const options = { path: path.join(folder, 'nothing.wav'), tracks: 'phone' as const, trim: true };
    const words = session.record({ ...options, silence: { beforeMs: 300, afterMs: 300 } });
    await phone.talk(30, () => frame(0xff));
    expect(await words.ended).toMatchObject({ by: 'silence', durationMs: 0, bytes: 44 });
  });

  it('ends with the session, at its limit, and with a clear sentence when the disk refuses', async () => {
    const { session } = await call('a');
    const limited = await session.record({ path: path.join(folder, 'limit.wav'), maxMs: 100 }).ended;
    expect(limited).toMatchObject({ durationMs: 100, error: null, bytes: 44 + 3200 });
    const file = path.join(folder, 'taken.wav');
    await writeFile(file, 'mine');
    expect((await session.record({ path: file }).ended).error).toContain('EEXIST');
    expect(await readFile(file, 'utf8')).toBe('mine');
    const whole = session.record({ path: path.join(folder, 'whole.wav') });
    await session.close();
    expect((await whole.ended).error).toBeNull();
    expect(existsSync(path.join(folder, 'whole.wav'))).toBe(true);
  });
});

describe('a clip file', () => {
  it('comes to the phone at its own pace, whatever its rate', async () => {
    const { clipFromWav } = await import('../../media/audio/clip.js');
    const { writeWav } = await import('../../media/audio/wav.js');
    const samples = tone({ frequencyHz: 500, durationMs: 300, sampleRateHz: 44_100 });
    const clip = clipFromWav(writeWav({ sampleRateHz: 44_100, channels: [samples, samples] }));
    expect(Math.abs(clip.byteLength - 2400)).toBeLessThan(5);
    const middle = new Uint8Array(clip).subarray(400, 2000);
    const linear = [...middle].map((byte) => ulawToLinear[byte]!);
    const crossings = linear.filter((sample, i) => i > 0 && sample >= 0 && linear[i - 1]! < 0).length;
    expect(Math.abs(crossings - 100)).toBeLessThanOrEqual(1);
    expect(Math.max(...linear)).toBeGreaterThan(7000);
    expect(linearToUlaw).toHaveLength(65536);
    expect(() => clipFromWav(new Uint8Array(10))).toThrow('Not a WAV file.');
  });
});
