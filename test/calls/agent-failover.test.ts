import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PlaceCallOptions, placeCall } from '../../src/simulator/place-call.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { type AgentScript, type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { probeTone } from '../support/tone-probe.js';

let app: TestApp;
const agents: ScriptedAgent[] = [];
let nextNumber = 19995551000;

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_AGENT_CONNECT_TIMEOUT_SEC: '1' }, { t1: 50, t2: 200, t4: 250 });
});
afterAll(async () => {
  for (const agent of agents) await agent.close();
  await app.end();
});

/** A number whose endpoint falls back to a second one, and the number itself to a third; each a scripted `raw` agent. */
async function numberWith(...scripts: AgentScript[]) {
  const number = `+${nextNumber++}`;
  const made: { id: string; agent: ScriptedAgent }[] = [];
  for (const script of scripts) {
    const agent = await startScriptedAgent(script);
    agents.push(agent);
    const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', {
      name: `agent ${made.length + 1} of ${number}`,
      type: 'agent',
      target: agent.url,
      provider_config: { protocol: 'raw' },
    });
    made.push({ id, agent });
  }
  const [first, second, third] = made;
  if (second) await app.api('PATCH', `/v1/endpoints/${first?.id}`, { fallback_endpoint_id: second.id });
  await app.api('POST', '/v1/phone-numbers', {
    number,
    endpoint_id: first?.id,
    ...(third && { fallback_endpoint_id: third.id }),
  });
  return { number, endpoints: made };
}

async function phone(number: string, wish: Partial<PlaceCallOptions> = {}) {
  const port = app.sip.addresses.find((each) => each.transport === 'udp')?.port ?? 0;
  const target = { host: '127.0.0.1', port, transport: 'udp' as const };
  const recording = await placeCall({ to: number, durationMs: 2000, target, markers: false, ...wish });
  return { recording, call: await app.finishedCall(number) };
}

const types = (call: { events: { event_type: string }[] }) => call.events.map((event) => event.event_type);
const health = async (id: string | undefined) =>
  (await app.api<{ health: string }>('GET', `/v1/endpoints/${id}`)).health;
const echo: AgentScript = { onBinary: (bytes, socket) => socket.send(bytes) };

// Each test has a number and agents of its own.
describe.concurrent('an agent that fails during the call', () => {
  it('breaks: the fallback takes over, gets the transcript, and the caller hears it', async () => {
    const { number, endpoints } = await numberWith(
      {
        onText: (message, socket) => {
          if (message.event !== 'start') return;
          socket.send('{"event":"transcript","speaker":"agent","text":"Which account?"}', () => socket.terminate());
        },
      },
      echo,
    );
    const { recording, call } = await phone(number);
    expect(recording.report()).toMatchObject({ answered: true, endedBy: 'us' });
    expect(recording.report().heard.frequencyHz).toBeGreaterThan(438);
    expect(recording.report().heard.frequencyHz).toBeLessThan(442);
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    expect(types(call).filter((type) => type.startsWith('agent.'))).toEqual([
      'agent.connecting',
      'agent.connected',
      'agent.disconnected',
      'agent.failed',
      'agent.failover',
      'agent.connecting',
      'agent.connected',
      'agent.disconnected',
    ]);
    expect(endpoints[1]?.agent.messages[0]).toMatchObject({
      event: 'start',
      call_id: call.id,
      history: [{ speaker: 'agent', text: 'Which account?' }],
    });
    expect(await health(endpoints[0]?.id)).toBe('degraded');
    expect(await health(endpoints[1]?.id)).toBe('healthy');
  });

  it('and so does its fallback, which refuses: the third one, of the number, takes over', async () => {
    const { number, endpoints } = await numberWith(
      { onBinary: (_, socket) => socket.close(1011) },
      { upgrade: 'refuse' },
      echo,
    );
    const { call } = await phone(number);
    expect(call.status).toBe('completed');
    expect(types(call).filter((type) => type === 'agent.failover')).toHaveLength(2);
    expect(endpoints.map(({ agent }) => agent.attempts)).toEqual([1, 2, 1]);
  });

  it('the caller hears a quiet tone until the next one is there', async () => {
    const { number } = await numberWith(
      { onBinary: (_, socket) => socket.terminate() },
      { upgrade: 'stall' }, // the second of its time limit
      echo,
    );
    const silence = { kind: 'samples' as const, samples: new Int16Array(8000 * 4) };
    const { recording, call } = await phone(number, { durationMs: 2500, speech: silence });
    const samples = recording.samples();
    const blocks = Array.from({ length: Math.floor(samples.length / 160) }, (_, i) =>
      samples.subarray(i * 160, i * 160 + 160),
    );
    const tones = blocks.map((block) => probeTone(block, 425).amplitude);
    const heard = tones.flatMap((amplitude, i) => (amplitude > 200 ? [i * 20] : []));
    expect(heard.length * 20).toBeGreaterThanOrEqual(160); // one beep of 200 ms fits into the second
    expect(heard.length * 20).toBeLessThanOrEqual(240);
    expect(heard[0]).toBeGreaterThanOrEqual(140);
    expect(heard[0]).toBeLessThan(1000);
    expect(Math.max(...tones)).toBeLessThan(1000); // 30 dB under full scale
    const order = types(call).filter((type) => type.startsWith('agent.'));
    expect(order.slice(2)).toEqual([
      'agent.disconnected',
      'agent.failed',
      'agent.failover',
      'agent.connecting',
      'agent.failed',
      'agent.failover',
      'agent.connecting',
      'agent.connected',
      'agent.disconnected',
    ]);
    expect(types(call)).not.toContain('turn.completed'); // nobody said anything
  });

  it('without another one, the call fails', async () => {
    const { number } = await numberWith({ onBinary: (_, socket) => socket.terminate() }, { upgrade: 'refuse' });
    const { recording, call } = await phone(number);
    expect(recording.report().endedBy).toBe('far side');
    expect(call).toMatchObject({ status: 'failed', hangup_cause: 'agent_error', hangup_source: 'agent' });
  });

  it('keys pressed in between reach the next one', async () => {
    const { number, endpoints } = await numberWith(
      { onBinary: (_, socket) => socket.terminate() },
      { upgrade: 'stall' },
      {},
    );
    await phone(number, { digits: '7', digitsAfterMs: 300, durationMs: 2500 });
    expect(endpoints[2]?.agent.messages.filter((message) => message.event === 'dtmf')).toEqual([
      { event: 'dtmf', digits: '7' },
    ]);
  });
});

describe('the end of an agent that is no failure', () => {
  it('a clean close hangs up, even with fallbacks left', async () => {
    const { number, endpoints } = await numberWith({ onBinary: (_, socket) => socket.close(1000) }, echo);
    const { call } = await phone(number);
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'agent_hangup', hangup_source: 'agent' });
    expect(endpoints[1]?.agent.attempts).toBe(0);
    expect(await health(endpoints[0]?.id)).toBe('healthy');
  });
});

describe('an endpoint that is down', () => {
  it('is gone round, by calls that have another way', async () => {
    const { number, endpoints } = await numberWith({ upgrade: 'refuse' }, echo);
    const port = app.sip.addresses.find((each) => each.transport === 'udp')?.port ?? 0;
    const target = { host: '127.0.0.1', port, transport: 'udp' as const };
    for (let i = 0; i < 4; i++) await placeCall({ to: number, durationMs: 100, target, markers: false });
    expect(endpoints[0]?.agent.attempts).toBe(6);
    expect(await health(endpoints[0]?.id)).toBe('down');
    expect(endpoints[1]?.agent.attempts).toBe(4);
  });
});
