import type { LookupAddress } from 'node:dns';
import { expect, test, vi } from 'vitest';
import { openAgentSocket } from '../../media/agents/connection/socket.js';
import { agentTarget, ProviderState, tcpServer } from '../support/agent-rig.js';

const answers: LookupAddress[][] = [];
const asked: string[] = [];

vi.mock('node:dns', async (original) => ({
  ...(await original<typeof import('node:dns')>()),
  lookup: (host: string, _options: object, callback: (error: null, addresses: LookupAddress[]) => void) => {
    asked.push(host);
    process.nextTick(callback, null, answers.shift() ?? []);
  },
}));

test.each([[['127.0.0.1']], [['8.8.8.8', '127.0.0.1']]])(
  'a name that resolves to %j is not connected to, and is asked for once',
  async (addresses) => {
    let connected = 0;
    const server = await tcpServer(() => {
      connected += 1;
    });
    asked.length = 0;
    answers.push(addresses.map((address) => ({ address, family: 4 })));
    const target = agentTarget({ url: `ws://agent.example.com:${server.port}/`, allowPrivateAddress: false });
    const socket = openAgentSocket(target, new ProviderState(), new AbortController().signal);
    await expect(socket.ready).rejects.toMatchObject({ reason: 'blocked_address', retryable: false });
    expect(await socket.ended).toMatchObject({ by: 'failed' });
    expect(asked).toEqual(['agent.example.com']);
    expect(connected).toBe(0);
    await server.close();
  },
);
