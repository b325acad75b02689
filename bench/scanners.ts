/**
 * What a scanner costs. Run: `npm run build && node dist/bench/scanners.js [--per-second 20000] [--seconds 3]`
 *
 * The SIP server in this process, a flood from another. Prints the processor time of this process per packet, kernel included, for strangers that
 * are answered with a refusal, for one that sends too fast, for too many of them, and for one that is silenced.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openServer } from '../sip/server/server.js';
import { flood } from './signalling/flood.js';

const { values } = parseArgs({
  options: {
    'per-second': { type: 'string', default: '20000' },
    seconds: { type: 'string', default: '3' },
    flood: { type: 'string' },
  },
});
const perSec = Number(values['per-second']);
const seconds = Number(values.seconds);

if (values.flood) {
  await flood(Number(values.flood), perSec, seconds);
  process.exit(0);
}

const cases = [
  {
    name: 'refused with an answer',
    limits: { strangerPerSec: 1e9, strangersPerSec: 1e9, strangersWaiting: 1e9, offences: 1e9 },
  },
  { name: 'too fast: dropped unread', limits: { strangerPerSec: 50, offences: 1e9 } },
  { name: 'too many: dropped unread', limits: { strangerPerSec: 1e9, strangersPerSec: 50, offences: 1e9 } },
  { name: 'silenced: dropped unread', limits: { strangerPerSec: 1e9, strangersPerSec: 1e9, offences: 5 } },
];
process.stdout.write(
  `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, node ${process.version}; ${perSec} packets/s\n`,
);
for (const { name, limits } of cases) {
  const listen = [{ transport: 'udp' as const, host: '127.0.0.1', port: 0 }];
  const server = await openServer({ listen, limits, trusted: [] }, (error) =>
    process.stderr.write(`${String(error)}\n`),
  );
  const port = server.addresses[0]?.port ?? 0;
  const child = fork(fileURLToPath(import.meta.url), ['--flood', String(port), ...process.argv.slice(2)]);
  const exited = once(child, 'exit');
  await sleep(500); // time for the other process to start
  const from = process.cpuUsage();
  await exited;
  const { user, system } = process.cpuUsage(from);
  const { messagesReceived, shed } = server.stats();
  process.stdout.write(
    `${name.padEnd(26)} ${messagesReceived} packets, ${((user + system) / messagesReceived).toFixed(1)} µs each; ` +
      `${shed.rateLimited} too fast, ${shed.crowded} too many, ${shed.silenced} silenced\n`,
  );
  await server.close();
}
