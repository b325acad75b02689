/**
 * What the signalling carries. Run: `npm run build && node dist/bench/signalling.js --help`
 *
 * Three processes share the machine: a caller that only signals, the gateway (a whole Trunkline, records in SQLite, media without sound unless
 * `--media rtp`), and this one. Prints, for each rate: calls answered a second, whether anything had to be sent twice, the time from INVITE to
 * 200, what main thread, SIP worker and caller used of a core, and the gateway's processor time per answered call. Then three times the best
 * clean rate: goodput, how fast refusals come, and how soon after it everything is answered again.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { SipServerStats } from '../sip/server/protocol.js';
import type { Load, LoadResult } from './signalling/caller.js';

const help = `node dist/bench/signalling.js [options]
  --media rtp        with media threads (none)
  --steps <rates>    calls a second, split by commas (400,600,800,1000,1200,1400,1600)
  --seconds <n>      time of each step (5)
  --hold-ms <n>      from the ACK to the BYE (200)
  --overload <rate>  calls a second of the overload (three times the most that was answered)
  --no-overload      without it
  --other <folder>   another build (its dist folder), in turns with this one, and the ratio of their processor time
  --profile <folder> a CPU profile of each thread of the gateway into that folder
  --against <server> the same load on another server too, each step in turns with ours: <UDP port on 127.0.0.1>:<pid>,<pid>…
                     (it answers any number with a 200 that has a Contact; what these processes use of the cores is counted); may be repeated`;

const { values } = parseArgs({
  options: {
    media: { type: 'string', default: 'none' },
    steps: { type: 'string', default: '400,600,800,1000,1200,1400,1600' },
    seconds: { type: 'string', default: '5' },
    'hold-ms': { type: 'string', default: '200' },
    overload: { type: 'string' },
    profile: { type: 'string' },
    'no-overload': { type: 'boolean', default: false },
    other: { type: 'string' },
    against: { type: 'string', multiple: true, default: [] },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(help);
  process.exit();
}
const seconds = Number(values.seconds);
const number = '+15550100';

const program = (name: string, dist?: string) =>
  dist === undefined
    ? fileURLToPath(new URL(`./signalling/${name}.js`, import.meta.url))
    : path.resolve(dist, `bench/signalling/${name}.js`);
const children: ChildProcess[] = [];

interface Target {
  name: string;
  port: number;
  pids: number[];
  /** Retransmissions it has sent so far; null for a foreign server, where only the caller counts. */
  sentAgain: (() => Promise<number>) | null;
}

async function gateway(name: string, dist?: string): Promise<{ child: ChildProcess; target: Target }> {
  const child = fork(program('answerer', dist), values.media === 'rtp' ? ['rtp'] : [], {
    execArgv: values.profile ? ['--cpu-prof', '--cpu-prof-dir', values.profile] : [],
  });
  children.push(child);
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  const sentAgain = async () => (await ask(child)).stats.retransmissionsSent;
  return { child, target: { name, port, pids: [child.pid ?? 0], sentAgain } };
}

