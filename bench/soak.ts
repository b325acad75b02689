/**
 * Calls that come and go for an hour: whether memory and descriptors stay what they were. Run:
 * `npm run build && node dist/bench/soak.js --help`
 *
 * Short calls to raw and Twilio agents, over ws and wss, every fourth one recorded. The verdict compares the second quarter of the time with
 * the last one, and the descriptors half a minute after the last call (closed ports are kept that long) with those before the first.
 */
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { figuresOf, type ProcessFigures } from './load/figures.js';
import { cases, Rig } from './load/rig.js';
import { markdown } from './load/table.js';

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
/** Growth is a leak when it exceeds both this per thousand calls and the usual swing of a heap. */
const mostMbPerThousand = 1;
const swingMb = 24;
const chosen = ['raw ws μ-law', 'raw ws μ-law recorded', 'twilio ws', 'raw wss μ-law'];

const rig = await Rig.start({ nodeOptions: [] });
try {
  const load = { callsPerSecond: Number(values.rate), talkMs: Number(values.talk) };
  const wanted = cases.filter(({ name }) => chosen.includes(name));
  console.log(
    `${values.minutes} min, ${load.callsPerSecond} calls a second of ${load.talkMs} ms each; ${cpus().length} × ${cpus()[0]?.model.trim()}, node ${process.version}`,
  );
  // Time to load code and warm the heap before the first sample.
  await rig.churn(wanted, { ...load, seconds: 10 }, () => undefined, everyMs);
  await sleep(quarantineMs);
  const before = figuresOf(rig.gateway.pid);
  const startMs = performance.now();
  const looks: { atSec: number; figures: ProcessFigures }[] = [];
  const look = (figures: ProcessFigures) => looks.push({ atSec: (performance.now() - startMs) / 1000, figures });
  const { answered, failed, failures, silent } = await rig.churn(wanted, { ...load, seconds }, look, everyMs);
  await sleep(quarantineMs);
  const after = figuresOf(rig.gateway.pid);

  /** The minimum over a part of the time: the memory in use after a garbage collection. */
  const part = (from: number, to: number) => {
    const inside = looks.filter(({ atSec }) => atSec >= seconds * from && atSec < seconds * to);
    const memory = inside.map(({ figures }) => figures.memoryMb);
    return {
      leastMb: Math.min(...memory),
      mostMb: Math.max(...memory),
      descriptors: Math.max(...inside.map(({ figures }) => figures.descriptors)),
    };
  };
  const table = [['minute', 'memory, least', 'memory, most', 'descriptors, most']];
  table.push(['before', `${before.memoryMb.toFixed(1)} MB`, '', String(before.descriptors)]);
  for (let row = 0; row < rows; row++) {
    const { leastMb, mostMb, descriptors } = part(row / rows, (row + 1) / rows);
    const minute = ((seconds / 60) * (row + 1)) / rows;
    table.push([minute.toFixed(1), `${leastMb.toFixed(1)} MB`, `${mostMb.toFixed(1)} MB`, String(descriptors)]);
  }
  table.push(['after', `${after.memoryMb.toFixed(1)} MB`, '', String(after.descriptors)]);
  console.log(`\n${markdown(table)}\n`);

  const grownMb = part(0.75, 1).leastMb - part(0.25, 0.5).leastMb;
  const perThousand = grownMb / (answered / 2 / 1000);
  const problems = [
    ...(perThousand > mostMbPerThousand && grownMb > swingMb
      ? [`memory grew by ${perThousand.toFixed(2)} MB per thousand calls`]
      : []),
    ...(after.descriptors > before.descriptors
      ? [`${after.descriptors - before.descriptors} descriptors were left open`]
      : []),
  ];
  console.log(
    `${answered} calls answered; memory from the second quarter to the last ${grownMb >= 0 ? '+' : ''}${grownMb.toFixed(1)} MB ` +
      `(${perThousand.toFixed(2)} MB per thousand calls); descriptors ${before.descriptors} → ${after.descriptors}`,
  );
  if (failed > 0) console.log(`${failed} calls were not answered: ${failures.join('; ')}`);
  if (silent > 0) console.log(`${silent} calls heard nothing back in their time`);
  console.log(problems.length === 0 ? 'verdict: flat' : `verdict: not flat: ${problems.join('; ')}`);
  if (problems.length > 0) process.exitCode = 1;
} finally {
  await rig.stop();
}
