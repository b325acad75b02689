import { vi } from 'vitest';
import { openPhone } from '../../src/simulator/phone/phone.js';
import type { CallerSound } from '../../src/simulator/phone/voice.js';
import { planDefaults } from '../../src/simulator/place-call.js';
import type { TestApp } from './app.js';

/** A phone that calls a number of the app, and hangs up after `durationMs` unless somebody else is first. */
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
    // The phone stays until the app has closed its side: a BYE that nobody answers any more is repeated for seconds.
    await vi.waitFor(() => {
      if (app.live.count > 0) throw new Error('A call of the app has not ended.');
    }, 15_000);
    return recording;
  } finally {
    await phone.close();
  }
}
