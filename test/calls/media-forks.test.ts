import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AudioTracks } from '../../media/agents/agent.js';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import type { AgentLink, MediaEngine, MediaSession, TapChunk, TapMessage, TapOptions } from '../../media/engine.js';
import { agentTarget, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RawAgent } from '../support/raw-agent.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { type AgentScript, startScriptedAgent } from '../support/scripted-agent.js';
import { millisecondsOfTone, probeTone } from '../support/tone-probe.js';

const signal = () => new AbortController().signal;
const frame = (value: number, frames = 1) => new Uint8Array(160 * frames).fill(value);
const toneFrames = (frequencyHz: number, ms: number) =>
  Uint8Array.from(tone({ frequencyHz, durationMs: ms }), (sample) => linearToUlaw[sample & 0xffff]!);
const linear = (bytes: Uint8Array) => Int16Array.from(bytes, (byte) => ulawToLinear[byte]!);

const toClose: (() => unknown)[] = [];
let engine: MediaEngine;
let agent: RawAgent;
let phone: RtpPhone;
let session: MediaSession;
let link: AgentLink;

beforeEach(async () => {
  engine = await startTestEngine();
  agent = await RawAgent.open();
  phone = await RtpPhone.open();
  session = await engine.open(sessionOptions({ offer: phone.sdp() }));
  phone.dial(session.localSdp);
  link = await session.prepareAgent(agentTarget(agent.url), signal());
  session.attach(link);
  link.start();
});

afterEach(async () => {
  await session.close();
  phone.close();
  for (const close of toClose.splice(0)) await close();
  await eventually(() => engine.load().ports.quarantined === 0, 'ports to be free');
  expect(engine.load()).toMatchObject({ sessions: 0, ports: { used: 0 }, faults: 0 });
  await engine.close();
  await agent.close();
});

async function listener(): Promise<RawAgent> {
  const made = await RawAgent.open();
  toClose.push(() => made.close());
  return made;
}

async function fork(tracks: AudioTracks, at: RawAgent) {
  return session.fork(agentTarget(at.url), tracks, signal());
}

const allOf = (at: RawAgent) => Uint8Array.from(at.heard.flatMap((bytes) => [...bytes]));
/** Half a second of what it heard, from where it is loud. */
function loudPart(at: RawAgent): Int16Array {
  const samples = linear(allOf(at));
  const from = samples.findIndex((sample) => Math.abs(sample) > 3000);
  return samples.subarray(from + 800, from + 4800);
}
const millisecondsOf = (value: number, at: RawAgent) => allOf(at).filter((byte) => byte === value).length / 8;

