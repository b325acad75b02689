/**
 * A phone and an agent that talk in turns of known length, on a whole gateway: what the record says of their gaps is what the phone saw on its
 * own wire. And the settings of what an agent hears: the length of its messages, and packets that were lost.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { FarEnds } from '../support/far-ends.js';
import { type AgentScript, type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { syntheticVoice } from '../support/speech.js';
import { TalkingCaller } from '../support/talking-caller.js';

const number = '+19995564000';
const silence = new Uint8Array(160).fill(0xff);
/** The wire is seen from a thread that does other things too. */
const nearMs = 20;

let app: TestApp;
let ends: FarEnds;
let agent: ScriptedAgent;
let caller: TalkingCaller | null = null;

async function start(script: AgentScript, config: object, environment: Record<string, string> = {}): Promise<void> {
  app = await startTestApp(environment, { t1: 50, t2: 200, t4: 250 });
  ends = await FarEnds.open(app.sip.addresses[0]!.port);
  agent = await startScriptedAgent(script);
  await app.connectNumber(number, agent.url, { protocol: 'raw', encoding: 'ulaw', ...config });
}

afterEach(async () => {
  caller?.close();
  caller = null;
  await ends.close();
  await agent.close();
  await app.end();
});

const ulaw = (samples: Int16Array) => Uint8Array.from(samples, (sample) => linearToUlaw[sample & 0xffff]!);
const isLoud = (bytes: Uint8Array) => bytes.some((byte) => Math.abs(ulawToLinear[byte]!) > 1000);

describe('turns on the wire', { retry: 3 }, () => {
  /** Of the phone, in ms from its first packet: a question, and words over the agent's answer. */
  const spoken = [
    { fromMs: 600, toMs: 1800 },
    { fromMs: 3600, toMs: 4600 },
  ];
  const waitsMs = 500;
  const line = ulaw(tone({ frequencyHz: 300, durationMs: 6000, amplitude: 6000 }));
  const reply = ulaw(tone({ frequencyHz: 1000, durationMs: 10_000, amplitude: 6000 }));

  type Say = (socket: WebSocket, what: 'reply' | 'clear') => void;
  const bytesOf: Record<string, (data: Buffer | Record<string, unknown>) => Uint8Array | null> = {
    raw: (data) => (Buffer.isBuffer(data) ? data : null),
    twilio: (data) => {
      const media = Buffer.isBuffer(data) ? undefined : (data.media as { payload: string } | undefined);
      return media ? Buffer.from(media.payload, 'base64') : null;
    },
  };
  const says: Record<string, (streamSid: unknown) => Say> = {
    raw: () => (socket, what) => socket.send(what === 'reply' ? reply : '{"event":"clear"}'),
    twilio: (streamSid) => (socket, what) => {
      const media = { payload: Buffer.from(reply).toString('base64') };
      socket.send(JSON.stringify(what === 'reply' ? { event: 'media', streamSid, media } : { event: what, streamSid }));
    },
  };

  it.each(['raw', 'twilio'])(
    'are told within 20 ms, with the barge-in and how long the agent talked on (%s)',
    async (protocol) => {
      let say: Say = says[protocol]!(undefined);
      let heardLoud = false;
      let replied = false;
      const hear = (bytes: Uint8Array | null, socket: WebSocket) => {
        if (bytes === null) return;
        const loud = isLoud(bytes);
        if (replied && loud && !heardLoud) setTimeout(() => say(socket, 'clear'), 300);
        if (!replied && !loud && heardLoud) {
          replied = true;
          setTimeout(() => say(socket, 'reply'), waitsMs);
        }
        heardLoud = loud;
      };
      await start(
        {
          onText: (message, socket) => {
            if (message.event === 'start') say = says[protocol]!(message.streamSid);
            hear(bytesOf[protocol]!(message), socket);
          },
          onBinary: (bytes, socket) => hear(bytesOf[protocol]!(bytes), socket),
        },
        { protocol },
      );
      const sentAtMs: number[] = [];
      caller = await TalkingCaller.call(ends, number, { silent: true });
      await expect.poll(() => agent.messages.some(({ event }) => event === 'start')).toBe(true);
      caller.talk((index) => {
        sentAtMs.push(performance.now());
        const atMs = index * 20;
        return spoken.some(({ fromMs, toMs }) => atMs >= fromMs && atMs < toMs)
          ? line.subarray(index * 160, index * 160 + 160)
          : silence;
      });
      await sleep(5400);
      const loudHeard = caller.phone.heard.filter(({ payload }) => isLoud(payload));
      await caller.bye();
      const { events } = await app.finishedCall(number);
      const turns = events
        .filter(({ event_type }) => event_type === 'turn.completed')
        .map(({ event_data }) => event_data);
      expect(turns.map(({ speaker }) => speaker)).toEqual(['caller', 'agent', 'caller']);
      const [question, answer, interruption] = turns as {
        duration_ms: number;
        response_ms: number;
        talk_over: boolean;
      }[];

      // A packet of 20 ms that was sent then holds the 20 ms before.
      const [questionEndMs, interruptedMs] = [
        sentAtMs[spoken[0]!.toMs / 20 - 1]!,
        sentAtMs[spoken[1]!.fromMs / 20]! - 20,
      ];
      const [answerFromMs, answerEndMs] = [loudHeard[0]!.atMs, loudHeard.at(-1)!.atMs + 20];
      const near = (told: number, seen: number, what: string) =>
        expect(Math.abs(told - seen), `${what}: ${told} ms told, ${seen} ms seen`).toBeLessThanOrEqual(nearMs);
      near(question!.duration_ms, 1200, 'the question');
      near(answer!.response_ms, answerFromMs - questionEndMs, 'the wait for the answer');
      near(answer!.duration_ms, answerEndMs - answerFromMs, 'the answer');
      near(interruption!.duration_ms, 1000, 'the interruption');
      expect([question!.talk_over, interruption!.talk_over]).toEqual([false, true]);
      const bargeIns = events.filter(({ event_type }) => event_type === 'barge_in.detected');
      expect(bargeIns).toHaveLength(1);
      near(Number(bargeIns[0]!.event_data.silence_ms), answerEndMs - interruptedMs, 'the time to silence');
    },
  );
});

