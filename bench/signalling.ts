/**
 * What the signalling carries. Run: `npm run build && node dist/bench/signalling.js [--media rtp] [--steps 400,800,1200] [--seconds 5] [--no-overload] [--profile folder]`
 *
 * Three processes share the machine: a caller that only signals, the gateway (a whole Trunkline, records in SQLite, media without sound unless
 * `--media rtp`), and this one. Prints, for each rate: calls answered a second, whether anything had to be sent twice, the time from INVITE to
 * 200, and what main thread, SIP worker and caller used of a core. Then three times the best clean rate: goodput, how fast refusals come, and how
 * soon after it everything is answered again. `--profile` writes a CPU profile of each thread of the gateway into that folder.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { SipServerStats } from '../sip/server/start.js';
import type { Load, LoadResult } from './signalling/caller.js';

const { values } = parseArgs({
  options: {
    media: { type: 'string', default: 'none' },
    steps: { type: 'string', default: '400,600,800,1000,1200,1400,1600' },
    seconds: { type: 'string', default: '5' },
    'hold-ms': { type: 'string', default: '200' },
    overload: { type: 'string' },
    profile: { type: 'string' },
    'no-overload': { type: 'boolean', default: false },
  },
});
const seconds = Number(values.seconds);
const number = '+15550100';
const ticksPerSecond = 100;

const program = (name: string) => fileURLToPath(new URL(`./signalling/${name}.js`, import.meta.url));
const children: ChildProcess[] = [];

async function gateway() {
  const child = fork(program('answerer'), values.media === 'rtp' ? ['rtp'] : [], {
    execArgv: values.profile ? ['--cpu-prof', '--cpu-prof-dir', values.profile] : [],
  });
  children.push(child);
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  return { child, port, pid: child.pid ?? 0 };
}

async function place(load: Omit<Load, 'number' | 'holdMs'>): Promise<LoadResult> {
  const child = fork(program('caller'), { execArgv: [] });
  children.push(child);
  child.send({ number, holdMs: Number(values['hold-ms']), ...load } satisfies Load);
  const [result] = (await once(child, 'message')) as [LoadResult];
  child.kill();
  return result;
}

async function ask(child: ChildProcess) {
  child.send('stats');
  const [answer] = (await once(child, 'message')) as [
    { stats: SipServerStats; live: number; unwritten: number; records: Record<string, number> },
  ];
  return answer;
}

/** Processor time of each thread of a process, by its name. */
function threads(pid: number): Map<string, number> {
  const used = new Map<string, number>();
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const stat = readFileSync(`/proc/${pid}/task/${task}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const name = Number(task) === pid ? 'main' : stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
    used.set(`${name} ${task}`, (Number(fields[11]) + Number(fields[12])) / ticksPerSecond);
  }
  return used;
}

function usage(pid: number, from: Map<string, number>, overSec: number): string {
  const now = threads(pid);
  const busy = [...now].map(
    ([name, sec]) => [name.split(' ')[0], ((sec - (from.get(name) ?? 0)) / overSec) * 100] as const,
  );
  return busy
    .filter(([, percent]) => percent >= 3)
    .sort((a, b) => b[1] - a[1])
    .map(([name, percent]) => `${name} ${percent.toFixed(0)}`)
    .join(', ');
}

const ms = (value: number) => value.toFixed(value < 10 ? 1 : 0);
const say = (line: string) => process.stdout.write(`${line}\n`);

try {
  say(
    `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, node ${process.version}; media: ${values.media}; hold ${values['hold-ms']} ms`,
  );
  const { child, port, pid } = await gateway();
  await place({ port, callsPerSec: 200, seconds: 2 }); // warm
  let peak = 0;
  let best = 0;
  let offeredSoFar = 400;
  for (const rate of values.steps.split(',').map(Number)) {
    const before = await ask(child);
    const from = threads(pid);
    const startMs = performance.now();
    const result = await place({ port, callsPerSec: rate, seconds });
    const used = usage(pid, from, Math.min((performance.now() - startMs) / 1000, seconds + 0.5));
    const after = await ask(child);
    offeredSoFar += result.offered;
    const again = result.retransmissionsSent + after.stats.retransmissionsSent - before.stats.retransmissionsSent;
    const answeredPerSec = result.answered / seconds;
    const isClean = again === 0 && result.clean === result.offered;
    if (isClean) peak = Math.max(peak, rate);
    best = Math.max(best, answeredPerSec);
    say(
      `${String(rate).padStart(5)}/s: ${answeredPerSec.toFixed(0).padStart(5)} answered/s, ${isClean ? 'clean' : `${again} sent again`}, ` +
        `${result.refused} refused, ${result.failed} failed; INVITE to 200 p50 ${ms(result.answerMs.p50)} p99 ${ms(result.answerMs.p99)} ms; ` +
        `% of a core: ${used}; caller ${result.cpuPercent.toFixed(0)}`,
    );
    await sleep(300);
  }
  say(`clean up to ${peak}/s; most answered ${best.toFixed(0)}/s`);
  if (!values['no-overload']) {
    const rate = values.overload ? Number(values.overload) : 3 * best;
    const loaded = place({ port, callsPerSec: rate, seconds: seconds + 3 });
    await sleep((seconds + 3) * 1000);
    const calm = place({ port, callsPerSec: Math.max(50, peak / 2), seconds: 8 });
    const result = await loaded;
    const after = await calm;
    // the first second fills queues that were empty
    const steady = result.windows.slice(4, 4 * (seconds + 3));
    const goodput = steady.reduce((sum, window) => sum + window.answered, 0) / (steady.length / 4);
    const firstCalm = after.windows.findIndex(
      (window, i) =>
        window.answered === window.offered &&
        after.windows.slice(i, i + 4).every((each) => each.answered === each.offered),
    );
    say(
      `${rate.toFixed(0)}/s offered: ${goodput.toFixed(0)} answered/s, ${((goodput / best) * 100).toFixed(0)} % of ${best.toFixed(0)}; ` +
        `${result.refused} refused, after p50 ${ms(result.refusalMs.p50)} p99 ${ms(result.refusalMs.p99)} ms; ${result.failed} failed; ` +
        `${result.retransmissionsSent} sent again; answered after p50 ${ms(result.answerMs.p50)} p99 ${ms(result.answerMs.p99)} ms; caller ${result.cpuPercent.toFixed(0)} %`,
    );
    say(
      `then ${Math.max(50, peak / 2)}/s: all answered again after ${firstCalm < 0 ? 'more than 8' : (firstCalm * 0.25).toFixed(2)} s; ${after.failed} failed`,
    );
    offeredSoFar += result.offered + after.offered;
  }
  await sleep(1500);
  const last = await ask(child);
  say(
    `records ${JSON.stringify(last.records)} of ${offeredSoFar} offered; unwritten ${last.unwritten}; live ${last.live}; shed ${JSON.stringify(last.stats.shed)}`,
  );
  child.send('stop');
  await Promise.race([once(child, 'exit'), sleep(10_000)]);
} finally {
  for (const child of children) child.kill();
}
