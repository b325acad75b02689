/**
 * Calls that come and go for an hour: whether memory and descriptors stay what they were, every call ends, and no audio is late. Run:
 * `npm run build && node dist/bench/soak.js --help`
 *
 * Short calls to raw and Twilio agents, over ws and wss, one in five recorded, and one in five in a conference of four callers. The verdict
 * compares the second quarter of the time with the last one, the descriptors half a minute after the last call (closed ports are kept that
 * long) with those before the first, and the objects that are then in the heaps of all threads with those of a gateway that had half a minute
 * of the same calls.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Stall } from './load/agent.js';
import type { Churned } from './load/caller.js';
import { openConferenceHost } from './load/conference-host.js';
import { figuresOf, type ProcessFigures } from './load/figures.js';
import { type HeapCounts, heapCounts, more } from './load/heap.js';
import { cases, Rig } from './load/rig.js';
import { markdown, spreadText } from './load/table.js';

const help = `node dist/bench/soak.js [options]
  --minutes <n>      how long (60)
  --rate <n>         calls a second (10)
  --talk <ms>        time of each call (3000)`;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string', default: '10' },
    talk: { type: 'string', default: '3000' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(help);
  process.exit();
}
const seconds = Number(values.minutes) * 60;
const rows = 12;
const everyMs = 2000;
/** Ports of ended calls stay open for 30 s. */
const quarantineMs = 33_000;
/** Long enough for V8 to compile what the calls need, and for caches to fill. */
const warmUpSec = 30;
/** Growth is a leak when it exceeds both this per thousand calls and the usual swing of a heap. */
const mostMbPerThousand = 1;
const swingMb = 24;
/** Objects of one class that stay: a leak when they are more than this share of the calls. */
const mostObjectsPerCall = 0.1;
const shownClasses = 12;
const mostGapsTold = 5000;
const mostGapsShown = 50;
/** A late answer of the agent is heard this much later at most. */
const nearMs = 40;
const chosen = ['raw ws μ-law', 'raw ws μ-law recorded', 'twilio ws', 'raw wss μ-law'];

