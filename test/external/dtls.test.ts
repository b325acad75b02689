/**
 * A phone with DTLS-SRTP (RFC 5763, 5764) through FreeSWITCH: a real one, since the embedded engine has no DTLS. It offers the address of a
 * network interface, and FreeSWITCH accepts its packets from that address only: so FreeSWITCH must run at this address too, not at loopback.
 */
import { expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { writeWav } from '../../media/audio/wav.js';
import { startTestApp } from '../support/app.js';
import { Baresip } from '../support/baresip.js';
import { freeSwitchServers, freeSwitchSetting, sayWhatIsSkipped } from '../support/external-servers.js';
import { heardTone } from '../support/heard-tone.js';

sayWhatIsSkipped();

const [amplitude, frequencyHz] = [8000, 697];
const said = Buffer.from(
  writeWav({ sampleRateHz: 8000, channels: [tone({ frequencyHz, durationMs: 20_000, amplitude })] }),
);
const host = freeSwitchServers?.[0]?.host ?? '127.0.0.1';
const isLoopback = host.startsWith('127.');
if (isLoopback) console.info('skipped: DTLS-SRTP (no FreeSWITCH at the address of a network interface)');
const talk = () => new Promise((resolve) => setTimeout(resolve, 5000)); // the length of the call

it.skipIf(isLoopback)('a phone with DTLS-SRTP calls, and hears its own voice', async () => {
  const app = await startTestApp({ TRUNKLINE_MEDIA_ENGINE: freeSwitchSetting, TRUNKLINE_SIP_HOST: host });
  try {
    await app.api('POST', '/v1/trunks', {
      name: 'the phone',
      direction: 'inbound',
      addresses: [`${host}/32`, '127.0.0.0/8'],
    });
    const phone = await Baresip.start('<sip:phone@127.0.0.1>;regint=0;audio_codecs=PCMU;mediaenc=dtls_srtp', said, [
      'module srtp.so',
      'module dtls_srtp.so',
    ]);
    try {
      const { port } = app.sip.addresses.find(({ transport }) => transport === 'udp')!;
      phone.command('dial', `sip:+15550100@${host}:${port}`);
      await phone.next('CALL_ESTABLISHED');
      await talk();
      phone.command('hangup');
      await expect.poll(() => app.live.count).toBe(0);
    } finally {
      await phone.stop();
    }
    const heard = heardTone(phone.recording, frequencyHz, amplitude);
    expect(Math.abs(heard.levelDb)).toBeLessThan(0.2);
    expect(heard.purityDb).toBeGreaterThan(25);
    const record = await app.finishedCall('+15550100');
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    const trace = JSON.stringify(await app.api('GET', `/v1/calls/${record.id}/trace`));
    expect(trace).toMatch(/UDP\/TLS\/RTP\/SAVPF? 0/);
    expect(trace).toContain('a=fingerprint:');
  } finally {
    await app.stop(0);
  }
});
