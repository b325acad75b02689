import { afterAll, beforeAll, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { readWav, writeWav } from '../../media/audio/wav.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { Baresip } from '../support/baresip.js';
import { purestTenths } from '../support/tone-probe.js';

let app: TestApp;
beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  await app.api('POST', '/v1/trunks', {
    name: 'Desk',
    direction: 'inbound',
    username: 'desk1',
    password: 'secret-word',
  });
});
afterAll(() => app.end());

const amplitude = 8000;
const frequencyHz = 440;

it.each(['udp', 'tcp'])('a softphone registers, calls in over %s and hears its own voice', async (transport) => {
  const port = app.sip.addresses.find((address) => address.transport === transport)?.port;
  const said = writeWav({ sampleRateHz: 8000, channels: [tone({ frequencyHz, durationMs: 20_000, amplitude })] });
  const phone = await Baresip.start(
    `<sip:desk1@127.0.0.1:${port};transport=${transport}>;auth_pass=secret-word;regint=60;audio_codecs=PCMU`,
    Buffer.from(said),
  );
  try {
    await phone.says('[1 binding]');
    const { data: before } = await app.api<{ data: unknown[] }>('GET', '/v1/calls');
    phone.command('dial', `sip:+15550100@127.0.0.1:${port};transport=${transport}`);
    await phone.next('CALL_ESTABLISHED');
    await expect
      .poll(async () => (await app.api<{ data: { id: string }[] }>('GET', '/v1/calls')).data.length)
      .toBe(before.length + 1);
    await new Promise((resolve) => setTimeout(resolve, 3000)); // the length of the call
    phone.command('hangup');
    await expect.poll(() => app.live.count).toBe(0);
  } finally {
    await phone.stop();
  }
  const { sampleRateHz, channels } = readWav(phone.recording);
  for (const probe of purestTenths(channels[0]!, frequencyHz, sampleRateHz).slice(0, 5)) {
    expect(Math.abs(20 * Math.log10(probe.amplitude / amplitude))).toBeLessThan(0.2); // dB
    expect(probe.purityDb).toBeGreaterThan(25);
  }

  const { data } = await app.api<{ data: { id: string }[] }>('GET', '/v1/calls');
  const record = await app.api<{ status: string; quality_metrics: { mos: number; packet_loss: number } }>(
    'GET',
    `/v1/calls/${data[0]!.id}`,
  );
  expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'caller' });
  expect(record.quality_metrics.mos).toBeGreaterThan(4);
  expect(record.quality_metrics.packet_loss).toBeLessThan(1);
});
