/** The state for `GET /readyz`: whether this process can accept new calls. */
import type { Readiness } from './api/routes/operations.js';

export async function readiness(parts: {
  sip: { readonly connected: boolean; readonly problems: readonly string[] };
  media: {
    load(): {
      threads: readonly { alive: boolean }[];
      /** The FreeSWITCH servers; absent with the embedded engine. */
      servers?: readonly { name: string; connected: boolean; drained: boolean; problem: string | null }[];
    };
  };
  store: { writable(): Promise<boolean>; readonly problem: string | null };
  isDraining: boolean;
  /** null: none is set up. */
  redis: { readonly answers: boolean } | null;
  admissions: { readonly isDegraded: boolean };
}): Promise<Readiness> {
  const { threads, servers } = parts.media.load();
  const checks = {
    sip: parts.sip.connected,
    media:
      threads.every(({ alive }) => alive) &&
      (servers === undefined || servers.some(({ connected, drained }) => connected && !drained)),
    database: await parts.store.writable(),
    accepting: !parts.isDraining,
  };
  const degraded: string[] = [];
  if (parts.redis && !parts.redis.answers)
    degraded.push('Redis does not answer: this node counts limits alone and knows its own phones only');
  if (parts.admissions.isDegraded) degraded.push('The database is slow: calls go on before their record is on disk');
  const problems = [
    ...parts.sip.problems,
    ...(parts.store.problem === null ? [] : [parts.store.problem]),
    ...(servers ?? []).flatMap(({ name, problem, drained }) =>
      problem !== null ? [problem] : drained ? [`FreeSWITCH at ${name} is paused by its operator.`] : [],
    ),
  ];
  return { ready: Object.values(checks).every(Boolean), checks, problems, degraded };
}
