import { vi } from 'vitest';
import { openPhone } from '../../src/simulator/phone/phone.js';
import type { CallerSound } from '../../src/simulator/phone/voice.js';
import { planDefaults } from '../../src/simulator/place-call.js';
import type { TestApp } from './app.js';

/** A phone that calls a number of the app, and hangs up after `durationMs` unless the far side hangs up first. */
export async function phoneCalls(
  app: TestApp,
  to: string,
  options: {
    durationMs?: number;
    digits?: string;
    digitsAfterMs?: number;
    speech?: CallerSound;
    signal?: AbortSignal;
  } = {},
) {
  const { host, port } = app.sip.addresses[0] as { host: string; port: number };
  const { signal = new AbortController().signal, ...plan } = options;
  const phone = await openPhone({ host, port, transport: 'udp' });
  try {
    const recording = await phone.call({ ...planDefaults, to, durationMs: 8000, markers: false, ...plan }, signal);
    // The phone stays until the app has closed its side: a BYE without an answer is repeated for seconds.
    await vi.waitFor(async () => {
      const { data } = await app.api<{ data: { to_number: string }[] }>(
        'GET',
        '/v1/calls?status=in_progress&limit=100',
      );
      if (data.some((call) => call.to_number === to)) throw new Error(`The call to ${to} has not ended.`);
    }, 15_000);
    return recording;
  } finally {
    await phone.close();
  }
}
