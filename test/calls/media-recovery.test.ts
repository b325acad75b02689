import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { agentTarget, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { syntheticVoice } from '../support/speech.js';

const stopMs = 100;
const seconds = 11;
const stopsAtMs = [2000, 5000, 8000];
const voice = syntheticVoice(seconds);

/** Where in the voice a heard packet comes from: the offset with the greatest likeness; null for silence and unclear packets. */
function positionOf(heard: Int16Array, around: number): number | null {
  let best = 0.9;
  let position: number | null = null;
  let energy = 0;
  for (const sample of heard) energy += sample * sample;
  if (energy / heard.length < 300 ** 2) return null;
  for (let at = Math.max(0, around - 4000); at < Math.min(voice.length - heard.length, around + 400); at++) {
    let product = 0;
    let other = 1;
    for (let i = 0; i < heard.length; i += 2) {
      product += heard[i]! * voice[at + i]!;
      other += voice[at + i]! * voice[at + i]!;
    }
    const likeness = product / Math.sqrt((energy / 2) * other);
    if (likeness > best) {
      best = likeness;
      position = at;
    }
  }
  return position;
}

it('an agent whose process is stopped while it talks: the call is on time again', async () => {
  const agent = spawn(process.execPath, ['test/fixtures/flooding-agent.mjs'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const engine = await startTestEngine();
  const phone = await RtpPhone.open();
  try {
    const [port] = (await once(agent.stdout, 'data')) as [Buffer];
    const session = await engine.open(sessionOptions({ offer: phone.sdp() }));
    phone.dial(session.localSdp);
    const target = agentTarget(`ws://127.0.0.1:${String(port).trim()}/echo`);
    const link = await session.prepareAgent(target, new AbortController().signal);
    session.attach(link);
    link.start();
    const bytes = Uint8Array.from(voice, (sample) => linearToUlaw[sample & 0xffff]!);
    const beganMs = performance.now();
    const talking = phone.talk(seconds * 50, (i) => bytes.subarray(i * 160, i * 160 + 160));
    for (const atMs of stopsAtMs) {
      await sleep(beganMs + atMs - performance.now());
      agent.kill('SIGSTOP');
      await sleep(stopMs);
      agent.kill('SIGCONT');
    }
    await talking;
    /** From the caller's packet to the packet that brings its audio back. */
    const delays = phone.heard.flatMap(({ payload, atMs }) => {
      const sentMs = atMs - beganMs;
      const linear = Int16Array.from(payload, (byte) => ulawToLinear[byte]!);
      const position = positionOf(linear, Math.round(sentMs * 8) - 160);
      return position === null ? [] : [{ atMs: sentMs, delayMs: sentMs - position / 8 - 20 }];
    });
    /** The least of a window: what other work on the machine adds is not counted. */
    const least = (fromMs: number, toMs: number) =>
      Math.min(...delays.filter(({ atMs }) => atMs >= fromMs && atMs < toMs).map(({ delayMs }) => delayMs));
    const moreMs = stopsAtMs.map(
      (atMs) => least(atMs + stopMs + 1000, atMs + stopMs + 2500) - least(atMs - 1000, atMs),
    );
    // Another stop of the machine may come just then: most of them.
    expect(moreMs.sort((a, b) => a - b)[1]).toBeLessThanOrEqual(10);
    const stats = await session.close();
    // The stops did delay the call.
    expect(stats.agent.underruns).toBeGreaterThan(0);
    expect(stats.delay.playout?.worstMs).toBeGreaterThan(40);
    expect(stats.delay.playout?.p50Ms).toBeLessThan(stats.delay.playout?.worstMs ?? 0);
    expect(stats.delay.uplink).not.toBeNull();
    await eventually(() => engine.load().ports.quarantined === 0, 'ports to be free');
    expect(engine.load()).toMatchObject({ sessions: 0, faults: 0 });
  } finally {
    agent.kill('SIGKILL');
    await once(agent, 'exit');
    phone.close();
    await engine.close();
  }
});