describe("the agent's echo", { retry: 3 }, () => {
  /** The agent does not give way: its barge-in is told when it is silent. */
  const reply = ulaw(syntheticVoice(4.5));
  const words = ulaw(syntheticVoice(12, 190).subarray(10 * 8000));
  const lossFactor = 0.25;
  const delayPackets = 6;

  /** A telephone on the table: what it plays comes back, and at `atMs` of the agent's speech its user speaks too. */
  async function call(atMs: number | null) {
    await start({ onText: ({ event }, socket) => event === 'start' && socket.send(reply) }, {});
    caller = await TalkingCaller.call(ends, number, { silent: true });
    const { phone } = caller;
    const isSpeech = ({ payload }: { payload: Uint8Array }) => isLoud(payload);
    await expect.poll(() => phone.heard.some(isSpeech)).toBe(true);
    const first = phone.heard.findIndex(isSpeech);
    caller.talk((index) => {
      const echo = phone.heard[first + index - delayPackets]?.payload ?? silence;
      const said = atMs === null || index * 20 < atMs ? -1 : index * 160 - atMs * 8;
      return echo.map((byte, i) => {
        const word = said < 0 ? 0 : (ulawToLinear[words[said + i] ?? 0xff] ?? 0);
        return linearToUlaw[Math.round(lossFactor * ulawToLinear[byte]! + word) & 0xffff]!;
      });
    });
    await sleep(6000);
    await caller.bye();
    const { events, quality_metrics } = await app.finishedCall(number);
    return {
      bargeIns: events.filter(({ event_type }) => event_type === 'barge_in.detected').length,
      speakers: events
        .filter(({ event_type }) => event_type === 'turn.completed')
        .map(({ event_data }) => event_data.speaker),
      echo: quality_metrics.echo as Record<string, number>,
    };
  }

  it('is no barge-in and no turn, and is in the record', async () => {
    const { bargeIns, speakers, echo } = await call(null);
    expect([bargeIns, speakers]).toEqual([0, ['agent']]);
    expect(echo.suppressed).toBeGreaterThan(0);
    expect(Math.abs(echo.return_loss_db! - 12)).toBeLessThanOrEqual(2);
    expect(Math.abs(echo.delay_ms! - 20 * delayPackets)).toBeLessThanOrEqual(40);
  });

  it('does not hide a caller who speaks over it', async () => {
    const { bargeIns, speakers } = await call(3000);
    expect(bargeIns).toBe(1);
    expect(speakers).toContain('caller');
  });
});