function stranger(text: string): Target {
  const [port = '', pids = ''] = text.split(':');
  return { name: `${port}: `, port: Number(port), pids: pids.split(',').filter(Boolean).map(Number), sentAgain: null };
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

/** Processor seconds of each thread of these processes, by its name. */
function threads(pids: number[]): Map<string, number> {
  const used = new Map<string, number>();
  for (const pid of pids)
    for (const task of readdirSync(`/proc/${pid}/task`)) {
      const folder = `/proc/${pid}/task/${task}`;
      const name = readFileSync(`${folder}/comm`, 'latin1').trim();
      const [ranNs = '0'] = readFileSync(`${folder}/schedstat`, 'latin1').split(' ');
      const shown = Number(task) === pid && pids.length === 1 ? 'main' : name;
      used.set(`${shown} ${task}`, Number(ranNs) / 1e9);
    }
  return used;
}

/** Processor time of each thread since then, the busiest first. */
function usage(pids: number[], from: Map<string, number>): { name: string; sec: number }[] {
  return [...threads(pids)]
    .map(([name, sec]) => ({ name: name.split(' ')[0] ?? '', sec: sec - (from.get(name) ?? 0) }))
    .sort((a, b) => b.sec - a.sec);
}

/** Of `/proc/stat`. */
const ticksPerSecond = 100;

/** Clock ticks of all cores since the machine started: busy, and stolen by the hypervisor. */
function machine(): { busy: number; stolen: number } {
  const [, user, nice, system, , , irq, softirq, stolen] = readFileSync('/proc/stat', 'latin1')
    .split(/\s+/)
    .map(Number);
  return { busy: user! + nice! + system! + irq! + softirq!, stolen: stolen! };
}
const sum = (used: { sec: number }[]) => used.reduce((all, { sec }) => all + sec, 0);

const ms = (value: number) => value.toFixed(value < 10 ? 1 : 0);
const say = (line: string) => process.stdout.write(`${line}\n`);

try {
  say(
    `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, node ${process.version}; media: ${values.media}; hold ${values['hold-ms']} ms`,
  );
  const own = await gateway(values.other === undefined ? '' : 'this: ');
  const other = values.other === undefined ? null : await gateway('other: ', values.other);
  const gateways = other === null ? [own] : [own, other];
  const runs = [...gateways.map(({ target }) => target), ...values.against.map(stranger)].map((target) => ({
    ...{ target, peak: 0, best: 0, offered: 0 },
    /** Processor milliseconds per answered call: of all threads, and of the busiest thread. */
    cost: { all: 0, main: 0 },
  }));
  for (const run of runs) {
    const warm = await place({ port: run.target.port, callsPerSec: 200, seconds: 2 });
    run.offered += warm.offered;
  }
  for (const rate of values.steps.split(',').map(Number)) {
    for (const run of runs) {
      const { name, port, pids, sentAgain } = run.target;
      const before = await sentAgain?.();
      const from = threads(pids);
      const machineFrom = machine();
      const startMs = performance.now();
      const result = await place({ port, callsPerSec: rate, seconds });
      const tookSec = (performance.now() - startMs) / 1000;
      const machineTo = machine();
      const share = (what: 'busy' | 'stolen') =>
        (((machineTo[what] - machineFrom[what]) / ticksPerSecond / tookSec) * 100).toFixed(0);
      const overSec = Math.min(tookSec, seconds + 0.5);
      const used = usage(pids, from);
      const percent = (sec: number) => ((sec / overSec) * 100).toFixed(0);
      const most = used.filter(({ sec }) => sec / overSec >= 0.03).map(({ name, sec }) => `${name} ${percent(sec)}`);
      const perCall = (sec: number) => (sec * 1000) / Math.max(1, result.answered);
      run.cost = { all: perCall(sum(used)), main: perCall(used[0]?.sec ?? 0) };
      const theirs = sentAgain ? (await sentAgain()) - (before ?? 0) : result.repeatsHeard;
      run.offered += result.offered;
      const again = result.retransmissionsSent + theirs;
      const answeredPerSec = result.answered / seconds;
      const isClean = again === 0 && result.clean === result.offered;
      if (isClean) run.peak = Math.max(run.peak, rate);
      run.best = Math.max(run.best, answeredPerSec);
      say(
        `${name}${String(rate).padStart(5)}/s: ${answeredPerSec.toFixed(0).padStart(5)} answered/s, ${isClean ? 'clean' : `${again} sent again`}, ` +
          `${result.refused} refused, ${result.failed} failed; INVITE to 200 p50 ${ms(result.answerMs.p50)} p99 ${ms(result.answerMs.p99)} ms; ` +
          `% of a core: ${percent(sum(used))} (${most.join(', ')}); caller ${result.cpuPercent.toFixed(0)}; ` +
          `per call ${run.cost.all.toFixed(2)} ms, busiest thread ${run.cost.main.toFixed(2)}; all processes ${share('busy')}, stolen ${share('stolen')}`,
      );
      await sleep(300);
    }
    const [mine, before] = runs;
    if (other !== null && mine && before)
      say(
        `      processor time per call: ${(mine.cost.all / before.cost.all).toFixed(2)} of the other build's, ` +
          `busiest thread ${(mine.cost.main / before.cost.main).toFixed(2)}`,
      );
  }
  for (const run of runs) {
    const { peak, best } = run;
    const { name, port } = run.target;
    say(`${name}clean up to ${peak}/s; most answered ${best.toFixed(0)}/s`);
    if (values['no-overload']) continue;
    const rate = values.overload ? Number(values.overload) : 3 * best;
    const loaded = place({ port, callsPerSec: rate, seconds: seconds + 3 });
    await sleep((seconds + 3) * 1000);
    const calm = place({ port, callsPerSec: Math.max(50, peak / 2), seconds: 8 });
    const result = await loaded;
    const after = await calm;
    // the first second fills empty queues, so it does not count
    const steady = result.windows.slice(4, 4 * (seconds + 3));
    const goodput = steady.reduce((sum, window) => sum + window.answered, 0) / (steady.length / 4);
    const firstCalm = after.windows.findIndex(
      (window, i) =>
        window.answered === window.offered &&
        after.windows.slice(i, i + 4).every((each) => each.answered === each.offered),
    );
    say(
      `${name}${rate.toFixed(0)}/s offered: ${goodput.toFixed(0)} answered/s, ${((goodput / best) * 100).toFixed(0)} % of ${best.toFixed(0)}; ` +
        `${result.refused} refused, after p50 ${ms(result.refusalMs.p50)} p99 ${ms(result.refusalMs.p99)} ms; ${result.failed} failed; ` +
        `${result.retransmissionsSent} sent again; answered after p50 ${ms(result.answerMs.p50)} p99 ${ms(result.answerMs.p99)} ms; caller ${result.cpuPercent.toFixed(0)} %`,
    );
    say(
      `${name}then ${Math.max(50, peak / 2)}/s: all answered again after ${firstCalm < 0 ? 'more than 8' : (firstCalm * 0.25).toFixed(2)} s; ${after.failed} failed`,
    );
    run.offered += result.offered + after.offered;
  }
  await sleep(1500);
  for (const [i, { child, target }] of gateways.entries()) {
    const last = await ask(child);
    say(
      `${target.name}records ${JSON.stringify(last.records)} of ${runs[i]?.offered} offered; unwritten ${last.unwritten}; live ${last.live}; shed ${JSON.stringify(last.stats.shed)}`,
    );
    child.send('stop');
    await Promise.race([once(child, 'exit'), sleep(10_000)]);
  }
} finally {
  for (const child of children) child.kill();
}
