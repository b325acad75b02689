import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { readWav } from '../../media/audio/wav.js';
import { placeCall } from '../../src/simulator/place-call.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { eventually } from '../support/media-engine.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { millisecondsOfTone } from '../support/tone-probe.js';

type RecordedCall = CallRecord & {
  recording_url: string | null;
  turns: { speaker: string; duration_ms: number; response_ms: number | null }[];
};

const number = '+19995557000';
const answerAfterMs = 400;
let app: TestApp;
let agent: ScriptedAgent;
/** What the agent measured itself: from the last loud frame it heard to its own first. */
let waitedMs: number[] = [];

beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
  const words = Buffer.from(tone({ frequencyHz: 1000, durationMs: 600 }).buffer);
  const ulaw = Buffer.from(
    Array.from({ length: words.length / 2 }, (_, i) => linearToUlaw[words.readInt16LE(i * 2) & 0xffff]!),
  );
  let loudAtMs: number | null = null;
  agent = await startScriptedAgent({
    onBinary: (bytes, socket) => {
      const now = performance.now();
      if (bytes.some((byte) => Math.abs(ulawToLinear[byte]!) > 1000)) loudAtMs = now;
      else if (loudAtMs !== null && now - loudAtMs >= answerAfterMs) {
        waitedMs.push(now - loudAtMs);
        loudAtMs = null;
        socket.send(ulaw);
      }
    },
  });
  const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', {
    name: 'answers after a while',
    type: 'agent',
    target: agent.url,
    record: true,
    provider_config: { protocol: 'raw', encoding: 'ulaw' },
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: id });
});

afterAll(async () => {
  await agent.close();
  await app.end();
});

describe('a call of an endpoint that is recorded', () => {
  it('leaves a file with both voices, and turns as the agent took them', async () => {
    waitedMs = [];
    const port = app.sip.addresses.find((each) => each.transport === 'udp')?.port ?? 0;
    const samples = new Int16Array(8 * 3000);
    samples.set(tone({ frequencyHz: 440, durationMs: 800 }), 8 * 500);
    await placeCall({
      to: number,
      durationMs: 3000,
      target: { host: '127.0.0.1', port, transport: 'udp' },
      markers: false,
      speech: { kind: 'samples', samples },
    });
    const { id } = await app.finishedCall(number);
    const read = () => app.api<RecordedCall>('GET', `/v1/calls/${id}`);
    await eventually(async () => (await read()).recording_url !== null, 'the recording');
    const call = await read();
    const types = call.events.map((event) => event.event_type);
    expect(types).toContain('recording.started');
    await eventually(
      async () => (await read()).events.some((event) => event.event_type === 'recording.completed'),
      'the end of the recording',
    );
    // The link needs no key.
    const response = await fetch(call.recording_url!);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'audio/wav']);
    const [left, right] = readWav(new Uint8Array(await response.arrayBuffer())).channels as [Int16Array, Int16Array];
    const said = left.findIndex((sample) => Math.abs(sample) > 2000);
    const answered = right.findIndex((sample) => Math.abs(sample) > 2000);
    expect(millisecondsOfTone(left, 440)).toBeGreaterThan(300);
    expect(millisecondsOfTone(right, 1000)).toBeGreaterThan(200);

    expect(call.turns.map((turn) => turn.speaker)).toEqual(['caller', 'agent']);
    const [caller, reply] = call.turns;
    expect(Math.abs(caller!.duration_ms - 800)).toBeLessThanOrEqual(30);
    expect(Math.abs(reply!.duration_ms - 600)).toBeLessThanOrEqual(30);
    expect(caller!.response_ms).toBeNull();
    // The agent hears the end of a frame 20 ms after it counts; a busy machine adds some more.
    expect(Math.abs(reply!.response_ms! - waitedMs[0]!)).toBeLessThanOrEqual(80);
    expect(types.filter((type) => type === 'turn.completed').length).toBe(2);
    // And the file says the same as the turn.
    const gapMs = (answered - (said + 800 * 8)) / 8;
    expect(Math.abs(gapMs - reply!.response_ms!)).toBeLessThanOrEqual(30);
  });

  it('has silence for what is said while it is paused', async () => {
    const port = app.sip.addresses.find((each) => each.transport === 'udp')?.port ?? 0;
    const talking = placeCall({
      to: number,
      durationMs: 1800,
      target: { host: '127.0.0.1', port, transport: 'udp' },
      markers: false,
      speech: { kind: 'tone', frequencyHz: 440 },
    });
    const latest = () => app.api<{ data: RecordedCall[] }>('GET', '/v1/calls?limit=1');
    const read = (id: string) => app.api<RecordedCall>('GET', `/v1/calls/${id}`);
    const running = async () => (await latest()).data.find(({ status }) => status === 'in_progress');
    await eventually(async () => (await running()) !== undefined, 'the call');
    const { id } = (await running())!;
    const has = async (type: string) => (await read(id)).events.some((event) => event.event_type === type);
    await eventually(() => has('recording.started'), 'the recording to begin');
    await new Promise((resolve) => setTimeout(resolve, 300)); // so much is recorded
    await app.api('POST', `/v1/calls/${id}/recording/pause`);
    await app.api('POST', `/v1/calls/${id}/recording/pause`);
    await new Promise((resolve) => setTimeout(resolve, 700)); // this much is said meanwhile
    await app.api('POST', `/v1/calls/${id}/recording/resume`);
    await talking;
    await eventually(() => has('recording.completed'), 'the recording');
    await app.api('POST', `/v1/calls/${id}/recording/pause`, undefined, 409);
    const call = await read(id);
    expect(call.events.filter(({ event_type }) => /^recording\./.test(event_type)).map((e) => e.event_type)).toEqual([
      'recording.started',
      'recording.paused',
      'recording.resumed',
      'recording.completed',
    ]);
    const response = await fetch(call.recording_url!, { headers: { range: 'bytes=0-' } });
    expect(response.status).toBe(206);
    const [left] = readWav(new Uint8Array(await response.arrayBuffer())).channels as [Int16Array];
    const loud = (sample: number) => Math.abs(sample) > 2000;
    const first = left.findIndex(loud);
    let longest = 0;
    let silent = 0;
    for (const sample of left.subarray(first, left.findLastIndex(loud))) {
      silent = loud(sample) || sample !== 0 ? 0 : silent + 1;
      longest = Math.max(longest, silent);
    }
    expect(longest / 8).toBeGreaterThan(600);
    expect(longest / 8).toBeLessThan(1400);
  });
});