const load = { callsPerSecond: Number(values.rate), talkMs: Number(values.talk) };
const heapFolder = mkdtempSync(path.join(tmpdir(), 'trunkline-heap-'));
const conferences = await openConferenceHost();
const heapBefore = await heapAfterWarmUp();
const rig = await startRig();
try {
  const numbers = await numbersOf(rig);
  console.log(
    `${values.minutes} min, ${load.callsPerSecond} calls a second of ${load.talkMs} ms each; ${cpus().length} × ${cpus()[0]?.model.trim()}, node ${process.version}`,
  );
  // Time to load code and warm the heap before the first sample.
  await rig.churn(numbers, { ...load, seconds: warmUpSec }, () => undefined, everyMs);
  await sleep(quarantineMs);
  const before = figuresOf(rig.gateway.pid);
  const causesBefore = await lateCauses();
  await rig.agentStalls();
  const startMs = performance.now();
  const looks: { atSec: number; figures: ProcessFigures; load: number }[] = [];
  const look = (figures: ProcessFigures) => {
    looks.push({ atSec: (performance.now() - startMs) / 1000, figures, load: loadavg()[0] ?? 0 });
    if (looks.length % 30 !== 0) return;
    const { memoryMb, descriptors } = figures;
    console.error(
      `${new Date().toISOString()}: ${memoryMb.toFixed(1)} MB, ${descriptors} descriptors, load ${loadavg()[0]?.toFixed(1)}`,
    );
  };
  const startedAt = new Date();
  const churned = await rig.churn(numbers, { ...load, seconds }, look, everyMs);
  await sleep(quarantineMs);
  const after = figuresOf(rig.gateway.pid);
  const stalls = await rig.agentStalls();
  const heapAfter = await heapCounts(rig.gateway.pid, heapFolder);

  /** The minimum over a part of the time: the memory in use after a garbage collection. */
  const part = (from: number, to: number) => {
    const inside = looks.filter(({ atSec }) => atSec >= seconds * from && atSec < seconds * to);
    const memory = inside.map(({ figures }) => figures.memoryMb);
    return {
      leastMb: Math.min(...memory),
      mostMb: Math.max(...memory),
      descriptors: Math.max(...inside.map(({ figures }) => figures.descriptors)),
      load: Math.max(...inside.map((each) => each.load)),
    };
  };
  const table = [['minute', 'memory, least', 'memory, most', 'descriptors, most', 'load of the machine, most']];
  table.push(['before', `${before.memoryMb.toFixed(1)} MB`, '', String(before.descriptors), '']);
  for (let row = 0; row < rows; row++) {
    const { leastMb, mostMb, descriptors, load } = part(row / rows, (row + 1) / rows);
    const minute = ((seconds / 60) * (row + 1)) / rows;
    const memory = [`${leastMb.toFixed(1)} MB`, `${mostMb.toFixed(1)} MB`];
    table.push([minute.toFixed(1), ...memory, String(descriptors), load.toFixed(1)]);
  }
  table.push(['after', `${after.memoryMb.toFixed(1)} MB`, '', String(after.descriptors), '']);
  console.log(`\n${markdown(table)}\n`);
  const minutes = [['minute', 'wire p50 / p99 / p99.9 ms', 'load generator late p50 / p99 / p99.9 ms', 'lost']];
  for (const [n, { wire, pace, lost }] of churned.minutes.entries())
    minutes.push([String(n + 1), spreadText(wire), spreadText(pace), String(lost)]);
  console.log(`${markdown(minutes)}\n`);

  const { answered, failed, failures, silent } = churned;
  const grownMb = part(0.75, 1).leastMb - part(0.25, 0.5).leastMb;
  const perThousand = grownMb / (answered / 2 / 1000);
  const stayed = more(heapBefore, heapAfter, Math.max(100, answered * mostObjectsPerCall));
  const records = await recordsSince(startedAt);
  const notTerminal = records.filter(({ status }) => status === 'in_progress').length;
  const problems = [
    ...(perThousand > mostMbPerThousand && grownMb > swingMb
      ? [`memory grew by ${perThousand.toFixed(2)} MB per thousand calls`]
      : []),
    ...(after.descriptors > before.descriptors
      ? [`${after.descriptors - before.descriptors} descriptors were left open`]
      : []),
    ...(stayed.length > 0 ? [`objects stayed: ${stayed.slice(0, 5).map(classText).join('; ')}`] : []),
    ...(notTerminal > 0 ? [`${notTerminal} calls have no end`] : []),
    // A call that is refused because the gateway has too much to do has no record.
    ...(records.length < answered ? [`${answered} calls were answered, but ${records.length} records`] : []),
  ];
  console.log(
    `${answered} calls answered; memory from the second quarter to the last ${grownMb >= 0 ? '+' : ''}${grownMb.toFixed(1)} MB ` +
      `(${perThousand.toFixed(2)} MB per thousand calls); descriptors ${before.descriptors} → ${after.descriptors}`,
  );
  console.log(`records: ${countText(records.map(({ status }) => status))}`);
  if (failed > 0) console.log(`${failed} calls were not answered: ${failures.join('; ')}`);
  for (const { name, number } of numbers)
    if (silent[number]) console.log(`${silent[number]} calls (${name}) heard nothing back in their time`);
  console.log(
    `objects that are more than before: ${more(heapBefore, heapAfter, 20).slice(0, shownClasses).map(classText).join('; ') || 'none'}`,
  );
  await tellGaps(churned, records, stalls);
  const causesAfter = await lateCauses();
  const causes = [...causesAfter].map(([cause, count]) => `${cause} ${count - (causesBefore.get(cause) ?? 0)}`);
  console.log(`media threads were late by 5 ms or more: ${causes.join(', ')}`);
  console.log(problems.length === 0 ? 'verdict: flat' : `verdict: not flat: ${problems.join('; ')}`);
  if (problems.length > 0) process.exitCode = 1;

  /** How many gaps the agent's own lateness explains, or a late media thread by the call's record; the others each. */
  async function tellGaps({ gaps }: Churned, all: readonly CallRecord[], stalls: readonly Stall[]): Promise<void> {
    const own = gaps.filter((gap) => gap.own).length;
    console.log(`gaps over 40 ms: ${gaps.length - own}, and ${own} while the load generator was late itself`);
    const reasons: string[] = [];
    const others: string[] = [];
    for (const { from, to, ms, endedAt } of gaps.filter((gap) => !gap.own).slice(0, mostGapsTold)) {
      const atMs = endedAt.getTime();
      const late = await latePackets(all, from, to, atMs);
      const [cause = '', packets = 0] = Object.entries(late).sort(([, a], [, b]) => b - a)[0] ?? [];
      const agent = stalls.some(({ untilMs, ms: lateMs }) => untilMs - lateMs < atMs && untilMs > atMs - ms - nearMs);
      const reason = packets > 0 ? cause : agent ? 'the agent was late itself' : 'no reason known';
      reasons.push(reason);
      const name = numbers.find(({ number }) => number === to)?.name;
      if (packets === 0) others.push(`    ${endedAt.toISOString()} ${ms.toFixed(1)} ms, ${name}: ${reason}`);
    }
    if (reasons.length > 0) console.log(`    by reason: ${countText(reasons)}`);
    if (others.length > 0) console.log(others.slice(0, mostGapsShown).join('\n'));
  }

  async function latePackets(all: readonly CallRecord[], from: string, to: string, atMs: number) {
    const record = all.find(
      ({ from_number, to_number, created_at, completed_at }) =>
        from_number === from &&
        to_number === to &&
        Date.parse(created_at) <= atMs &&
        Date.parse(completed_at ?? '9999') >= atMs,
    );
    const detail = record && (await rig.gateway.api<CallDetail>('GET', `/v1/calls/${record.id}`));
    return detail?.quality_metrics?.late_packets ?? {};
  }
} finally {
  conferences.close();
  await rig.stop();
  rmSync(heapFolder, { recursive: true, force: true });
}

