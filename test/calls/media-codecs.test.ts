/** The same calls with each codec: an agent and its echo, loss, keys, hold, another codec in the middle, a recording, a bridge. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readWav } from '../../media/audio/wav.js';
import { codecFacts } from '../../media/codecs.js';
import type { MediaEngine, MediaSession, PhoneCodec, TapMessage } from '../../media/engine.js';
import { CodedPhone, eventNumber } from '../support/coded-phone.js';
import { agentTarget, collectEvents, eventually, startTestEngine } from '../support/media-engine.js';
import { RawAgent } from '../support/raw-agent.js';
import { probeTone } from '../support/tone-probe.js';

const signal = () => new AbortController().signal;
const folder = mkdtempSync(path.join(tmpdir(), 'codecs-'));
let engine: MediaEngine;

beforeAll(async () => {
  engine = await startTestEngine({ threads: 2 });
});
afterAll(async () => {
  expect(engine.load()).toMatchObject({ faults: 0, ports: { used: 0 } });
  await engine.close();
  rmSync(folder, { recursive: true });
});

/** `highHz`: what narrowband cannot carry; of an agent at `agentHz`. */
const rows = [
  { codec: 'PCMU', agentHz: 8000, highHz: 3000, fileHz: 8000 },
  { codec: 'PCMA', agentHz: 16_000, highHz: 3000, fileHz: 8000 },
  { codec: 'G722', agentHz: 16_000, highHz: 6000, fileHz: 16_000 },
  { codec: 'OPUS', agentHz: 24_000, highHz: 6000, fileHz: 16_000 },
] as const;

/** Closed when the test is over: tests run several at a time. */
type Later = (close: () => Promise<void> | void) => void;

async function phoneOf(later: Later, codec: PhoneCodec, group: string = codec, fmtp?: string) {
  const phone = await CodedPhone.open(codec, fmtp);
  later(() => phone.close());
  const session = await phone.call(engine, { group });
  later(async () => void (await session.close()));
  return { phone, session };
}

/** A raw agent that hears, and says what it heard when told to. */
async function agentOf(later: Later, session: MediaSession, sampleRateHz: number, echoes = false) {
  const agent = await RawAgent.open();
  later(() => agent.close());
  if (echoes) agent.onAudio = (bytes) => agent.say(bytes);
  const config = { encoding: 'l16', sample_rate: sampleRateHz };
  const link = await session.prepareAgent(agentTarget(agent.url, { config }), signal());
  session.attach(link);
  link.start();
  const samples = () => {
    const bytes = Buffer.concat(agent.heard);
    return new Int16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  };
  return { agent, samples };
}

const decibels = (amplitude: number) => 20 * Math.log10(amplitude / 8000);

/** Tenths of a second in which the tone is all that is heard, of those at all. */
function tenthsWith(
  samples: Int16Array,
  frequencyHz: number,
  rateHz: number,
  leastDb = 8,
): { pure: number; levelDb: number } {
  const length = rateHz / 10;
  const probes = Array.from({ length: Math.floor(samples.length / length) }, (_, i) =>
    probeTone(samples.subarray(i * length, (i + 1) * length), frequencyHz, rateHz),
  );
  const pure = probes.filter(({ purityDb }) => purityDb > leastDb);
  const levels = pure.map(({ amplitude }) => decibels(amplitude)).sort((a, b) => a - b);
  return { pure: pure.length, levelDb: levels[levels.length >> 1] ?? Number.NEGATIVE_INFINITY };
}

/** Pieces of 5 ms in which nothing is heard. */
function silentMs(samples: Int16Array, rateHz: number): number {
  const length = rateHz / 200;
  let silent = 0;
  for (let at = 0; at + length <= samples.length; at += length)
    if (samples.subarray(at, at + length).every((sample) => Math.abs(sample) < 1500)) silent += 5;
  return silent;
}

