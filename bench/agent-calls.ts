/**
 * What a call costs and how late its audio is: N real calls (SIP, 50 packets a second each way) from a load generator in a process of its
 * own, through a gateway process, to an echo agent in a third process. Run: `npm run build && node dist/bench/agent-calls.js --help`
 *
 * CPU is what the scheduler counted for the gateway process while all calls talk, without what it uses with no call, per call, in percent
 * of one core. The wire's round trip is from a pulse's packet to the packet that brings it back, the agent's time in it; the ear's is that
 * of a receiver that plays by RTP timestamps and waits as long as the latest of the last 50 packets needed. The uplink is from the
 * caller's packet to the agent's message handler, two processes and two kernel crossings apart.
 */
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { beside } from './load/beside.js';
import { recoveryText } from './load/disturb.js';
import { findKnee, kneeText } from './load/knee.js';
import { limitTo } from './load/quota.js';
import { Ratios } from './load/ratios.js';
import { type Case, cases, type Load, type Result, Rig } from './load/rig.js';
import { cells, columns, markdown, medians, spreadText } from './load/table.js';

const help = `node dist/bench/agent-calls.js [options]
  --calls <n>        calls at once (100)
  --seconds <n>      measured time of each case (10)
  --only <words>     these cases, split by commas: --only "raw ws μ-law,twilio wss"
  --rounds <n>       the cases again and again (1)
  --bare             also the least that a call can cost in Node, in turns with ours
  --disturb <ms>     the process is stopped for so long every 3 s: how soon the calls' delay is the one before again
  --bursts <ms>      another program computes on all cores for so long in every half second
  --knee             raises the calls until frames are late: raw, ws, μ-law; with --against also those of the other servers
  --quota <percent>  with --knee: each server has so much of a core (control groups; root), and the load generator the rest
  --beside           API polling, statistics over a million calls and recordings beside the calls
  --old-calls <n>    calls in the database for --beside (1000000; it takes a minute or two to write them)
  --against <uri>    the same load on another server, in turns with ours: sip:127.0.0.1:5070; several, split by commas
  --to <number>      whom to call there (+15550100)
  --pid <n>          its process, so that its processor time and memory are counted, and --disturb stops it; several, split by commas
  --agent-port <n>   where our agent listens for it too: ws://127.0.0.1:<n>/raw?from=<the caller's number>
  --other <folder>   another build of the gateway (its dist folder), in turns with this one, and the ratio
  --freeswitch <setting>  a second gateway with this media_engine, in turns: freeswitch://:PASSWORD@127.0.0.1:8021
  --freeswitch-pid <n>    processes of these FreeSWITCHes, split by commas: their processor time and memory are counted too
  --node <flags>     for the gateway process: --node="--cpu-prof --cpu-prof-dir=/tmp/profile"
  --profile <folder> CPU profiles of all threads of the gateway, written when it ends
  --threads          processor time of each thread of the gateway`;

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '100' },
    seconds: { type: 'string', default: '10' },
    only: { type: 'string' },
    rounds: { type: 'string', default: '1' },
    bare: { type: 'boolean', default: false },
    disturb: { type: 'string' },
    bursts: { type: 'string' },
    knee: { type: 'boolean', default: false },
    quota: { type: 'string' },
    beside: { type: 'boolean', default: false },
    'old-calls': { type: 'string', default: '1000000' },
    against: { type: 'string' },
    to: { type: 'string', default: '+15550100' },
    pid: { type: 'string' },
    'agent-port': { type: 'string' },
    other: { type: 'string' },
    freeswitch: { type: 'string' },
    'freeswitch-pid': { type: 'string', default: '' },
    node: { type: 'string' },
    profile: { type: 'string' },
    threads: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(help);
  process.exit();
}
const calls = Number(values.calls);
const seconds = Number(values.seconds);
const load: Load = {
  calls,
  seconds,
  stopMs: values.disturb === undefined ? undefined : Number(values.disturb),
  burstMs: values.bursts === undefined ? undefined : Number(values.bursts),
};
const pids = numbers(values.pid ?? '');
const others = (values.against?.split(',') ?? []).map((uri, n) => ({ uri, pid: pids[n] ?? null }));
const words = values.only?.split(',') ?? null;
const chosen = cases.filter(({ name }) => words === null || words.includes(name));
const first = chosen[0] as Case;
if (!first) throw new Error(`There is no such case: ${values.only}`);
/** Calls a second to a server with a part of a core: placing them is not what is measured. */
const slowly = 15;

const results: Result[] = [];