function startRig(): Promise<Rig> {
  return Rig.start({
    nodeOptions: ['--import', new URL('./load/heap-preload.js', import.meta.url).href],
    environment: { BENCH_HEAP_FOLDER: heapFolder },
  });
}

async function numbersOf(rig: Rig): Promise<{ name: string; number: string; echoed: boolean }[]> {
  const numbers: { name: string; number: string; echoed: boolean }[] = [];
  for (const each of cases.filter(({ name }) => chosen.includes(name)))
    numbers.push({ name: each.name, number: await rig.numberFor(each), echoed: true });
  const conferenced = await rig.webhookNumber('conference', conferences.url);
  return [...numbers, { name: 'conference', number: conferenced, echoed: false }];
}

/** Of a gateway of its own: a snapshot takes hundreds of megabytes, in which growth would not be seen. */
async function heapAfterWarmUp(): Promise<HeapCounts> {
  const rig = await startRig();
  try {
    await rig.churn(await numbersOf(rig), { ...load, seconds: warmUpSec }, () => undefined, everyMs);
    await sleep(quarantineMs);
    return await heapCounts(rig.gateway.pid, heapFolder);
  } finally {
    await rig.stop();
  }
}

interface CallRecord {
  id: string;
  status: string;
  from_number: string;
  to_number: string;
  created_at: string;
  completed_at: string | null;
}

interface CallDetail {
  quality_metrics?: { late_packets?: Record<string, number> } | null;
}

async function recordsSince(since: Date): Promise<CallRecord[]> {
  const found: CallRecord[] = [];
  for (let page = 1; ; page++) {
    const { data } = await rig.gateway.api<{ data: CallRecord[] }>('GET', `/v1/calls?limit=100&page=${page}`);
    found.push(...data.filter(({ created_at }) => Date.parse(created_at) >= since.getTime()));
    if (data.length < 100 || Date.parse(data.at(-1)!.created_at) < since.getTime()) return found;
  }
}

/** How often media threads were late, by cause, since the start. */
async function lateCauses(): Promise<Map<string, number>> {
  const text = await rig.gateway.text('/metrics');
  const lines = text.matchAll(/^trunkline_media_late_total\{cause="(\w+)"\} (\d+)/gm);
  return new Map([...lines].map(([, cause = '', count]) => [cause, Number(count)]));
}

function classText({ name, by }: { name: string; by: number }): string {
  return `${name} +${by}`;
}

function countText(values: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].map(([value, count]) => `${count} ${value}`).join(', ');
}
