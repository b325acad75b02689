/** Two whole gateways on one PostgreSQL database and one Redis: a phone behind the TLS connection of one is called through the other. */
import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { writeWav } from '../../media/audio/wav.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { Baresip } from '../support/baresip.js';
import { heardTone } from '../support/heard-tone.js';
import { databaseOf } from '../support/open-store.js';
import { addTrunk } from '../support/outbound.js';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import { server as certificate, tlsFile } from '../support/tls.js';

const pem = path.join(tmpdir(), `phones-${process.pid}.pem`);
const frequencyHz = 697;
const amplitude = 8000;
const said = Buffer.from(
  writeWav({ sampleRateHz: 8000, channels: [tone({ frequencyHz, durationMs: 20_000, amplitude })] }),
);
let redis: RedisServer;
let one: TestApp;
let two: TestApp;

beforeAll(async () => {
  writeFileSync(pem, certificate.certificate + certificate.key);
  redis = await startRedis();
  const common = {
    TRUNKLINE_DATABASE_URL: await databaseOf(randomBytes(8).toString('hex')),
    TRUNKLINE_REDIS_URL: redis.url,
    TRUNKLINE_LOCAL_NETS: '10.0.0.0/8', // loopback is outside
    TRUNKLINE_DIGEST_ALGORITHMS: 'MD5', // for baresip 1.0
  };
  const secure = {
    TRUNKLINE_SIP_TLS_PORT: '0',
    TRUNKLINE_SIP_TLS_CERTIFICATE: tlsFile('server.pem'),
    TRUNKLINE_SIP_TLS_KEY: tlsFile('server.key'),
  };
  const timersMs = { t1: 100, t2: 400, t4: 500 };
  one = await startTestApp({ ...common, ...secure, TRUNKLINE_NODE_NAME: 'one' }, timersMs);
  two = await startTestApp({ ...common, TRUNKLINE_NODE_NAME: 'two' }, timersMs);
});
afterAll(async () => {
  await two.end();
  await one.end();
  await redis.stop();
  rmSync(pem);
});

it('hears its own voice from the agent at the other node, with SRTP, and hangs up', async () => {
  const { data } = await one.api<{ data: { number: string; endpoint_id: string }[] }>('GET', '/v1/phone-numbers');
  const { number: from, endpoint_id: echo } = data[0] ?? { number: '', endpoint_id: '' };
  const desk = { direction: 'inbound', username: 'desk1', password: 'secret-word' };
  await one.api('POST', '/v1/trunks', { name: 'Desk', ...desk });
  await addTrunk(one, ['sip:desk1'], { srtp: 'require' });
  const { port } = one.sip.addresses.find(({ transport }) => transport === 'tls') ?? { port: 0 };
  const account = `<sip:desk1@127.0.0.1:${port};transport=tls>;auth_pass=secret-word;regint=60;answermode=auto;audio_codecs=PCMU;mediaenc=srtp-mand`;
  const more = ['module srtp.so', `sip_cafile ${tlsFile('authority.pem')}`, `sip_certificate ${pem}`];
  const phone = await Baresip.start(account, said, more);
  const to = '+12025550123';
  try {
    await phone.says('[1 binding]');
    const metrics = async (app: TestApp) => (await fetch(`${app.httpUrl}/metrics`)).text();
    expect(await metrics(one)).toContain('trunkline_sip_registrations 1\n');
    expect(await metrics(two)).toContain('trunkline_sip_registrations 0\n');
    await two.api('POST', '/v1/outbound-calls', { to_number: to, from_number: from, endpoint_id: echo }, 201);
    await phone.next('CALL_ESTABLISHED');
    await new Promise((resolve) => setTimeout(resolve, 3000)); // the length of the call
    expect([one.live.count, two.live.count]).toEqual([0, 1]);
    phone.command('hangup');
    await expect.poll(() => two.live.count).toBe(0);
  } finally {
    await phone.stop();
  }
  const heard = heardTone(phone.recording, frequencyHz, amplitude);
  expect(Math.abs(heard.levelDb)).toBeLessThan(0.2);
  expect(heard.purityDb).toBeGreaterThan(25);
  const call = await two.finishedCall(to);
  expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
  const trace = JSON.stringify(await two.api('GET', `/v1/calls/${call.id}/trace`));
  expect(trace).toContain('RTP/SAVP 0');
  expect(trace).toContain('Record-Route: <sip:');
});