console.log(
  `${calls} calls, ${seconds} s each case; ${cpus().length} × ${cpus()[0]?.model.trim()}, node ${process.version}`,
);
const rig = await Rig.start({
  nodeOptions: [
    ...(values.node?.split(' ') ?? []),
    ...(values.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${values.profile}`]),
  ],
  ahead: load.burstMs !== undefined || values.quota !== undefined,
  ...(values['agent-port'] && { agentPort: Number(values['agent-port']) }),
  ...(values.beside && { oldCalls: Number(values['old-calls']) }),
});
try {
  await rig.warmUp(first, calls);
  // Near its limit a server has nothing left for what V8 compiles late.
  if (values.knee) await rig.warmUp(first, Math.round(calls * 1.5));
  const own = await rig.baseline(calls, Math.min(seconds, 5));
  console.log(
    `the load generator's own error, against a plain UDP echo: round trip ${spreadText(own.wire)} ms, pace late ${spreadText(own.pace)} ms, ` +
      `gaps over 40 ms ${own.figures.gaps + own.figures.ownGaps}`,
  );
  console.log(
    `the gateway without calls: ${rig.idlePercent.toFixed(2)} % of a core, ${rig.idleMemoryMb.toFixed(0)} MB\n`,
  );
  if (values.knee) {
    const quota = values.quota === undefined ? null : Number(values.quota);
    const some = (count: number): Load => ({
      ...load,
      calls: count,
      ...(quota !== null && { callsPerSecond: slowly }),
    });
    const knee = async (name: string, pid: number | null, run: (count: number) => Promise<Result>) => {
      const free = quota === null || pid === null ? () => undefined : limitTo(quota, pid);
      try {
        const found = await findKnee(calls, async (count) => {
          const result = { ...(await run(count)), name: `${name}, ${count} calls` };
          show(result);
          return result;
        });
        console.log(`\n${kneeText(name, found)}\n`);
      } finally {
        free();
      }
    };
    await knee(first.name, rig.gateway.pid, (count) => rig.run(first, some(count)));
    for (const { uri, pid } of others)
      await knee(uri, pid, (count) => rig.runElsewhere(uri, values.to, some(count), pid));
  } else if (values.beside) {
    for (const name of ['raw ws μ-law', 'raw ws μ-law recorded']) {
      const one = cases.find((each) => each.name === name) as Case;
      const work = beside(rig.gateway);
      show(await rig.run({ ...one, name: `${one.name}, beside` }, load));
      console.log(`    beside it: ${await work.stop()}`);
    }
  } else {
    const other = values.other === undefined ? null : await rig.otherBuild(values.other, first, calls);
    const media =
      values.freeswitch === undefined
        ? null
        : await rig.throughFreeSwitch(values.freeswitch, numbers(values['freeswitch-pid']), first, calls);
    const ratios = new Ratios();
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const each of chosen) {
        const before = other && (await other.run({ ...each, name: `${each.name}, other build` }, load));
        if (before) show(before);
        const result = await rig.run(each, load);
        show(result);
        if (before) console.log(`    ${ratios.add(`${each.name}, CPU by the other build's`, result, before)}`);
        if (media) show(await media.run({ ...each, name: `${each.name}, FreeSWITCH` }, load));
        if (values.bare) {
          const bare = await rig.runBare(each.secure, load);
          show(bare);
          console.log(`    ${ratios.add(`${each.name}, CPU by bare Node's`, result, bare)}`);
          if (before) console.log(`    ${ratios.add(`${each.name}, other build, CPU by bare Node's`, before, bare)}`);
        }
        for (const { uri, pid } of others) {
          const theirs = await rig.runElsewhere(uri, values.to, load, pid);
          show(theirs);
          if (pid !== null) console.log(`    ${ratios.add(`${each.name}, CPU by that of ${uri}`, result, theirs)}`);
        }
        await sleep(500);
      }
    }
    console.log(ratios.text());
    if (Number(values.rounds) > 1) console.log(`\n${medians(results)}`);
    await other?.gateway.stop();
    await media?.gateway.stop();
  }
} finally {
  await rig.stop();
}

function show(result: Result): void {
  results.push(result);
  console.log(
    markdown([columns, ...results.slice(-1).map(cells)])
      .split('\n')
      .slice(results.length > 1 ? 2 : 0)
      .join('\n'),
  );
  if (values.threads)
    console.log(
      `    threads: ${result.threads}; agent ${result.agentPercent.toFixed(1)}, load generator ${result.callerPercent.toFixed(1)}`,
    );
  if (result.recovery) console.log(`    ${recoveryText(result.recovery)}`);
  if (result.failures.length > 0) console.log(`    not answered: ${result.failures.join('; ')}`);
}

function numbers(list: string): number[] {
  return list
    .split(',')
    .filter((word) => word !== '')
    .map(Number);
}
