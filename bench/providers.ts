/**
 * What one second of a call costs in each agent protocol, with the sockets of real calls and the provider simulators in another process:
 * 50 frames of the caller, and one second of the agent's audio in its provider's pieces, between the phone's G.711 and the protocol's
 * format. Run: `npm run build && node dist/bench/providers.js`
 *
 * Protocols take turns, so that a busy machine costs all of them the same; the ratio is to the raw protocol of the same rounds. Time
 * runs fast, so that there are fewer wake-ups than in real calls, which cost all protocols the same.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentTarget, Plain } from '../media/agents/agent.js';
import { openAgentSocket } from '../media/agents/connection/socket.js';
import { agentProtocols } from '../media/agents/providers/registry.js';
import { agentToPhone, phoneToAgent, type Transcode } from '../media/audio/codec/transcode.js';
import { Helper } from './load/processes.js';
import type { ProvidersAnswer, ProvidersOrder } from './load/providers.js';
import { markdown } from './load/table.js';

const calls = 20;
const callSec = 5;
const rounds = Number(process.argv[2] ?? 5);
const framesPerSec = 50;
const bytesPerSec = 8000;
const waitLimitMs = 20_000;

/** Beside the provider's own example: G.711 where it can be chosen. */
const configs: Record<string, { [field: string]: Plain }> = { raw: { encoding: 'ulaw' } };

interface Call {
  speak(bytes: Uint8Array, atMs: number): void;
  heardBytes(): number;
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
    connectTimeoutMs: 5000,
    firstAudioTimeoutMs: 0,
    allowPrivateAddress: true,
  };
  let decode: Transcode | null = null;
  let heardBytes = 0;
  const hooks = {
    audio: (bytes: Uint8Array) => {
      decode ??= agentToPhone(socket.replyFormat, 'PCMU');
      heardBytes += decode(bytes).length;
    },
    clear: () => ({ heardMs: 0, droppedMs: 0, items: [] }),
    silence: () => ({ droppedMs: 0 }),
    mark: (name: string) => socket.markReached(name, false),
    event: () => undefined,
    guard: (fn: () => void) => fn(),
  };
  const socket = openAgentSocket(target, hooks, new AbortController().signal);
  await socket.ready;
  const encode = phoneToAgent('PCMU', socket.format);
  socket.start();
  return {
    heardBytes: () => heardBytes,
    speak: (bytes, atMs) => {
      const encoded = encode(bytes);
      if (encoded.length > 0) socket.audio(encoded, atMs);
    },
    close: () => socket.close('measured'),
  };
}

/** CPU microseconds of this process for one second of one call; how much of the agent's audio came. */
async function measure(provider: string, url: string): Promise<{ us: number; heardSec: number }> {
  const before = process.cpuUsage();
  const open = await Promise.all(Array.from({ length: calls }, () => openCall(provider, url)));
  const silence = new Uint8Array(160).fill(0xff);
  for (let frame = 0; frame < callSec * framesPerSec; frame++) {
    for (const call of open) call.speak(silence, frame * 20);
    await sleep(1);
  }
  const endMs = performance.now() + waitLimitMs;
  const wanted = callSec * bytesPerSec * 0.98;
  while (open.some((call) => call.heardBytes() < wanted) && performance.now() < endMs) await sleep(2);
  const { user, system } = process.cpuUsage(before);
  const heard = open.reduce((sum, call) => sum + call.heardBytes(), 0) / calls / bytesPerSec;
  await Promise.all(open.map((call) => call.close()));
  return { us: (user + system) / (calls * callSec), heardSec: heard };
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

const simulators = new Helper<ProvidersOrder, ProvidersAnswer>('providers');
try {
  const { urls } = await simulators.ask({ kind: 'open', greetingMs: callSec * 1000 }, 'opened');
  const urlOf = new Map(urls);
  const providers = [...agentProtocols.keys()].filter((provider) => urlOf.has(provider));
  const costs = new Map(providers.map((provider) => [provider, [] as number[]]));
  const heard = new Map<string, number>();
  for (let round = -1; round < rounds; round++) {
    for (const provider of providers) {
      const { us, heardSec } = await measure(provider, urlOf.get(provider) ?? '');
      heard.set(provider, heardSec);
      if (round >= 0) costs.get(provider)?.push(us); // the first round warms
    }
  }
  const raw = median(costs.get('raw') ?? []);
  console.log(
    `CPU for one second of a call with its connection, ${calls} calls of ${callSec} s, median of ${rounds} rounds, node ${process.version}\n`,
  );
  console.log(
    markdown([
      ['protocol', 'µs', '% of a core', 'times raw', 'agent heard, s'],
      ...providers.map((provider) => {
        const us = median(costs.get(provider) ?? []);
        const cells = [us.toFixed(0), (us / 10_000).toFixed(3), (us / raw).toFixed(2)];
        return [provider, ...cells, (heard.get(provider) ?? 0).toFixed(1)];
      }),
    ]),
  );
} finally {
  simulators.end();
}
