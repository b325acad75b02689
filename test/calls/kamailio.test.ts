import { afterAll, beforeAll, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { writeWav } from '../../media/audio/wav.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { Baresip } from '../support/baresip.js';
import { heardTone } from '../support/heard-tone.js';
import { type Kamailio, startKamailio } from '../support/kamailio.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';

const amplitude = 8000;
const frequencyHz = 550;
const said = Buffer.from(
  writeWav({ sampleRateHz: 8000, channels: [tone({ frequencyHz, durationMs: 20_000, amplitude })] }),
);

let app: TestApp;
let phone: Baresip;
let kamailio: Kamailio;
beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
});
afterAll(() => app.end());

async function withPhone(account: string, run: () => Promise<void>): Promise<void> {
  phone = await Baresip.start(`${account};regint=0;audio_codecs=PCMU;dtmfmode=rtpevent`, said);
  try {
    kamailio = await startKamailio(app.sip.addresses[0]!.port, phone.sipPort);
    try {
      await run();
    } finally {
      await phone.stop();
    }
  } finally {
    await kamailio?.close();
  }
  const heard = heardTone(phone.recording, frequencyHz, amplitude);
  expect(Math.abs(heard.levelDb)).toBeLessThan(0.2);
  expect(heard.purityDb).toBeGreaterThan(25);
}

const talk = () => new Promise((resolve) => setTimeout(resolve, 3000)); // the length of the call
const routes = async (id: string) => {
  const trace = JSON.stringify(await app.api('GET', `/v1/calls/${id}/trace`));
  expect(trace).toContain(`Record-Route: <sip:127.0.0.1:${kamailio.port};lr`);
  return trace;
};

it('in: a proxy stays in the path, its route is kept by our BYE, a tone and keys cross', async () => {
  await withPhone('<sip:phone@127.0.0.1>', async () => {
    phone.command('dial', `sip:+15550100@127.0.0.1:${kamailio.port}`);
    await phone.next('CALL_ESTABLISHED');
    const { data } = await app.api<{ data: { id: string }[] }>('GET', '/v1/calls');
    const id = data[0]!.id;
    await talk();
    phone.command('sndcode', '159#');
    const digits = async () => {
      const { events } = await app.api<{ events: { event_type: string; event_data: { digit?: string } }[] }>(
        'GET',
        `/v1/calls/${id}`,
      );
      return events.flatMap((event) => (event.event_type === 'dtmf.received' ? [event.event_data.digit] : [])).join('');
    };
    await expect.poll(digits, { timeout: 5000 }).toBe('159#');
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await phone.next('CALL_CLOSED');
    expect(await routes(id)).toMatch(new RegExp(`BYE sip:phone[^"]*Route: <sip:127\\.0\\.0\\.1:${kamailio.port};lr`));
  });
});

it('out: a proxy stays in the path, its BYE finds us, a tone and keys cross', async () => {
  const { data } = await app.api<{ data: { id: string; endpoint_id: string }[] }>('GET', '/v1/phone-numbers');
  const echo = { endpointId: data[0]!.endpoint_id, numberId: data[0]!.id };
  await withPhone('<sip:carrier@127.0.0.1>;answermode=auto', async () => {
    const trunk = await addTrunk(app, [`sip:carrier@127.0.0.1:${kamailio.port}`]);
    const id = placeOutbound(app, { to: '+12025550177', ...echo });
    await phone.next('CALL_ESTABLISHED');
    await talk();
    await app.api('POST', `/v1/calls/${id}/dtmf`, { digits: '26*8' });
    const heard: string[] = [];
    for (let i = 0; i < 4; i++) heard.push((await phone.next('CALL_DTMF_START')).param ?? '');
    expect(heard.join('')).toBe('26*8');
    phone.command('hangup');
    expect(await app.finishedCall('+12025550177')).toMatchObject({ status: 'completed', hangup_source: 'callee' });
    await routes(id);
    await app.api('DELETE', `/v1/trunks/${trunk}`);
  });
});
