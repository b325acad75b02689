import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PlaceCallOptions, placeCall } from '../../src/simulator/place-call.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { SipPeer } from '../support/bare-sip-peer.js';
import { type AgentScript, type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { millisecondsOfTone } from '../support/tone-probe.js';

/** Nobody must listen to silence for ever, and nobody be charged for it. */
let app: TestApp;
const agents: ScriptedAgent[] = [];
let nextNumber = 19995558000;

beforeAll(async () => {
  const limits = { TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '1', TRUNKLINE_RTP_TIMEOUT_SEC: '1' };
  app = await startTestApp(limits, { t1: 50, t2: 200, t4: 250 });
});
afterAll(async () => {
  for (const agent of agents) await agent.close();
  await app.end();
});

async function endpointOf(script: AgentScript, config: Record<string, unknown> = {}): Promise<string> {
  const agent = await startScriptedAgent(script);
  agents.push(agent);
  const body = { name: 'agent', type: 'agent', target: agent.url, provider_config: { protocol: 'raw', ...config } };
  return (await app.api<{ id: string }>('POST', '/v1/endpoints', body)).id;
}

async function callTo(wish: Partial<PlaceCallOptions>, ...endpointIds: string[]) {
  const number = `+${nextNumber++}`;
  const [endpoint_id, fallback_endpoint_id] = endpointIds;
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id, fallback_endpoint_id });
  const { port } = app.sip.addresses.find((each) => each.transport === 'udp')!;
  const target = { host: '127.0.0.1', port, transport: 'udp' as const };
  const recording = await placeCall({ to: number, durationMs: 6000, target, markers: false, ...wish });
  return { recording, report: recording.report(), call: await app.finishedCall(number) };
}

const quiet: AgentScript = {};
const types = (call: { events: { event_type: string }[] }) => call.events.map((event) => event.event_type);

describe('a phone', () => {
  it('that never sends audio is hung up', async () => {
    const { report, call } = await callTo({ faults: { oneWay: 'in' } }, await endpointOf(quiet));
    expect(report).toMatchObject({ answered: true, endedBy: 'far side' });
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'media_timeout', hangup_source: 'system' });
    expect(call.duration).toBeLessThanOrEqual(2);
  });

  it('whose audio stops is hung up', async () => {
    const { report, call } = await callTo({ durationMs: 300, faults: { bye: 'lost' } }, await endpointOf(quiet));
    expect(report).toMatchObject({ answered: true });
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'media_timeout', hangup_source: 'system' });
    expect(types(call).filter((type) => type.startsWith('media.'))).toEqual(['media.started', 'media.timeout']);
  });
});

describe('an agent that never says a word', () => {
  it('is replaced by the next one', async () => {
    const tone = new Int16Array(16_000).map((_, i) => 8000 * Math.sin((2 * Math.PI * 700 * i) / 8000));
    const speaks: AgentScript = {
      onText: (message, socket) => message.event === 'start' && socket.send(Buffer.from(tone.buffer)),
    };
    const silent = await endpointOf(quiet, { first_audio_timeout_s: 0.4 });
    const { recording, call } = await callTo({ durationMs: 5000 }, silent, await endpointOf(speaks));
    expect(types(call)).toContain('agent.failover');
    expect(millisecondsOfTone(recording.samples(), 700)).toBeGreaterThan(300);
  });

  it('ends the call when there is no other', async () => {
    const { report, call } = await callTo({}, await endpointOf(quiet, { first_audio_timeout_s: 0.4 }));
    expect(report).toMatchObject({ answered: true, endedBy: 'far side' });
    expect(call).toMatchObject({ status: 'failed', hangup_cause: 'agent_error' });
  });
});

it('a key that comes by SIP INFO is heard by the record and by the agent, once', async () => {
  const number = `+${nextNumber++}`;
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: await endpointOf(quiet) });
  const agent = agents.at(-1)!;
  const { port } = app.sip.addresses.find((each) => each.transport === 'udp')!;
  const peer = await SipPeer.open(port);
  const invite = peer.invite({ user: number });
  const answer = await peer.next(200);
  peer.request('ACK', invite, [], '', answer);
  peer.request('INFO', invite, [], 'Signal=5\r\nDuration=160\r\n', answer, 2, 'application/dtmf-relay');
  await peer.next(200);
  peer.request('BYE', invite, [], '', answer, 3);
  await peer.next(200);
  const call = await app.finishedCall(number);
  const keys = call.events.filter((event) => event.event_type === 'dtmf.received');
  expect(keys.map((event) => event.event_data)).toEqual([{ digit: '5', method: 'info' }]);
  expect(agent.messages.filter((message) => message.event === 'dtmf')).toEqual([{ event: 'dtmf', digits: '5' }]);
  await peer.close();
});