describe('forks', () => {
  it('hear the caller, the agent, or both mixed, as the start message says', async () => {
    const [caller, heard, both] = [await listener(), await listener(), await listener()];
    await Promise.all([fork('caller', caller), fork('agent', heard), fork('both', both)]);
    await eventually(() => both.texts.length > 0, 'the start of the fork');
    expect(both.texts[0]).toMatchObject({ event: 'start', call_id: 'c1', tracks: 'both' });
    const said = toneFrames(700, 1000);
    agent.say(toneFrames(1900, 1000));
    await phone.talk(50, (i) => said.subarray(i * 160, (i + 1) * 160));
    await eventually(() => [caller, heard, both].every((each) => each.heard.length >= 60), 'a second at each');
    const [low, high] = [700, 1900].map((hz) => (at: RawAgent) => probeTone(loudPart(at), hz).amplitude);
    expect([low!(caller) > 3000, high!(caller) > 300]).toEqual([true, false]);
    expect([low!(heard) > 300, high!(heard) > 3000]).toEqual([false, true]);
    expect([low!(both) > 3000, high!(both) > 3000]).toEqual([true, true]);
  });

  it('of a protocol that tells tracks apart say which is which', async () => {
    type Media = { track: 'inbound' | 'outbound'; chunk: string; payload: string };
    const chunks = { inbound: [] as number[], outbound: [] as number[] };
    const spoken = { inbound: 0, outbound: 0 };
    const script: AgentScript = {
      onText: (message) => {
        const media = message.media as Media | undefined;
        if (!media) return;
        chunks[media.track].push(Number(media.chunk));
        if (Buffer.from(media.payload, 'base64')[0] === { inbound: 5, outbound: 6 }[media.track])
          spoken[media.track] += 1;
      },
    };
    const bot = await startScriptedAgent(script);
    toClose.push(() => bot.close());
    await session.fork(agentTarget(bot.url, { protocol: 'twilio', config: {} }), 'both', signal());
    await eventually(() => bot.messages.length >= 2, 'the start');
    expect(bot.messages[1]).toMatchObject({ event: 'start', start: { tracks: ['inbound', 'outbound'] } });
    agent.say(frame(6, 10));
    await phone.talk(10, () => frame(5));
    await eventually(() => spoken.inbound === 10 && spoken.outbound === 10, 'both tracks');
    for (const numbers of Object.values(chunks)) expect(numbers).toEqual(numbers.map((_, i) => 1 + i));
  });

  it('change nothing in the call, whatever they say', async () => {
    const at = await listener();
    const made = await fork('caller', at);
    const events: string[] = [];
    made.onEvent((event) => events.push(event.type));
    at.say(frame(66, 50));
    at.tell({ event: 'clear' });
    at.tell({ event: 'mark', name: 'm' });
    at.tell({ event: 'transcript', speaker: 'caller', text: 'hello' });
    agent.say(frame(6, 10));
    await eventually(() => at.texts.some((text) => text.event === 'mark'), 'the mark');
    await phone.until(() => phone.heard.filter((packet) => packet.payload[0] === 6).length === 10, 'the agent');
    expect(phone.heard.flatMap((packet) => [...packet.payload])).not.toContain(66);
    await eventually(() => events.includes('transcript'), 'the transcript');
    expect((await session.stats()).agent).toMatchObject({ bytesReceived: 1600 });
  });

  it('are four at most, and a place is free again when one ends', async () => {
    const places = await Promise.all([1, 2, 3, 4].map(() => listener()));
    const made = await Promise.all(places.map((at) => fork('caller', at)));
    await expect(fork('caller', places[0]!)).rejects.toMatchObject({ code: 'too_many_forks' });
    await made[3]!.close('enough');
    expect(await made[3]!.ended).toMatchObject({ by: 'local', detail: 'enough' });
    await fork('caller', places[3]!);
    places[0]!.socket!.terminate();
    expect(await made[0]!.ended).toMatchObject({ by: 'failed' });
    await phone.talk(5, () => frame(3));
    await eventually(() => millisecondsOf(3, places[1]!) === 100, 'the audio of the others');
    await eventually(() => millisecondsOf(3, agent) === 100, 'the audio of the agent');
  });

  it('that cannot be reached say so, and do not take a place', async () => {
    const nobody = agentTarget('ws://127.0.0.1:9/', { connectTimeoutMs: 1000 });
    for (let i = 0; i < 5; i++)
      await expect(session.fork(nobody, 'caller', signal())).rejects.toMatchObject({ reason: 'refused' });
    const stopped = AbortSignal.abort();
    await expect(session.fork(nobody, 'caller', stopped)).rejects.toMatchObject({ reason: 'aborted' });
  });

  it('that do not read lose audio, and the call notices nothing', async () => {
    const at = await listener();
    await session.fork(agentTarget(at.url, { config: { sample_rate: 24000 } }), 'both', signal());
    await eventually(() => at.texts.length > 0, 'the start of the fork');
    at.socket!.pause();
    const begun = phone.heard.length;
    agent.say(frame(6, 100));
    await phone.talk(100, () => frame(5));
    await eventually(() => millisecondsOf(5, agent) === 2000, 'the caller at the agent');
    await phone.until(() => phone.heard.filter((packet) => packet.payload[0] === 6).length === 100, 'the agent');
    const steps = phone.heard.slice(begun + 1).map((packet, i) => packet.sequence - phone.heard[begun + i]!.sequence);
    expect(new Set(steps.map((step) => step & 0xffff))).toEqual(new Set([1]));
  });

  it('end with the session', async () => {
    const at = await listener();
    const made = await fork('both', at);
    await session.close();
    expect(await made.ended).toMatchObject({ by: 'local' });
    await eventually(() => at.connections === 0, 'the end of the connection');
    expect(at.texts.at(-1)).toMatchObject({ event: 'stop' });
    await expect(fork('both', at)).rejects.toMatchObject({ code: 'closed' });
  });
});

