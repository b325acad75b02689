import { placeCall } from '../../src/simulator/place-call.js';
import type { TestApp } from './app.js';

/** A phone that calls a number of the app, and hangs up after `durationMs` unless somebody else is first. */
export function phoneCalls(
  app: TestApp,
  to: string,
  options: { durationMs?: number; digits?: string; digitsAfterMs?: number; signal?: AbortSignal } = {},
) {
  const { host, port } = app.sip.addresses[0] as { host: string; port: number };
  const { signal, ...plan } = options;
  return placeCall({ target: { host, port, transport: 'udp' }, to, durationMs: 8000, markers: false, ...plan }, signal);
}
