/**
 * What records cost the thread of calls: `node dist/bench/store.js [calls per second] [seconds] [rounds] [PostgreSQL URL]`. Turns
 * of a store that writes nothing, of SQLite and of PostgreSQL follow each other; CPU time comes from the kernel (Linux), so that other programs
 * hardly matter. The figures of a store are those beyond the store that writes nothing, of the same round.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Calls } from '../src/store/calls/calls.js';
import { systemClock } from '../src/store/database/clock.js';
import { silentLog } from '../src/store/database/log.js';
import type { Entry } from '../src/store/journal/entries.js';
import { Store } from '../src/store/store.js';
import { entriesOfCall, oneCall } from './store/one-call.js';

const [perSecond = 200, seconds = 10, rounds = 3] = process.argv.slice(2, 5).map(Number);
const url = process.argv[5];
const tickMs = 10;

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

const folder = mkdtempSync(path.join(tmpdir(), 'bench-store-'));
const stores = new Map([['SQLite', await Store.open({ file: path.join(folder, 'trunkline.db') })]]);
if (url !== undefined) stores.set('PostgreSQL', await Store.open({ url }));
const organizations = new Map<string, string>();
for (const [name, store] of stores) {
  store.startCheckpoints();
  organizations.set(name, (await store.organizations.create({ name: 'B', tier: 'enterprise' })).id);
}
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
    const turned = await turn(calls, organizations.get(name) ?? 'none');
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
