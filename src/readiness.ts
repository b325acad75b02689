/** The state for `GET /readyz`: whether this process can accept new calls. */
import type { Readiness } from './api/routes/operations.js';

export function readiness(parts: {
  sip: { readonly connected: boolean; readonly problems: readonly string[] };
  media: { load(): { threads: readonly { alive: boolean }[] } };
  store: { writable(): boolean };
  isDraining: boolean;
  /** null: none is set up. */
  redis: { readonly answers: boolean } | null;
}): Readiness {
  const checks = {
    sip: parts.sip.connected,
    media: parts.media.load().threads.every(({ alive }) => alive),
    database: parts.store.writable(),
    accepting: !parts.isDraining,
  };
  const degraded =
    parts.redis && !parts.redis.answers
      ? ['Redis does not answer: request limits are counted by this process alone']
      : [];
  return { ready: Object.values(checks).every(Boolean), checks, problems: parts.sip.problems, degraded };
}
