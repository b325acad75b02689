/**
 * What records cost the thread of calls: `node dist/bench/store.js [calls per second] [seconds] [rounds] [PostgreSQL URL] [--asked FILE]`. Turns
 * of a store that writes nothing, of SQLite and of PostgreSQL follow each other; CPU time comes from the kernel (Linux), so that other programs
 * hardly matter. The figures of a store are those beyond the store that writes nothing, of the same round. `--asked`: calls are written into
 * this file of `bench/api --only-fill`, which is asked for pages, statistics, trends and insights all the time meanwhile.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { dayMs } from '../src/store/calls/call-counts.js';
import { Calls } from '../src/store/calls/calls.js';
import { systemClock } from '../src/store/database/clock.js';
import { silentLog } from '../src/store/database/log.js';
import type { Entry } from '../src/store/journal/entries.js';
import { Store } from '../src/store/store.js';
import { benchKey } from './api/fill.js';
import { entriesOfCall, oneCall } from './store/one-call.js';

const { values, positionals } = parseArgs({ allowPositionals: true, options: { asked: { type: 'string' } } });
const [perSecond = 200, seconds = 10, rounds = 3] = positionals.slice(0, 3).map(Number);
const url = positionals[3];
const tickMs = 10;
const askEveryMs = 50;

interface Turn {
  calls: number;
  threadUs: number;
  processUs: number;
  delayP999Ms: number;
  acknowledgedMs: number[];
  /** How long the store held the thread for what one call writes. */
  heldMs: number[];
}

/** Nanoseconds on a CPU so far: of this thread, and of the process. */
function cpuNs(): { thread: number; all: number } {
  const of = (id: string) => Number(readFileSync(`/proc/self/task/${id}/schedstat`, 'utf8').split(' ')[0]);
  return { thread: of(String(process.pid)), all: readdirSync('/proc/self/task').reduce((sum, id) => sum + of(id), 0) };
}

async function turn(calls: Calls, organizationId: string): Promise<Turn> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const acknowledgedMs: number[] = [];
  const heldMs: number[] = [];
  const before = cpuNs();
  delay.enable();
  const startMs = performance.now();
  let made = 0;
  while (performance.now() - startMs < seconds * 1000) {
    for (const due = ((performance.now() - startMs) * perSecond) / 1000; made < due; made += 1) {
      const begunMs = performance.now();
      const admission = oneCall(calls, organizationId);
      heldMs.push(performance.now() - begunMs);
      admission.then(
        () => acknowledgedMs.push(performance.now() - begunMs),
        () => {},
      );
    }
    await sleep(tickMs);
  }
  await calls.flush();
  const after = cpuNs();
  delay.disable();
  const perCallUs = (ns: number) => ns / made / 1000;
  return {
    calls: made,
    threadUs: perCallUs(after.thread - before.thread),
    processUs: perCallUs(after.all - before.all),
    delayP999Ms: delay.percentile(99.9) / 1e6,
    acknowledgedMs: acknowledgedMs.sort((a, b) => a - b),
    heldMs: heldMs.sort((a, b) => a - b),
  };
}

/** Accepts everything and writes nothing. */
function noStore(): Calls {
  const write = async (_instanceId: string, _number: number, entries: readonly Entry[]) => ({
    admissions: entries.flatMap(({ kind, callId }) =>
      kind === 'begin' ? [[callId, { kind: 'admitted', fundedSec: null, heldMicrocents: 0 }] as [string, never]] : [],
    ),
    ...{ closedElsewhere: [], settled: [], late: [], hasDeliveries: false, dropped: [], isFenced: false },
  });
  return new Calls({ write, clock: systemClock, instanceId: 'bench', log: silentLog });
}

/** Asks, one question after the other, until it is told to stop; resolves with how many it asked. */
function asking(store: Store, organizationId: string): () => Promise<number> {
  const scope = { organizationId, mode: 'live' } as const;
  const lastDay = Math.floor(Date.now() / dayMs);
  const days = { firstDay: lastDay - 364, lastDay };
  const questions = [
    () => store.records.stats(scope, {}),
    () => store.records.trends(scope, days),
    () => store.records.list(scope, {}, { limit: 20, offset: 0 }),
    () => store.records.list(scope, {}, { limit: 20, offset: 1_000_000 }),
    () => store.longReads.ask('insights', scope, days),
  ];
  let isOver = false;
  const asked = (async () => {
    let count = 0;
    for (; !isOver; count += 1) {
      await questions[count % questions.length]?.();
      await sleep(askEveryMs);
    }
    return count;
  })();
  return () => {
    isOver = true;
    return asked;
  };
}

const folder = mkdtempSync(path.join(tmpdir(), 'bench-store-'));
const file = values.asked ?? path.join(folder, 'trunkline.db');
const stores = new Map([['SQLite', await Store.open({ file })]]);
if (url !== undefined) stores.set('PostgreSQL', await Store.open({ url }));
const organizations = new Map<string, string>();
for (const [name, store] of stores) {
  store.startCheckpoints();
  organizations.set(name, (await store.organizations.create({ name: 'B', tier: 'enterprise' })).id);
}
const filled =
  values.asked && (await stores.get('SQLite')?.identities.ofKey(benchKey))?.memberships[0]?.organization.id;
const at = (sorted: readonly number[], share: number) =>
  sorted[Math.floor(share * (sorted.length - 1))]?.toFixed(1) ?? '-';
console.log(`${perSecond} calls/s, ${seconds} s a turn; ${entriesOfCall} entries a call`);
console.log(
  'store       thread µs/call  of the store  process µs/call  loop delay p99.9 ms  ratio  held ms p99.9 / worst  begin on disk p50 / p99 ms',
);
for (let round = 0; round < rounds; round += 1) {
  let none: Turn | null = null;
  for (const name of ['none', ...stores.keys()]) {
    const calls = stores.get(name)?.calls ?? noStore();
    const sqlite = name === 'SQLite' ? stores.get(name) : undefined;
    const stop = sqlite && filled ? asking(sqlite, filled) : null;
    const turned = await turn(calls, organizations.get(name) ?? 'none');
    const asked = await stop?.();
    if (asked !== undefined) console.log(`${asked} questions`);
    none ??= turned;
    const { threadUs, processUs, delayP999Ms, acknowledgedMs, heldMs } = turned;
    console.log(
      name.padEnd(11),
      threadUs.toFixed(0).padStart(14),
      (threadUs - none.threadUs).toFixed(0).padStart(13),
      processUs.toFixed(0).padStart(16),
      delayP999Ms.toFixed(1).padStart(20),
      (delayP999Ms / none.delayP999Ms).toFixed(2).padStart(6),
      `${at(heldMs, 0.999)} / ${at(heldMs, 1)}`.padStart(22),
      `${at(acknowledgedMs, 0.5)} / ${at(acknowledgedMs, 0.99)}`.padStart(27),
    );
    if (name === 'none') await calls.close();
  }
}
for (const store of stores.values()) await store.close();
rmSync(folder, { recursive: true });