describe.each(rows)('a call in $codec', ({ codec, agentHz, highHz, fileHz }) => {
  it.concurrent('is answered with the numbers of the offer, heard by the agent at its rate, and hears it', async ({
    onTestFinished: later,
  }) => {
    const { phone, session } = await phoneOf(later, codec);
    expect(session.localSdp).toContain(` RTP/AVP ${phone.payloadType} ${eventNumber}\r\n`);
    expect(session.localSdp).toContain(`a=rtpmap:${phone.payloadType} ${codecFacts[codec].rtpmap}\r\n`);
    expect(session.localSdp).toContain(
      `a=rtpmap:${eventNumber} telephone-event/${codecFacts[codec].clockKhz * 1000}\r\n`,
    );
    const { agent, samples } = await agentOf(later, session, agentHz, true);
    const tapped = new Map<string, Int16Array[]>();
    const { port1, port2 } = new MessageChannel();
    port1.on('message', (message: TapMessage) => {
      if (message !== 'end') tapped.set(message.track, [...(tapped.get(message.track) ?? []), message.samples]);
      port1.postMessage('taken');
    });
    later(() => port1.close());
    session.tap(port2, { tracks: 'both', chunkMs: 100, sampleRateHz: 16_000 });
    const file = path.join(folder, `${codec}.wav`);
    const recording = session.record({ path: file });
    await phone.say(phone.tone(highHz, 1200));
    await eventually(() => phone.packets.length > 50, 'the echo');
    for (const [who, heard, rateHz] of [
      ['agent', samples(), agentHz],
      ['phone', phone.heard, phone.rateHz],
    ] as const) {
      const { pure, levelDb } = tenthsWith(heard, highHz, rateHz);
      expect(pure, who).toBeGreaterThanOrEqual(5);
      expect(Math.abs(levelDb), who).toBeLessThan(1);
    }
    expect(agent.heard.every((bytes) => bytes.length === (agentHz / 50) * 2)).toBe(true);
    const { packets } = phone;
    const step = 20 * codecFacts[codec].clockKhz;
    const steps = packets.slice(1).map((each, i) => (each.timestamp - packets[i]!.timestamp) >>> 0);
    expect(steps.every((each) => each % step === 0)).toBe(true);
    expect(steps.filter((each) => each === step).length).toBeGreaterThan(steps.length * 0.9);

    for (const track of ['caller', 'agent']) {
      const samples = Int16Array.from((tapped.get(track) ?? []).flatMap((chunk) => [...chunk]));
      expect(tenthsWith(samples, highHz, 16_000).pure, `tap of the ${track}`).toBeGreaterThanOrEqual(4);
    }

    await recording.stop();
    const wav = readWav(readFileSync(file));
    expect(wav.sampleRateHz).toBe(fileHz);
    for (const channel of [0, 1])
      if (highHz < fileHz / 2) {
        const { pure, levelDb } = tenthsWith(wav.channels[channel]!, highHz, fileHz);
        expect(pure).toBeGreaterThanOrEqual(5);
        expect(Math.abs(levelDb)).toBeLessThan(1);
      }
    expect((await session.stats()).codec).toBe(codec);
  });

  it.concurrent('loses packets, and the agent hears a line that is whole', async ({ onTestFinished: later }) => {
    const { phone, session } = await phoneOf(later, codec);
    const { samples } = await agentOf(later, session, 8000);
    await phone.say(phone.tone(400, 2000), (i) => i % 7 === 3);
    await eventually(() => samples().length >= 8000 * 1.9, 'two seconds');
    // A lost packet of Opus is coarser when it comes with the next one, but there.
    const { pure } = tenthsWith(samples(), 400, 8000, 3);
    expect(pure).toBeGreaterThanOrEqual(14);
    const { received } = await session.stats();
    expect(received.lossPercent).toBeGreaterThan(10);
    if (codec === 'OPUS') expect(received.recovered).toBeGreaterThan(0);
    else expect(received.recovered).toBe(0);
  });

  it.concurrent('has keys both ways, in the clock of its audio', async ({ onTestFinished: later }) => {
    const { phone, session } = await phoneOf(later, codec);
    const events = collectEvents(session);
    session.attach(null);
    await phone.say(phone.tone(400, 100));
    phone.press(7);
    await eventually(() => events.some((event) => event.type === 'dtmf'), 'the key');
    expect(events.find((event) => event.type === 'dtmf')).toMatchObject({ digit: '7', durationMs: 100, form: 'event' });
    await session.sendDtmf('4');
    const keys = () => phone.rtp.heard.filter((packet) => packet.payloadType === eventNumber);
    await eventually(() => keys().length >= 7, 'our key');
    expect(keys()[0]!.marker).toBe(true);
    expect(new Set(keys().map((packet) => packet.timestamp)).size).toBe(1);
    const last = keys().at(-1)!.payload;
    expect([last[0], last[1]! & 0x80]).toEqual([4, 0x80]);
    expect((last[2]! << 8) | last[3]!).toBe(100 * codecFacts[codec].clockKhz);
  });

  it.concurrent('hears what is played, and keys as tones; its own tones are keys when it has no events', async ({
    onTestFinished: later,
  }) => {
    const { phone, session } = await phoneOf(later, codec);
    await session.play({ kind: 'tone', segments: [{ frequenciesHz: [1000], durationMs: 600 }] }, signal());
    expect(tenthsWith(phone.heard, 1000, phone.rateHz).pure).toBeGreaterThanOrEqual(4);
    await session.sendDtmf('5', 'tone');
    const hasKey = () => {
      const heard = phone.heard.subarray(-phone.rateHz * 0.4);
      return [770, 1336].every((hz) =>
        [...Array(8).keys()].some((i) => {
          const part = heard.subarray((i * phone.rateHz) / 20, ((i + 1) * phone.rateHz) / 20);
          return probeTone(part, hz, phone.rateHz).amplitude > 5000;
        }),
      );
    };
    await eventually(hasKey, 'the tones of a 5');
    const events = collectEvents(session);
    await session.answer(
      phone
        .sdp()
        .replace(` ${eventNumber}\r\n`, '\r\n')
        .replace(/a=(rtpmap|fmtp):97 .*\r\n/g, ''),
    );
    const [low, high] = [phone.tone(852, 160), phone.tone(1477, 160)];
    await phone.say(Int16Array.from({ length: phone.rateHz / 2 }, (_, i) => (low[i] ?? 0) + (high[i] ?? 0)));
    await eventually(() => events.some((event) => event.type === 'dtmf'), 'the key');
    expect(events.find((event) => event.type === 'dtmf')).toMatchObject({ digit: '9', form: 'tone' });
  });

  it.concurrent('is heard by who tells machines from people', async ({ onTestFinished: later }) => {
    const { phone, session } = await phoneOf(later, codec);
    session.attach(null);
    const verdict = session.detectMachine({ untilMessageEnd: false }, signal());
    await phone.say(new Int16Array(phone.rateHz / 5)); // a tone from the very begin would be the end of the ringing
    await phone.say(phone.tone(1400, 500));
    await phone.say(new Int16Array(phone.rateHz / 2));
    const { result, beepHz } = await verdict;
    expect(result).toBe('machine');
    expect(Math.abs((beepHz ?? 0) - 1400)).toBeLessThan(20);
  });

  it.concurrent('is held and comes back', async ({ onTestFinished: later }) => {
    const { phone, session } = await phoneOf(later, codec);
    const events = collectEvents(session);
    const { samples } = await agentOf(later, session, 8000);
    await phone.say(phone.tone(400, 300));
    await session.answer(phone.sdp('sendonly'));
    const before = samples().length;
    await phone.say(phone.tone(700, 300));
    await session.answer(phone.sdp());
    await phone.say(phone.tone(1000, 500));
    await eventually(() => tenthsWith(samples(), 1000, 8000).pure >= 3, 'the caller again');
    expect(tenthsWith(samples().subarray(before), 700, 8000).pure).toBe(0);
    const held = events.filter(({ type }) => type === 'held' || type === 'resumed').map(({ type }) => type);
    expect(held).toEqual(['held', 'resumed']);
  });

  it.concurrent.for(rows.map((row) => row.codec).filter((other) => other !== codec))(
    'goes on in %s, without a gap for the agent or in the recording',
    async (other, { onTestFinished: later }) => {
      const { phone, session } = await phoneOf(later, codec);
      const { samples } = await agentOf(later, session, 16_000, true);
      const file = path.join(folder, `from-${codec}-${other}.wav`);
      const recording = session.record({ path: file });
      await phone.say(phone.tone(500, 800));
      await phone.use(other);
      await session.answer(phone.sdp());
      expect((await session.stats()).codec).toBe(other);
      await phone.say(phone.tone(500, 600));
      await eventually(() => samples().length >= 16_000 * 1.35, 'all of it');
      const heard = tenthsWith(samples(), 500, 16_000, 3);
      expect(heard.pure).toBeGreaterThanOrEqual(10);
      expect(Math.abs(heard.levelDb)).toBeLessThan(1);
      expect(silentMs(samples().subarray(1600, 16_000 * 1.1), 16_000)).toBeLessThanOrEqual(20);
      await eventually(() => tenthsWith(phone.heard, 500, phone.rateHz, 3).pure >= 3, 'the echo in the new codec');
      await recording.stop();
      const wav = readWav(readFileSync(file));
      for (const channel of [0, 1])
        expect(tenthsWith(wav.channels[channel]!, 500, wav.sampleRateHz, 3).pure).toBeGreaterThanOrEqual(8);
    },
  );
});

