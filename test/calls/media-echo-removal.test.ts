/** A telephone that returns what it plays, and an agent that does not want to hear that. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { readWav } from '../../media/audio/wav.js';
import type { MediaEngine } from '../../media/engine.js';
import { agentTarget, collectEvents, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RawAgent } from '../support/raw-agent.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { breathyVoice, syntheticVoice } from '../support/speech.js';

const packet = 160;
const delay = 100 * 8;
/** Of the telephone's loudspeaker and its room. */
const response = [0.3, 0.2, -0.15, 0, 0.1, 0, 0, -0.08, 0.05, 0, 0, 0.04];
const agentVoice = breathyVoice(6, 110);
const callerVoice = syntheticVoice(9, 190).subarray(5 * 8000);
const saysAtMs = 3600;
const saysMs = 1500;

let engine: MediaEngine;
let agent: RawAgent;
let phone: RtpPhone;
const folder = mkdtempSync(path.join(tmpdir(), 'echo-'));

beforeEach(async () => {
  engine = await startTestEngine();
  agent = await RawAgent.open();
  phone = await RtpPhone.open();
});

afterEach(async () => {
  phone.close();
  await agent.close();
  await eventually(() => engine.load().ports.quarantined === 0, 'ports to be free');
  expect(engine.load()).toMatchObject({ sessions: 0, ports: { used: 0, quarantined: 0 }, faults: 0 });
  await engine.close();
  rmSync(folder, { recursive: true });
});

const toUlaw = (samples: ArrayLike<number>) =>
  Uint8Array.from(samples, (sample) => linearToUlaw[Math.max(-32_768, Math.min(32_767, Math.round(sample))) & 0xffff]!);

function energy(samples: ArrayLike<number>, fromMs: number, toMs: number): number {
  let sum = 1;
  for (let i = fromMs * 8; i < Math.min(toMs * 8, samples.length); i++) sum += samples[i]! ** 2;
  return sum;
}

it('the agent hears the caller, 20 dB less of its own voice; the recording has what arrived', async () => {
  const session = await engine.open(sessionOptions({ offer: phone.sdp() }));
  phone.dial(session.localSdp);
  const link = await session.prepareAgent(agentTarget(agent.url, { removeEcho: true }), new AbortController().signal);
  const events = collectEvents(session);
  session.attach(link);
  link.start();
  await eventually(() => agent.texts.length > 0, 'the start');
  const file = path.join(folder, 'call.wav');
  const recording = session.record({ path: file, tracks: 'phone' });
  agent.say(toUlaw(agentVoice));
  await phone.until(() => phone.heard.length > 0, 'a packet');
  const first = phone.heard[0]!;
  /** What the telephone played, from its first packet on. */
  const played = new Float64Array(10 * 8000);
  let known = 0;
  const begunMs = performance.now();
  const before = Math.round((begunMs - first.atMs) * 8);
  const said = new Float64Array(6400 * 8);
  await phone.talk(320, (index) => {
    for (; known < phone.heard.length; known++) {
      const { timestamp, payload } = phone.heard[known]!;
      const at = (timestamp - first.timestamp) | 0;
      for (let i = 0; i < payload.length; i++) played[at + i] = ulawToLinear[payload[i]!]!;
    }
    for (let i = index * packet; i < (index + 1) * packet; i++) {
      let sample = 8 * Math.sin(i * i);
      for (const [tap, gain] of response.entries()) sample += gain * (played[i + before - delay - tap * 5] ?? 0);
      const word = i - saysAtMs * 8;
      if (word >= 0 && word < saysMs * 8) sample += callerVoice[word]!;
      said[i] = sample;
    }
    return toUlaw(said.subarray(index * packet, (index + 1) * packet));
  });
  await eventually(() => agent.heard.length >= 318, 'all that was said');
  const heard = Float64Array.from(Buffer.concat(agent.heard), (byte) => ulawToLinear[byte]!);
  const { echo } = await session.stats();
  // Beside the telephone's 100 ms, what the clock of this process makes of it on a busy machine.
  expect(echo!.delayMs).toBeGreaterThan(0);
  expect(echo!.removedDb).toBeGreaterThan(15);
  const removedDb = (fromMs: number, toMs: number) =>
    10 * Math.log10(energy(said, fromMs, toMs) / energy(heard, fromMs, toMs));
  expect(removedDb(2200, saysAtMs - 100)).toBeGreaterThan(20);
  // The caller's own words, and nothing else.
  let same = 0;
  for (let i = 0; i < saysMs * 8; i++) same += callerVoice[i]! * heard[saysAtMs * 8 + i]!;
  const own = energy(callerVoice, 0, saysMs);
  expect(Math.abs(20 * Math.log10(same / own))).toBeLessThan(1.5);
  recording.stop();
  await recording.ended;
  const wav = readWav(readFileSync(file));
  expect(10 * Math.log10(energy(wav.channels[0]!, 1000, saysAtMs) / energy(said, 1000, saysAtMs))).toBeGreaterThan(-3);
  const turns = events.filter((event) => event.type === 'turn' && event.speaker === 'caller');
  await session.close();
  expect(turns.length).toBeLessThanOrEqual(1);
}, 20_000);
