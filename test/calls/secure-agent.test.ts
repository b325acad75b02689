/** An agent behind SIP that takes nothing but TLS and SRTP: baresip. */
import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { writeWav } from '../../media/audio/wav.js';
import { placeCall } from '../../src/simulator/place-call.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { Baresip } from '../support/baresip.js';
import { tlsFile } from '../support/tls.js';
import { purestTenths } from '../support/tone-probe.js';

const amplitude = 8000;
const said = Buffer.from(
  writeWav({ sampleRateHz: 8000, channels: [tone({ frequencyHz: 697, durationMs: 20_000, amplitude })] }),
);
const certificate = path.join(tmpdir(), `baresip-agent-${process.pid}.pem`);
const more = ['module srtp.so', `sip_cafile ${tlsFile('authority.pem')}`, `sip_certificate ${certificate}`];

let app: TestApp;
beforeAll(async () => {
  writeFileSync(certificate, readFileSync(tlsFile('server.pem'), 'utf8') + readFileSync(tlsFile('server.key'), 'utf8'));
  app = await startTestApp({ TRUNKLINE_SIP_TLS_CA: tlsFile('authority.pem') }, { t1: 100, t2: 400, t4: 500 });
});
afterAll(() => app.end());

it('is called with keys, heard in its own level and frequency, and hears every digit', async () => {
  const account = '<sip:agent@127.0.0.1>;regint=0;answermode=auto;audio_codecs=PCMU;mediaenc=srtp-mand';
  const phone = await Baresip.start(account, said, more);
  const number = '+12025550166';
  try {
    await app.connectNumber(number, `sip:agent@127.0.0.1:${phone.sipPort + 1};transport=tls`, { srtp: 'require' });
    const { host, port } = app.sip.addresses[0] as { host: string; port: number };
    const call = placeCall({
      ...{ target: { host, port, transport: 'udp' as const }, to: number, codecs: ['PCMU'], markers: false },
      ...{ durationMs: 3500, digits: '42#', speech: { kind: 'tone', frequencyHz: 1209 } },
    });
    const digits: string[] = [];
    for (let i = 0; i < 3; i++) digits.push((await phone.next('CALL_DTMF_START')).param ?? '');
    expect(digits.join('')).toBe('42#');
    const samples = (await call).samples();
    for (const probe of purestTenths(samples, 697).slice(0, 5)) {
      expect(probe.purityDb).toBeGreaterThan(25);
      expect(Math.abs(20 * Math.log10(probe.amplitude / amplitude))).toBeLessThan(0.2);
    }
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_source: 'caller' });
  } finally {
    await phone.stop();
  }
});
