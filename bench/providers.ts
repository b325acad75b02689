/**
 * What a call costs in each agent protocol, with the sockets of real calls and the provider simulators in another process: its connection,
 * from the address to the agent's readiness and to its end, with the REST request of protocols that have one; and one second of it, with 50 frames of the caller
 * and one second of the agent's audio in its provider's pieces, between the phone's G.711 and the protocol's format. Then, in real time, how long an answer takes: from our last frame of the caller's utterance to the first audio of the answer,
 * through the socket and the simulator and back. Run: `npm run build && node dist/bench/providers.js [rounds] [provider …]`
 *
 * Protocols take turns, so that a busy machine costs all of them the same; the ratios are to the raw protocol of the same rounds: of the
 * medians, and of the cheapest rounds, which other work on the machine disturbed least. Time
 * runs fast, so that there are fewer wake-ups than in real calls, which cost all protocols the same.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeUlaw, tone } from '../examples/tone-agent/sound.js';
import type { AgentTarget, Plain } from '../media/agents/agent.js';
import { openAgentSocket } from '../media/agents/connection/socket.js';
import { agentProtocols } from '../media/agents/providers/registry.js';
import { agentToPhone, phoneToAgent, type Transcode } from '../media/audio/codec/transcode.js';
import { Helper } from './load/processes.js';
import type { ProvidersAnswer, ProvidersOrder } from './load/providers.js';
import { markdown } from './load/table.js';

const calls = 20;
const callSec = 5;
const [roundsWanted = '5', ...chosen] = process.argv.slice(2);
const rounds = Number(roundsWanted);
const framesPerSec = 50;
const frameMs = 20;
const bytesPerFrame = 160;
const bytesPerSec = 8000;
/** The simulators read everything that was sent before they close: they are one process, and may be seconds behind. */
const waitLimitMs = 60_000;

/** Calls whose answers are timed at once, and what their caller says: short, since the simulated agent measures its pitch. */
const timedCalls = 1;
const timedRounds = 5;
const utteranceMs = 60;
/** For the last callbacks of sockets that were closed. */
const settleMs = 50;
/** Silence after which the simulated agent answers at once. */
const silenceMs = 300;
const utterance = encodeUlaw(tone(700, utteranceMs, 8000));
const silence = new Uint8Array(bytesPerFrame).fill(0xff);

/** Beside the provider's own example: G.711 where it can be chosen. */
const configs: Record<string, { [field: string]: Plain }> = { raw: { encoding: 'ulaw' } };

interface Call {
  speak(bytes: Uint8Array, atMs: number): void;
  heardBytes(): number;
  /** Of the first audio; 0 before. */
  heardAtMs(): number;
  close(): Promise<void>;
}

async function openCall(provider: string, url: string): Promise<Call> {
  const target: AgentTarget = {
    protocol: provider,
    url,
    config: { ...agentProtocols.get(provider)?.example, ...configs[provider] },
    call: {
      callId: '0192f000-1111-7000-8000-000000000001',
      organizationId: '0192f000-2222-7000-8000-000000000002',
      from: '+4930123456',
      to: '+15005550006',
      direction: 'inbound',
      custom: {},
    },
    connectTimeoutMs: waitLimitMs,
    firstAudioTimeoutMs: 0,
    allowPrivateAddress: true,
  };
  let decode: Transcode | null = null;
  let heardBytes = 0;
  let heardAtMs = 0;
  const hooks = {
    audio: (bytes: Uint8Array) => {
      decode ??= agentToPhone(socket.replyFormat, 'PCMU');
      heardBytes += decode(bytes).length;
      heardAtMs ||= performance.now();
    },
    clear: () => ({ heardMs: 0, droppedMs: 0, items: [] }),
    silence: () => ({ droppedMs: 0 }),
    mark: (name: string) => socket.markReached(name, false),
    event: () => undefined,
    guard: (fn: () => void) => fn(),
  };
  const limits = { closeLimitMs: waitLimitMs, sendQueueMs: waitLimitMs };
  const socket = openAgentSocket(target, hooks, new AbortController().signal, { limits });
  await socket.ready;
  const encode = phoneToAgent('PCMU', socket.format);
  socket.start();
  return {
    heardBytes: () => heardBytes,
    heardAtMs: () => heardAtMs,
    speak: (bytes, atMs) => {
      const encoded = encode(bytes);
      if (encoded.length > 0) socket.audio(encoded, atMs);
    },
    close: () => socket.close('measured'),
  };
}

function openCalls(provider: string, url: string, count: number): Promise<Call[]> {
  return Promise.all(Array.from({ length: count }, () => openCall(provider, url)));
}

/** Since an earlier reading, for one call. */
function cpuUs(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / calls;
}

