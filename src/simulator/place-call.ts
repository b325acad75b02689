/** Places one call from a new simulated phone, for tests and scripts. */
import { type CallPlan, type CallTarget, type CapturedCall, openPhone } from './phone/phone.js';

export type PlaceCallOptions = Pick<CallPlan, 'to' | 'durationMs'> & Partial<CallPlan> & { target: CallTarget };

/** A caller id that no carrier assigns. */
const defaultFrom = '+15005550001';

export const planDefaults = {
  from: defaultFrom,
  speech: { kind: 'tone', frequencyHz: 440 },
  markers: true,
  codecs: ['PCMU', 'PCMA'],
  ptimeMs: 20,
  impairments: {},
  ringTimeoutMs: 60_000,
} satisfies Partial<CallPlan>;

/**
 * Places a call, talks for `durationMs`, hangs up and closes everything. An unanswered call is not an error; the report says so.
 * Rejects only when no socket could be bound or the target has no address.
 */
export async function placeCall(
  wish: PlaceCallOptions,
  signal: AbortSignal = new AbortController().signal,
): Promise<CapturedCall> {
  const { target, ...plan } = wish;
  const phone = await openPhone(target);
  try {
    return await phone.call({ ...planDefaults, ...plan }, signal);
  } finally {
    await phone.close();
  }
}
