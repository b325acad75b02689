/** After every scenario nothing of a call may be left: no record, session, RTP port, dialog, and in the end no SIP transaction or timer. */
import { setTimeout as sleep } from 'node:timers/promises';

/** What is looked at; `App` of `src/main.ts` has it. */
export interface Leavings {
  sip: {
    counters(): { activeLegs: number };
    serverStats(): Promise<{ live: { transactions: number; dialogs: number; timers: number; tcpConnections: number } }>;
  };
  media: { load(): { sessions: number; ports: { used: number; quarantined: number } } };
  live: { readonly count: number };
  store: {
    records: {
      stats(scope: { organizationId: string; mode: 'live' | 'test' }, filter: object): Promise<{ in_progress: number }>;
    };
  };
  first: { organizationId: string } | null;
}

export interface LeftoverLimits {
  /** For everything but transactions. */
  limitMs?: number;
  /**
   * Answered transactions live on for 64 times T1 (RFC 3261 17.2.2: 32 s over UDP), to absorb retransmissions; tests shorten that by
   * `lingerMs`. They, their timers and TCP connections are asserted only when this says how long that is here.
   */
  transactionsLimitMs?: number;
}

/** Resolves when nothing is left; rejects with the list of what is, after the limit. */
export async function expectNothingLeft(app: Leavings, limits: LeftoverLimits = {}): Promise<void> {
  await waitUntilEmpty(() => ofCalls(app), limits.limitMs ?? 5000);
  if (limits.transactionsLimitMs !== undefined) await waitUntilEmpty(() => ofSip(app), limits.transactionsLimitMs);
}

async function waitUntilEmpty(look: () => Promise<Record<string, number>>, limitMs: number): Promise<void> {
  const endMs = performance.now() + limitMs;
  for (;;) {
    const left = Object.entries(await look()).filter(([, amount]) => amount !== 0);
    if (left.length === 0) return;
    if (performance.now() > endMs) {
      throw new Error(`Left over after ${limitMs} ms: ${left.map(([what, amount]) => `${amount} ${what}`).join(', ')}`);
    }
    await sleep(20);
  }
}

async function ofCalls({ sip, media, live, store, first }: Leavings): Promise<Record<string, number>> {
  const { sessions, ports } = media.load();
  let running = 0;
  for (const mode of first ? (['live', 'test'] as const) : [])
    running += (await store.records.stats({ organizationId: first?.organizationId ?? '', mode }, {})).in_progress;
  return {
    'calls in the live table': live.count,
    'calls in_progress in the database': running,
    'media sessions': sessions,
    'RTP ports in use': ports.used,
    'RTP ports in quarantine': ports.quarantined,
    'SIP legs': sip.counters().activeLegs,
    'SIP dialogs': (await sip.serverStats()).live.dialogs,
  };
}

async function ofSip({ sip }: Leavings): Promise<Record<string, number>> {
  const { transactions, timers, tcpConnections } = (await sip.serverStats()).live;
  return { 'SIP transactions': transactions, 'SIP timers': timers, 'TCP connections': tcpConnections };
}