describe('taps', () => {
  class Reader {
    readonly chunks: TapChunk[] = [];
    ended = false;

    constructor(readonly port: MessagePort) {
      port.on('message', (message: TapMessage) => {
        if (message === 'end') this.ended = true;
        else {
          this.chunks.push(message);
          port.postMessage('taken');
        }
      });
      toClose.push(() => port.close());
    }

    samples(track: string): Int16Array {
      return Int16Array.from(
        this.chunks.filter((chunk) => chunk.track === track).flatMap((chunk) => [...chunk.samples]),
      );
    }
  }

  function tap(options: Partial<TapOptions> = {}) {
    const { port1, port2 } = new MessageChannel();
    const reader = new Reader(port1);
    return { reader, tap: session.tap(port2, { tracks: 'caller', chunkMs: 100, sampleRateHz: 8000, ...options }) };
  }

  it('hand on what is said in chunks, with the time of each, and silence where nothing came', async () => {
    const made = tap();
    const said = toneFrames(1000, 400);
    await phone.talk(20, (i) => said.subarray(i * 160, (i + 1) * 160));
    phone.timestamp += 1600; // 200 ms that the phone did not send
    await phone.talk(20, (i) => said.subarray(i * 160, (i + 1) * 160));
    expect(await made.tap.stop()).toEqual({ by: 'stopped', droppedMs: 0 });
    await eventually(() => made.reader.ended, 'the end');
    const { chunks } = made.reader;
    expect(chunks.slice(0, -1).every((chunk) => chunk.samples.length === 800)).toBe(true);
    chunks.slice(1).forEach((chunk, i) => {
      expect(chunk.startMs - chunks[i]!.startMs).toBeCloseTo(100);
    });
    const heard = made.reader.samples('caller');
    const loud = heard.findIndex((sample) => Math.abs(sample) > 1000);
    expect(probeTone(heard.subarray(loud, loud + 3200), 1000).purityDb).toBeGreaterThan(25);
    expect(Math.max(...heard.subarray(loud + 3210, loud + 4780).map(Math.abs))).toBeLessThan(10);
    expect(probeTone(heard.subarray(loud + 4800, loud + 7900), 1000).purityDb).toBeGreaterThan(25);
  });

  it('have both directions apart, at the rate that was asked for', async () => {
    const made = tap({ tracks: 'both', chunkMs: 20, sampleRateHz: 16000 });
    const said = toneFrames(500, 600);
    agent.say(toneFrames(1500, 600));
    await phone.talk(30, (i) => said.subarray(i * 160, (i + 1) * 160));
    await eventually(() => made.reader.samples('agent').length >= 14_000, 'the audio');
    for (const [track, hz] of [
      ['caller', 500],
      ['agent', 1500],
    ] as const) {
      const heard = made.reader.samples(track);
      expect(millisecondsOfTone(heard, hz, 16_000)).toBeGreaterThanOrEqual(200);
    }
  });

  it('end with the session or their reader, and refuse what is no chunk', async () => {
    const first = tap();
    const second = tap();
    second.reader.port.close();
    expect(await second.tap.ended).toMatchObject({ by: 'closed' });
    await session.close();
    expect(await first.tap.ended).toMatchObject({ by: 'closed' });
    await eventually(() => first.reader.ended, 'the end');
    expect(() => tap({ chunkMs: 30 })).toThrow(/steps of 20/);
    expect(await tap().tap.ended).toMatchObject({ by: 'closed' });
  });
});
