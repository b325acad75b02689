import { afterEach, beforeEach, expect, it } from 'vitest';
import { type EchoAgent, startEchoAgent } from '../../examples/echo-agent/index.js';
import { alawToLinear, linearToAlaw, linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import type { MediaEngine } from '../../media/engine.js';
import { agentTarget, collectEvents, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { purestTenths } from '../support/tone-probe.js';

let engine: MediaEngine;
let echo: EchoAgent;
let phone: RtpPhone;

beforeEach(async () => {
  engine = await startTestEngine();
  echo = await startEchoAgent({ port: 0 });
  phone = await RtpPhone.open();
});

afterEach(async () => {
  phone.close();
  await eventually(() => echo.connections() === 0, 'agent connections to close');
  await eventually(() => engine.load().ports.quarantined === 0, 'ports to be free');
  expect(engine.load()).toMatchObject({ sessions: 0, ports: { used: 0, quarantined: 0 }, faults: 0 });
  await engine.close();
  await echo.close();
});

async function connect(
  codecs: string,
  agent: { protocol: string; url: string; config: { encoding: string; sample_rate?: number } },
) {
  const session = await engine.open(sessionOptions({ offer: phone.sdp({ codecs }) }));
  phone.dial(session.localSdp);
  const link = await session.prepareAgent(
    agentTarget(agent.url, { protocol: agent.protocol, config: agent.config }),
    new AbortController().signal,
  );
  session.attach(link);
  link.start();
  return { session, link };
}

const wires = [
  ['0', 'raw', { encoding: 'ulaw' }],
  ['8', 'raw', { encoding: 'ulaw' }],
  ['0', 'raw', { encoding: 'l16', sample_rate: 8000 }],
  ['8', 'raw', { encoding: 'l16', sample_rate: 16000 }],
  ['0', 'raw', { encoding: 'l16', sample_rate: 24000 }],
  ['0', 'twilio', {}],
] as const;

it.each(wires)(
  'payload type %s through a %s agent with %o: the tone comes back as loud and as pure',
  async (codec, protocol, config) => {
    const { session } = await connect(codec, { protocol, url: echo.urls[protocol], config: config as never });
    const alaw = codec === '8';
    const table = alaw ? linearToAlaw : linearToUlaw;
    const bytes = Uint8Array.from(tone({ frequencyHz: 440, durationMs: 2000 }), (sample) => table[sample & 0xffff]!);
    const events = collectEvents(session);
    await phone.talk(100, (i) => bytes.subarray(i * 160, i * 160 + 160), Number(codec));
    await eventually(() => events.some((event) => event.type === 'agentAudio'), 'agent audio');
    const linear = alaw ? alawToLinear : ulawToLinear;
    const samples = Int16Array.from(phone.heard.flatMap(({ payload }) => Array.from(payload, (byte) => linear[byte]!)));
    // A busy machine may leave holes: half a second of it is asked for.
    for (const { amplitude, purityDb } of purestTenths(samples, 440).slice(0, 5)) {
      expect(amplitude).toBeGreaterThan(7600);
      expect(amplitude).toBeLessThan(8400);
      expect(purityDb).toBeGreaterThan(25);
    }
    expect(new Set(phone.heard.map((packet) => packet.payloadType))).toEqual(new Set([Number(codec)]));
    const stats = await session.close();
    expect(stats.received.packets).toBe(100);
    expect(stats.received.lossPercent).toBe(0);
    expect(stats.agent.framesSent).toBeGreaterThanOrEqual(99);
  },
);
