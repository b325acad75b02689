/**
 * What one 20 ms frame to the agent and one back cost this process, against a bare `ws` client that sends and receives the same bytes and
 * does nothing with them. Run: `npm run build && node dist/bench/agent-frame.js`
 *
 * The agent is the echo agent in a process of its own, so its work is not counted. All sockets send a frame, then wait for all echoes: as in
 * real calls each frame is one write and one read of the socket.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import type { AgentTarget } from '../media/agents/agent.js';
import { openAgentSocket } from '../media/agents/connection/socket.js';

const CALLS = 50;
const FRAMES = 200;
const ROUNDS = 9;

interface Client {
  send(atMs: number): void;
  close(): Promise<void>;
}

type Connect = (onEcho: () => void) => Promise<Client>;

const CASES = [
  { name: 'raw, ulaw', protocol: 'raw', encoding: 'ulaw', bytes: 160 },
  { name: 'raw, l16', protocol: 'raw', encoding: 'l16', bytes: 320 },
  { name: 'twilio', protocol: 'twilio', encoding: 'ulaw', bytes: 160 },
] as const;

function ours(url: string, { protocol, encoding, bytes }: (typeof CASES)[number]): Connect {
  return async (onEcho) => {
    const target: AgentTarget = {
      protocol,
      url,
      config: { encoding },
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
    const hooks = {
      audio: onEcho,
      clear: () => ({ heardMs: 0, droppedMs: 0 }),
      silence: () => ({ droppedMs: 0 }),
      mark: () => {},
      event: () => {},
      guard: (fn: () => void) => {
        try {
          fn();
        } catch (error) {
          process.stderr.write(`${error}\n`);
        }
      },
    };
    const socket = openAgentSocket(target, hooks, new AbortController().signal);
    await socket.ready;
    socket.start();
    const frame = new Uint8Array(bytes).fill(0x55);
    return { send: (atMs) => socket.audio(frame, atMs), close: () => socket.close('measured') };
  };
}

function bare(url: string, { protocol, bytes }: (typeof CASES)[number]): Connect {
  return async (onEcho) => {
    const socket = new WebSocket(url, { perMessageDeflate: false, skipUTF8Validation: true });
    await once(socket, 'open');
    socket.on('message', onEcho);
    const frame = Buffer.alloc(bytes, 0x55);
    const media = { track: 'inbound', chunk: '1000', timestamp: '20000', payload: frame.toString('base64') };
    const text = { event: 'media', sequenceNumber: '1001', media, streamSid: `MZ${'0'.repeat(32)}` };
    const message = protocol === 'twilio' ? JSON.stringify(text) : frame;
    const close = async () => {
      socket.close();
      await once(socket, 'close');
    };
    return { send: () => socket.send(message), close };
  };
}

/** CPU microseconds of this process per frame out and frame back. */
async function measure(connect: Connect): Promise<number> {
  let missing = 0;
  let allBack = () => {};
  const onEcho = () => {
    missing -= 1;
    if (missing === 0) allBack();
  };
  const clients = await Promise.all(Array.from({ length: CALLS }, () => connect(onEcho)));
  const run = async (frames: number) => {
    for (let i = 0; i < frames; i++) {
      missing = CALLS;
      const back = new Promise<void>((resolve) => {
        allBack = resolve;
      });
      for (const client of clients) client.send(i * 20);
      await back;
    }
  };
  await run(20);
  const before = process.cpuUsage();
  await run(FRAMES);
  const { user, system } = process.cpuUsage(before);
  await Promise.all(clients.map((each) => each.close()));
  return (user + system) / (FRAMES * CALLS);
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

async function startAgent(): Promise<{ agent: ChildProcess; urls: Record<'raw' | 'twilio', string> }> {
  const program = fileURLToPath(new URL('../examples/echo-agent/index.js', import.meta.url));
  const agent = spawn(process.execPath, [program, '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(agent.stdout!, 'data');
  const urlOf = (path: string) => new RegExp(`ws:\\S+/${path}`).exec(String(line))?.[0] ?? '';
  return { agent, urls: { raw: urlOf('raw'), twilio: urlOf('twilio') } };
}

const { agent, urls } = await startAgent();
process.stdout.write(
  `CPU per 20 ms frame, both directions; ${CALLS} calls, median of ${ROUNDS} rounds, node ${process.version}\n`,
);
for (const each of CASES) {
  const url = urls[each.protocol];
  const [oursUs, bareUs, moreUs]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < ROUNDS; round++) {
    // In pairs, so that other programs disturb both alike.
    const [b, o] = [await measure(bare(url, each)), await measure(ours(url, each))];
    bareUs.push(b);
    oursUs.push(o);
    moreUs.push(o - b);
  }
  const figure = (name: string, values: number[]) => `${name} ${median(values).toFixed(1)} µs`.padStart(22);
  const figures = [figure('bare ws', bareUs), figure('agent socket', oursUs), figure('more', moreUs)];
  process.stdout.write(`${each.name.padEnd(10)} ${figures.join('')}\n`);
}
agent.kill();
