/**
 * What records cost the thread of calls: `node dist/bench/store.js [calls per second] [seconds]`. Turns of a store that writes nothing and of
 * the real one follow each other; CPU time comes from the kernel (Linux), so that other programs hardly matter.
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

const [perSecond = 200, seconds = 10] = process.argv.slice(2).map(Number);
const tickMs = 10;
const question = { concurrentCalls: null, rate: null };

interface Turn {
  calls: number;
  threadUs: number;
  processUs: number;
  delayP999Ms: number;
  acknowledgedMs: number[];
}

/** Nanoseconds on a CPU so far: of this thread, and of the process. */
function cpuNs(): { thread: number; all: number } {
  const of = (id: string) => Number(readFileSync(`/proc/self/task/${id}/schedstat`, 'utf8').split(' ')[0]);
  return { thread: of(String(process.pid)), all: readdirSync('/proc/self/task').reduce((sum, id) => sum + of(id), 0) };
}

/** One call as the gateway writes it: ten entries. */
function oneCall(calls: Calls, organizationId: string): Promise<unknown> {
  const about = { mode: 'live', direction: 'inbound', fromNumber: '+15550001', toNumber: '+15550002' } as const;
  const { id, admission } = calls.beginAdmitted(
    { organizationId, ...about, phoneNumberId: 'n', endpointId: null },
    question,
  );
  calls.event(id, 'call.routed', { endpoint_id: null, rules: [] });
  calls.event(id, 'call.ringing');
  calls.pickedUp(id, new Date());
  calls.answered(id, { latencyMs: 40 });
  calls.event(id, 'media.started');
  calls.event(id, 'turn.completed', { speaker: 'agent', duration_ms: 900, response_ms: 600 });
  calls.event(id, 'agent.disconnected');
  const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
  calls.finish(id, { ...end, quality: { mos: 4.3 }, timings: { setupMs: 40 } });
  return admission;
}

async function turn(calls: Calls, organizationId: string): Promise<Turn> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const acknowledgedMs: number[] = [];
  const before = cpuNs();
  delay.enable();
  const startMs = performance.now();
  let made = 0;
  while (performance.now() - startMs < seconds * 1000) {
    for (const due = ((performance.now() - startMs) * perSecond) / 1000; made < due; made += 1) {
      const begunMs = performance.now();
      oneCall(calls, organizationId).then(
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
const store = await Store.open({ file: path.join(folder, 'trunkline.db') });
store.startCheckpoints();
const { id: organizationId } = await store.organizations.create({ name: 'B', tier: 'enterprise' });
console.log(`${perSecond} calls/s, ${seconds} s a turn; ten entries a call`);
console.log('store    thread µs/call  process µs/call  loop delay p99.9 ms  begin on disk p50 / p99 ms');
for (let round = 0; round < 3; round += 1)
  for (const [name, calls] of [
    ['none', noStore()],
    ['SQLite', store.calls],
  ] as const) {
    const { threadUs, processUs, delayP999Ms, acknowledgedMs } = await turn(calls, organizationId);
    const at = (share: number) => acknowledgedMs[Math.floor(share * (acknowledgedMs.length - 1))]?.toFixed(1) ?? '-';
    console.log(
      name.padEnd(8),
      threadUs.toFixed(0).padStart(14),
      processUs.toFixed(0).padStart(16),
      delayP999Ms.toFixed(1).padStart(20),
      `${at(0.5)} / ${at(0.99)}`.padStart(27),
    );
    if (name === 'none') await calls.close();
  }
await store.close();
rmSync(folder, { recursive: true });
