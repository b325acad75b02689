/** Wideband with software of other people's making: baresip with libspandsp's G.722 and libopus, both ways; and the simulator's calls. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { writeWav } from '../../media/audio/wav.js';
import { placeCall } from '../../src/simulator/place-call.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { Baresip } from '../support/baresip.js';
import { heardTone } from '../support/heard-tone.js';
import { RawAgent } from '../support/raw-agent.js';
import { probeTone } from '../support/tone-probe.js';

let app: TestApp;
let agent: RawAgent;
let port = 0;
const amplitude = 8000;
const rates = [16_000, 24_000];
const numberOf = (rate: number) => `+1555010${rate / 1000}`;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  port = app.sip.addresses.find((address) => address.transport === 'udp')?.port ?? 0;
  agent = await RawAgent.open();
  agent.onAudio = (bytes) => agent.say(bytes);
  for (const rate of rates)
    await app.connectNumber(numberOf(rate), agent.url, { protocol: 'raw', encoding: 'l16', sample_rate: rate });
});
afterAll(async () => {
  await agent.close();
  await app.end();
});

/** What the agent heard in its last second but a quarter. */
function heardByAgent(rateHz: number): Int16Array {
  const bytes = Buffer.concat(agent.heard);
  const samples = new Int16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  return samples.subarray(samples.length - rateHz, samples.length - rateHz / 4);
}

const decibels = (found: number) => Math.abs(20 * Math.log10(found / amplitude));

it.each([
  {
    codec: 'G722/16000/1',
    name: 'G722',
    module: 'g722',
    rateHz: 16_000,
    channels: 1,
    agentHz: 16_000,
    frequencyHz: 5000,
  },
  {
    codec: 'opus/48000/2',
    name: 'OPUS',
    module: 'opus',
    rateHz: 48_000,
    channels: 2,
    agentHz: 24_000,
    frequencyHz: 6000,
  },
])('baresip calls in $name and hears its own voice', async (row) => {
  const { codec, name, module, rateHz, channels, agentHz, frequencyHz } = row;
  agent.heard.length = 0;
  const voice = tone({ frequencyHz, durationMs: 10_000, amplitude, sampleRateHz: rateHz });
  const said = writeWav({ sampleRateHz: rateHz, channels: Array.from({ length: channels }, () => voice) });
  const phone = await Baresip.start(`<sip:desk@127.0.0.1:${port}>;regint=0;audio_codecs=${codec}`, Buffer.from(said), [
    `module ${module}.so`,
    'opus_bitrate 64000',
    'opus_inbandfec yes',
  ]);
  const number = numberOf(agentHz);
  try {
    phone.command('dial', `sip:${number}@127.0.0.1:${port}`);
    await phone.next('CALL_ESTABLISHED');
    await new Promise((resolve) => setTimeout(resolve, 3000)); // the length of the call
    phone.command('hangup');
    await expect.poll(() => app.live.count).toBe(0);
  } finally {
    await phone.stop();
  }
  const heard = probeTone(heardByAgent(agentHz), frequencyHz, agentHz);
  expect(decibels(heard.amplitude)).toBeLessThan(1);
  expect(heard.purityDb).toBeGreaterThan(10);
  const back = heardTone(phone.recording, frequencyHz, amplitude);
  expect(Math.abs(back.levelDb)).toBeLessThan(1.5);
  expect(back.purityDb).toBeGreaterThan(10);
  const { quality_metrics } = await app.finishedCall(number);
  expect(quality_metrics).toMatchObject({
    codec: name,
    mos_model: name === 'OPUS' ? 'g107.2-opus' : 'g107.1-g722',
    packet_loss: 0,
  });
  expect(quality_metrics.mos).toBeGreaterThan(4);
});

it.each(['G722', 'OPUS'] as const)('a simulated phone calls in %s, with keys, and changes to PCMU', async (codec) => {
  const number = '+15550100';
  const target = { host: '127.0.0.1', port, transport: 'udp' as const };
  const faults = { reoffer: { codec: 'PCMU' as const, afterMs: 1500 } };
  const wish = { to: number, target, durationMs: 2600, codecs: [codec], digits: '12#', digitsAfterMs: 300, faults };
  const report = (await placeCall(wish)).report();
  expect(report).toMatchObject({ answered: true, reoffered: 200 });
  expect(report.received.codecs).toEqual([codec, 'PCMU']);
  expect(Math.abs((report.heard.frequencyHz ?? 0) - 440)).toBeLessThan(5);
});
