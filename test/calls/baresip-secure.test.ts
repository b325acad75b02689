import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { writeWav } from '../../media/audio/wav.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { Baresip } from '../support/baresip.js';
import { heardTone } from '../support/heard-tone.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { authority, tlsFile } from '../support/tls.js';

const amplitude = 8000;
const frequencyHz = 697;
const said = Buffer.from(
  writeWav({ sampleRateHz: 8000, channels: [tone({ frequencyHz, durationMs: 20_000, amplitude })] }),
);
/** Certificate and key in one file, as baresip wants them. */
const certificate = path.join(tmpdir(), `baresip-${process.pid}.pem`);
const more = ['module srtp.so', `sip_cafile ${tlsFile('authority.pem')}`, `sip_certificate ${certificate}`];

let app: TestApp;
let tlsPort: number;
let echo: { endpointId: string; numberId: string };
beforeAll(async () => {
  writeFileSync(certificate, readFileSync(tlsFile('server.pem'), 'utf8') + readFileSync(tlsFile('server.key'), 'utf8'));
  const secure = {
    TRUNKLINE_SIP_TLS_PORT: '0',
    TRUNKLINE_SIP_TLS_CERTIFICATE: tlsFile('server.pem'),
    TRUNKLINE_SIP_TLS_KEY: tlsFile('server.key'),
  };
  app = await startTestApp(secure, { t1: 100, t2: 400, t4: 500 });
  tlsPort = app.sip.addresses.find((address) => address.transport === 'tls')!.port;
  const { data } = await app.api<{ data: { id: string; endpoint_id: string }[] }>('GET', '/v1/phone-numbers');
  echo = { endpointId: data[0]!.endpoint_id, numberId: data[0]!.id };
  const desk = { direction: 'inbound', username: 'desk1', password: 'secret-word', srtp: 'require' };
  await app.api('POST', '/v1/trunks', { name: 'Desk', ...desk });
});
afterAll(() => app.end());

const lastCall = async () => {
  const { data } = await app.api<{ data: { id: string }[] }>('GET', '/v1/calls');
  return app.api<Record<string, unknown>>('GET', `/v1/calls/${data[0]?.id}`);
};
const digitsOfLastCall = async () => {
  const { events } = (await lastCall()) as { events: { event_type: string; event_data: { digit?: string } }[] };
  return events.flatMap((event) => (event.event_type === 'dtmf.received' ? [event.event_data.digit] : [])).join('');
};
/** The trace as it is kept: what went over the wire but for the keys. */
const traceOf = async (id: unknown) => JSON.stringify(await app.api('GET', `/v1/calls/${id}/trace`));
const talk = () => new Promise((resolve) => setTimeout(resolve, 3000)); // the length of the call

function expectTone(phone: Baresip): void {
  const heard = heardTone(phone.recording, frequencyHz, amplitude);
  expect(Math.abs(heard.levelDb)).toBeLessThan(0.2);
  expect(heard.purityDb).toBeGreaterThan(25);
}

describe('baresip over TLS', () => {
  it('registers, calls in with SRTP, and hears its own voice', async () => {
    const phone = await Baresip.start(
      `<sip:desk1@127.0.0.1:${tlsPort};transport=tls>;auth_pass=secret-word;regint=60;audio_codecs=PCMU;mediaenc=srtp-mand`,
      said,
      more,
    );
    try {
      await phone.says('[1 binding]');
      phone.command('dial', `sip:+15550100@127.0.0.1:${tlsPort};transport=tls`);
      await phone.next('CALL_ESTABLISHED');
      await talk();
      phone.command('sndcode', '71*');
      await expect.poll(digitsOfLastCall, { timeout: 5000 }).toBe('71*');
      phone.command('hangup');
      await expect.poll(() => app.live.count).toBe(0);
    } finally {
      await phone.stop();
    }
    expectTone(phone);
    const record = await lastCall();
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    const trace = await traceOf(record.id);
    expect(trace).toContain('RTP/SAVP 0');
    expect(trace).toContain('AES_CM_128_HMAC_SHA1_80 inline:(blanked)');
    expect(trace).toContain('SIP/2.0/TLS');
  });

  it.each([
    ['srtp-mand', 'require', '+12025550123'],
    ['srtp', 'allow', '+12025550125'],
  ])('is called as a carrier with %s where we %s it, and hears its own voice', async (mediaEncryption, srtp, to) => {
    const account = `<sip:carrier@127.0.0.1>;regint=0;answermode=auto;audio_codecs=PCMU;mediaenc=${mediaEncryption}`;
    const phone = await Baresip.start(account, said, more);
    const gateway = `sip:carrier@127.0.0.1:${phone.sipPort + 1}`;
    const trunk = await addTrunk(app, [gateway], {
      transport: 'tls',
      srtp,
      tls: { ca: authority },
    });
    const id = placeOutbound(app, { to, ...echo });
    try {
      await phone.next('CALL_ESTABLISHED');
      await talk();
      await app.api('POST', `/v1/calls/${id}/hangup`);
      await phone.next('CALL_CLOSED');
    } finally {
      await phone.stop();
      await app.api('DELETE', `/v1/trunks/${trunk}`);
    }
    expectTone(phone);
    expect(await app.finishedCall(to)).toMatchObject({ status: 'completed', hangup_source: 'api' });
    expect(await traceOf(id)).toContain('inline:(blanked)');
  });
});

it('a phone without encryption is refused where it is required: 488, and the record says why', async () => {
  const phone = await Baresip.start(
    `<sip:desk1@127.0.0.1:${tlsPort};transport=tls>;auth_pass=secret-word;regint=60;audio_codecs=PCMU`,
    said,
    more,
  );
  try {
    await phone.says('[1 binding]');
    phone.command('dial', `sip:+15550100@127.0.0.1:${tlsPort};transport=tls`);
    expect((await phone.next('CALL_CLOSED')).param).toContain('488');
  } finally {
    await phone.stop();
  }
  await expect.poll(() => app.live.count).toBe(0);
  const record = await lastCall();
  expect(record).toMatchObject({ status: 'failed', hangup_cause: 'incompatible_media' });
  expect(JSON.stringify(record.events)).toContain('offers no encryption, which is required here');
});

it('a carrier whose certificate nobody vouches for is not called: the record says why', async () => {
  const phone = await Baresip.start('<sip:carrier@127.0.0.1>;regint=0;answermode=auto', said, more);
  const trunk = await addTrunk(app, [`sip:carrier@127.0.0.1:${phone.sipPort + 1}`], { transport: 'tls' });
  placeOutbound(app, { to: '+12025550124', ...echo });
  const record = await app.finishedCall('+12025550124');
  await phone.stop();
  await app.api('DELETE', `/v1/trunks/${trunk}`);
  expect(record).toMatchObject({ status: 'failed', hangup_cause: 'carrier_unreachable' });
  expect(JSON.stringify(record.events)).toContain('comes from an authority that is not trusted');
});
