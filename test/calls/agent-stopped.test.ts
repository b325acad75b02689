import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { openAgentSocket } from '../../media/agents/connection/socket.js';
import { agentTarget, ProviderState } from '../support/agent-rig.js';

/** An agent as a process of its own; it says its port. */
const program = `
  import { WebSocketServer } from 'ws';
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  server.on('connection', (socket) => socket.on('message', (data, binary) => binary && socket.send(data)));
  server.on('listening', () => console.log(server.address().port));
`;

it('an agent whose process stands still (SIGSTOP) is found by pings that nobody answers', async () => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const [port] = (await once(child.stdout, 'data')) as [Buffer];
    const hooks = new ProviderState();
    const limits = { pingIntervalMs: 100, silenceLimitMs: 800, unreadLimitMs: 300 };
    const target = agentTarget({ url: `ws://127.0.0.1:${String(port).trim()}/`, config: { encoding: 'ulaw' } });
    const socket = openAgentSocket(target, hooks, new AbortController().signal, { limits });
    await socket.ready;
    socket.start();
    socket.audio(new Uint8Array(160).fill(7), 0);
    await hooks.until(() => hooks.audioBytes.length > 0);
    child.kill('SIGSTOP');
    const stoppedMs = performance.now();
    let atMs = 20;
    const talking = setInterval(() => {
      atMs += 20;
      socket.audio(new Uint8Array(160), atMs);
    }, 20);
    const end = await socket.ended;
    clearInterval(talking);
    expect(end).toEqual({ by: 'failed', detail: 'The agent does not answer any more.' });
    expect(performance.now() - stoppedMs).toBeGreaterThan(600);
    // The kernel still took what we sent, so that nothing else would have told; we stopped before it was full.
    expect(socket.counters().framesDropped).toBeGreaterThan(0);
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});
