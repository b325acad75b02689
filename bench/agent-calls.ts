/**
 * What a call costs: N real calls (SIP, 50 packets a second each way) through a gateway process to an echo agent in another process. Run:
 * `npm run build && node dist/bench/agent-calls.js [--calls 50] [--seconds 10]`
 *
 * CPU is what the kernel accounts to the gateway process while all calls talk, per call, in percent of one core, so that neighbours on the
 * machine do not count. The round trip is the caller's: wire to wire, with the agent's time in it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openPhone } from '../src/simulator/phone.js';
import { planDefaults } from '../src/simulator/place-call.js';
import { placeSeveral, summarize } from '../src/simulator/several.js';

const { values } = parseArgs({ options: { calls: { type: 'string' }, seconds: { type: 'string' } } });
const calls = Number(values.calls ?? 50);
const seconds = Number(values.seconds ?? 10);
const callsPerSecond = 25;
const startLimitMs = 20_000;
/** The kernel counts processor time in these. */
const ticksPerSecond = 100;
const key = `trunkline_live_${'b'.repeat(32)}`;

const cases = [
  { name: 'raw, μ-law', protocol: 'raw', config: { encoding: 'ulaw' }, record: false },
  { name: 'raw, μ-law, recorded', protocol: 'raw', config: { encoding: 'ulaw' }, record: true },
  { name: 'twilio', protocol: 'twilio', config: {}, record: false },
  { name: 'raw, 16 kHz linear', protocol: 'raw', config: { encoding: 'l16', sample_rate: 16_000 }, record: false },
  { name: 'raw, 24 kHz linear', protocol: 'raw', config: { encoding: 'l16', sample_rate: 24_000 }, record: false },
] as const;

interface Gateway {
  process: ChildProcess;
  httpUrl: string;
  sipPort: number;
}

/** The first match in what a process writes. */
async function said(child: ChildProcess, pattern: RegExp): Promise<string> {
  let text = '';
  const found = (async () => {
    for await (const chunk of child.stdout ?? []) {
      text += String(chunk);
      const match = pattern.exec(text);
      if (match) return match[0];
    }
    throw new Error(`The process ended before it said ${pattern}: ${text.slice(-500)}`);
  })();
  const limit = sleep(startLimitMs, null, { ref: false }).then(() => {
    throw new Error(`The process did not say ${pattern} within ${startLimitMs} ms: ${text.slice(-500)}`);
  });
  return Promise.race([found, limit]);
}

async function startGateway(folder: string, ports: { http: number; sip: number }): Promise<Gateway> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('../src/cli/main.js', import.meta.url)), 'start'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      TRUNKLINE_DATA_DIR: folder,
      TRUNKLINE_HTTP_PORT: String(ports.http),
      TRUNKLINE_SIP_PORT: String(ports.sip),
      TRUNKLINE_RTP_PORTS: '31000-32999',
      TRUNKLINE_LOG_LEVEL: 'error',
      TRUNKLINE_BOOTSTRAP_KEY: key,
    },
  });
  await said(child, /http:\/\/\S+/);
  child.stdout?.resume();
  return { process: child, httpUrl: `http://127.0.0.1:${ports.http}`, sipPort: ports.sip };
}

async function api(gateway: Gateway, method: string, where: string, body: unknown): Promise<{ id: string }> {
  const response = await fetch(gateway.httpUrl + where, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${method} ${where}: ${response.status} ${await response.text()}`);
  return (await response.json()) as { id: string };
}

function figuresOf(pid: number) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    cpuSec: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond,
    atSec: performance.now() / 1000,
    memoryMb: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}

const folder = await mkdtemp(path.join(tmpdir(), 'trunkline-bench-'));
const agent = spawn(
  process.execPath,
  [fileURLToPath(new URL('../examples/echo-agent/index.js', import.meta.url)), '--port', '0'],
  { stdio: ['ignore', 'pipe', 'inherit'] },
);
let gateway: Gateway | null = null;
try {
  const agentUrl = (await said(agent, /ws:\/\/\S+\/raw/)).replace(/\/raw$/, '');
  agent.stdout?.resume();
  const base = 20_000 + 2 * Math.floor(Math.random() * 5000);
  gateway = await startGateway(folder, { http: base, sip: base + 1 });
  const pid = gateway.process.pid ?? 0;
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, node ${process.version}`;
  process.stdout.write(`${calls} calls, ${seconds} s each; ${machine}\n`);
  await sleep(2000);
  const idleFrom = figuresOf(pid);
  await sleep(3000);
  const idleTo = figuresOf(pid);
  const idlePercent = ((idleTo.cpuSec - idleFrom.cpuSec) / (idleTo.atSec - idleFrom.atSec)) * 100;
  process.stdout.write(`without calls: ${idlePercent.toFixed(2)} % of a core, ${idleTo.memoryMb.toFixed(0)} MB\n`);
  for (const [index, each] of cases.entries()) {
    const number = `+1999556${String(1000 + index)}`;
    const endpoint = await api(gateway, 'POST', '/v1/endpoints', {
      name: each.name,
      type: 'agent',
      target: `${agentUrl}/${each.protocol}`,
      record: each.record,
      provider_config: { protocol: each.protocol, ...each.config },
    });
    await api(gateway, 'POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
    const before = figuresOf(pid);
    const phone = await openPhone({ host: '127.0.0.1', port: gateway.sipPort, transport: 'udp' });
    const rampMs = (calls / callsPerSecond) * 1000;
    const placing = placeSeveral(
      phone,
      { ...planDefaults, to: number, durationMs: rampMs + 1500 + seconds * 1000, calls, callsPerSecond },
      new AbortController().signal,
    );
    await sleep(rampMs + 1000);
    const from = figuresOf(pid);
    await sleep(seconds * 1000 - 1000);
    const to = figuresOf(pid);
    const recordings = await placing;
    await phone.close();
    const reports = recordings.map((recording) => recording.report());
    const summary = summarize(reports);
    await sleep(1500);
    const after = figuresOf(pid);
    const cpuPercent = ((to.cpuSec - from.cpuSec) / (to.atSec - from.atSec) / calls) * 100;
    const { roundTrip } = summary;
    const trip = roundTrip
      ? `round trip p50 ${roundTrip.medianMs.toFixed(1)} p95 ${roundTrip.p95Ms.toFixed(1)} worst ${roundTrip.worstMs.toFixed(1)} ms`
      : 'no round trip';
    process.stdout.write(
      `${each.name.padEnd(22)} ${summary.answered}/${calls} answered, loss ${(summary.lossPercent ?? 0).toFixed(2)} %, ` +
        `CPU ${cpuPercent.toFixed(3)} % of a core per call, ${trip}, ` +
        `memory +${((to.memoryMb - before.memoryMb) / calls).toFixed(2)} MB per call, ` +
        `descriptors ${before.descriptors} → ${to.descriptors} → ${after.descriptors}\n`,
    );
  }
} finally {
  agent.kill();
  if (gateway) {
    gateway.process.kill('SIGINT');
    await Promise.race([once(gateway.process, 'exit'), sleep(10_000, null, { ref: false })]);
    if (gateway.process.exitCode === null) gateway.process.kill('SIGKILL');
  }
  await rm(folder, { recursive: true, force: true });
}