interface Cost {
  /** CPU microseconds of this process for the connection of one call, and for one second of it. */
  connectionUs: number;
  us: number;
  /** How much of the agent's audio came. */
  heardSec: number;
}

async function measure(provider: string, url: string): Promise<Cost> {
  const beforeAll = process.cpuUsage();
  const open = await openCalls(provider, url, calls);
  const openedUs = cpuUs(beforeAll);
  const before = process.cpuUsage();
  for (let frame = 0; frame < callSec * framesPerSec; frame++) {
    for (const call of open) call.speak(silence, frame * frameMs);
    await sleep(1);
  }
  const endMs = performance.now() + waitLimitMs;
  const wanted = callSec * bytesPerSec * 0.98;
  while (open.some((call) => call.heardBytes() < wanted) && performance.now() < endMs) await sleep(2);
  const us = cpuUs(before) / callSec;
  const heardSec = open.reduce((sum, call) => sum + call.heardBytes(), 0) / calls / bytesPerSec;
  const beforeEnd = process.cpuUsage();
  await Promise.all(open.map((call) => call.close()));
  await sleep(settleMs); // what is left of the sockets is not the next protocol's
  return { connectionUs: openedUs + cpuUs(beforeEnd), us, heardSec };
}

/** Milliseconds from the frame that ends an utterance to the first audio of the answer, one for each call. */
async function answerTimes(provider: string, url: string): Promise<number[]> {
  const open = await openCalls(provider, url, timedCalls);
  const last = (utteranceMs + silenceMs) / frameMs;
  const times: number[] = [];
  let sentAtMs = 0;
  for (let frame = 0; frame < last; frame++) {
    const at = frame * bytesPerFrame;
    sentAtMs = performance.now();
    for (const call of open)
      call.speak(at < utterance.length ? utterance.subarray(at, at + bytesPerFrame) : silence, frame * frameMs);
    await sleep(frameMs);
  }
  const endMs = performance.now() + 2000;
  for (let frame = last; performance.now() < endMs && times.length < open.length; frame++) {
    times.length = 0;
    for (const call of open) if (call.heardAtMs() >= sentAtMs) times.push(call.heardAtMs() - sentAtMs);
    for (const call of open) call.speak(silence, frame * frameMs);
    await sleep(frameMs);
  }
  await Promise.all(open.map((call) => call.close()));
  return times;
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

const simulators = new Helper<ProvidersOrder, ProvidersAnswer>('providers');
try {
  const greeting = { kind: 'open' as const, greetingMs: callSec * 1000, silenceMs };
  const urlOf = new Map((await simulators.ask(greeting, 'opened')).urls);
  const wanted = (provider: string) => chosen.length === 0 || provider === 'raw' || chosen.includes(provider);
  const providers = [...agentProtocols.keys()].filter((provider) => urlOf.has(provider) && wanted(provider));
  const costs = new Map(providers.map((provider) => [provider, [] as Cost[]]));
  for (let round = -1; round < rounds; round++) {
    for (const provider of providers) {
      const cost = await measure(provider, urlOf.get(provider) ?? '');
      if (round >= 0) costs.get(provider)?.push(cost); // the first round warms
    }
  }
  const quiet = new Map((await simulators.ask({ ...greeting, greetingMs: 0 }, 'opened')).urls);
  const answers = new Map(providers.map((provider) => [provider, [] as number[]]));
  for (let round = -1; round < timedRounds; round++) {
    for (const provider of providers) {
      const taken = await answerTimes(provider, quiet.get(provider) ?? '');
      if (round >= 0) answers.get(provider)?.push(...taken);
    }
  }
  const secondsOf = (provider: string) => (costs.get(provider) ?? []).map(({ us }) => us);
  const raw = secondsOf('raw');
  console.log(
    `CPU of a second of a call, and of its connection; ${calls} calls of ${callSec} s, median of ${rounds} rounds; answers: median of ${timedRounds} rounds; node ${process.version}\n`,
  );
  console.log(
    markdown([
      [
        'protocol',
        'µs',
        '% of a core',
        'times raw',
        'least, times raw',
        'connection, µs',
        'answer, ms',
        'agent heard, s',
      ],
      ...providers.map((provider) => {
        const us = secondsOf(provider);
        const all = costs.get(provider) ?? [];
        const times = [median(us) / median(raw), Math.min(...us) / Math.min(...raw)].map((each) => each.toFixed(2));
        const cells = [median(us).toFixed(0), (median(us) / 10_000).toFixed(3), ...times];
        return [
          provider,
          ...cells,
          median(all.map(({ connectionUs }) => connectionUs)).toFixed(0),
          median(answers.get(provider) ?? []).toFixed(1),
          Math.min(...all.map(({ heardSec }) => heardSec)).toFixed(1),
        ];
      }),
    ]),
  );
} finally {
  simulators.end();
}