describe('a bridge', () => {
  const pairs = rows.flatMap(({ codec }, i) => rows.slice(i).map((other) => [codec, other.codec] as const));

  it.concurrent.for(pairs)(
    'of %s and %s, on one thread and on two',
    async ([one, other], { onTestFinished: later }) => {
      await Promise.all(
        ['one', 'two'].map(async (threads) => {
          const a = await phoneOf(later, one, `a-${threads}`);
          const b = await phoneOf(later, other, threads === 'one' ? 'a-one' : 'b-two');
          a.session.attach(null);
          b.session.attach(null);
          const bridge = a.session.bridge(b.session, { relay: 'packets', dtmf: 'pass' });
          const file = path.join(folder, `${one}-${other}-${threads}.wav`);
          const recording = b.session.record({ path: file });
          const [sentA] = await Promise.all([
            a.phone.say(a.phone.tone(600, 900)),
            b.phone.say(b.phone.tone(1500, 900)),
          ]);
          for (const [phone, hz] of [
            [a.phone, 1500],
            [b.phone, 600],
          ] as const) {
            await eventually(() => tenthsWith(phone.heard, hz, phone.rateHz).pure >= 5, `${hz} Hz at ${phone.codec}`);
            expect(Math.abs(tenthsWith(phone.heard, hz, phone.rateHz).levelDb)).toBeLessThan(1);
          }
          if (one === other) {
            const heard = new Set(b.phone.packets.map(({ payload }) => Buffer.from(payload).toString('base64')));
            const untouched = sentA.filter((packet) => heard.has(Buffer.from(packet).toString('base64')));
            expect(untouched.length).toBeGreaterThan(sentA.length * 0.9);
          }
          const keys = () => b.phone.rtp.heard.filter((packet) => packet.payloadType === eventNumber);
          a.phone.press(9);
          await eventually(() => keys().some(({ payload }) => payload[0] === 9 && payload[1]! & 0x80), 'the key at b');
          await recording.stop();
          const wav = readWav(readFileSync(file));
          expect(tenthsWith(wav.channels[0]!, 1500, wav.sampleRateHz).pure).toBeGreaterThanOrEqual(5);
          expect(tenthsWith(wav.channels[1]!, 600, wav.sampleRateHz).pure).toBeGreaterThanOrEqual(5);
          expect(await bridge.stop()).toMatchObject({ by: 'stopped' });
        }),
      );
    },
  );

  it.concurrent('of two phones with Opus that want different things is no bridge of packets', async ({
    onTestFinished: later,
  }) => {
    const a = await phoneOf(later, 'OPUS', 'x', 'useinbandfec=1');
    const b = await phoneOf(later, 'OPUS', 'x', 'maxplaybackrate=8000');
    a.session.attach(null);
    b.session.attach(null);
    const bridge = a.session.bridge(b.session, { relay: 'packets', dtmf: 'pass' });
    const sent = await a.phone.say(a.phone.tone(600, 600));
    await eventually(() => tenthsWith(b.phone.heard, 600, b.phone.rateHz).pure >= 3, 'the tone');
    const heard = new Set(b.phone.packets.map(({ payload }) => Buffer.from(payload).toString('base64')));
    expect(sent.filter((packet) => heard.has(Buffer.from(packet).toString('base64'))).length).toBe(0);
    await bridge.stop();
  });
});