describe('what an agent hears', () => {
  const voice = ulaw(tone({ frequencyHz: 500, durationMs: 20, amplitude: 8000 }));
  /** Bytes of what the agent heard of a voice whose 11th packet never came. */
  async function talk(): Promise<{ lengths: Set<number>; lost: Uint8Array }> {
    const heard: Buffer[] = [];
    const script: AgentScript = { onBinary: (bytes) => void heard.push(bytes) };
    await start(script, config, environment);
    caller = await TalkingCaller.call(ends, number, { silent: true });
    await expect.poll(() => agent.messages.length).toBe(1);
    const { phone } = caller;
    await phone.talk(10, () => voice);
    phone.sequence += 1;
    phone.timestamp += 160;
    await phone.talk(15, () => voice);
    await expect.poll(() => Buffer.concat(heard).length).toBeGreaterThanOrEqual(160 * 22);
    await caller.bye();
    const all = Buffer.concat(heard);
    const from = all.indexOf(voice[3] ?? 0) - 3;
    return { lengths: new Set(heard.map(({ length }) => length)), lost: all.subarray(from + 1600, from + 1760) };
  }
  let config: object;
  let environment: Record<string, string>;

  it('is 20 ms a message, and a voice that goes on where a packet was lost', async () => {
    [config, environment] = [{}, {}];
    const { lengths, lost } = await talk();
    expect(lengths).toEqual(new Set([160]));
    expect(isLoud(lost)).toBe(true);
  });

  it('is 40 ms with agent_frame_ms, and silence in the gap without conceal_loss', async () => {
    [config, environment] = [{}, { TRUNKLINE_AGENT_FRAME_MS: '40', TRUNKLINE_CONCEAL_LOSS: 'false' }];
    const { lengths, lost } = await talk();
    expect(lengths).toEqual(new Set([320]));
    expect(isLoud(lost)).toBe(false);
  });

  it('is as frame_ms of its endpoint says, whatever the setting', async () => {
    [config, environment] = [{ frame_ms: 20 }, { TRUNKLINE_AGENT_FRAME_MS: '40' }];
    expect((await talk()).lengths).toEqual(new Set([160]));
  });

  it.each([
    [0, 'as its packets came'],
    [200, 'every 20 ms, and the record says what that cost'],
  ])(
    'with jitter_buffer_ms %i of a caller whose packets come four at once: all of it, %s',
    { retry: 3 },
    async (jitterBufferMs) => {
      const heard: { atMs: number; bytes: Buffer }[] = [];
      const script: AgentScript = { onBinary: (bytes) => void heard.push({ atMs: performance.now(), bytes }) };
      await start(script, { jitter_buffer_ms: jitterBufferMs });
      caller = await TalkingCaller.call(ends, number, { silent: true });
      await expect.poll(() => agent.messages.length).toBe(1);
      const words = ulaw(syntheticVoice(4).map((sample, i) => sample + ((i * 7919) % 101) - 50));
      const frames = Array.from({ length: 200 }, (_, i) => words.subarray(i * 160, i * 160 + 160));
      caller.burst(4, (i) => frames[i] ?? silence);
      await expect.poll(() => heard.some(({ bytes }) => bytes.equals(frames[190]!)), { timeout: 10_000 }).toBe(true);
      await caller.bye();
      const places = frames.slice(20, 190).map((frame) => heard.findIndex(({ bytes }) => bytes.equals(frame)));
      const found = places.filter((place) => place >= 0);
      expect(found.length).toBeGreaterThan(jitterBufferMs > 0 ? 160 : 169);
      expect([...found].sort((a, b) => a - b)).toEqual(found);
      const together = found.filter((place) => heard[place]!.atMs - heard[place - 1]!.atMs < 5).length;
      const { quality_metrics } = await app.finishedCall(number);
      const uplink = (quality_metrics.audio_delay as Record<string, Record<string, number>>).gateway_uplink!;
      if (jitterBufferMs > 0) {
        expect(together).toBeLessThan(20);
        expect(uplink.p50_ms).toBeGreaterThanOrEqual(20);
      } else {
        expect(together).toBeGreaterThan(100);
        expect(uplink.p50_ms).toBeLessThan(20);
      }
    },
  );
});
