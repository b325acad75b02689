import { afterAll, beforeAll, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { placeCall } from '../../src/simulator/place-call.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { type AgentScript, type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';

let app: TestApp;
const agents: ScriptedAgent[] = [];
let nextNumber = 19995557000;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
});
afterAll(async () => {
  for (const agent of agents) await agent.close();
  await app.end();
});

const say = (socket: WebSocket, ...events: Record<string, unknown>[]) => {
  for (const event of events) socket.send(JSON.stringify(event));
};

async function callTo(script: AgentScript, durationMs: number) {
  const agent = await startScriptedAgent(script);
  agents.push(agent);
  const number = `+${nextNumber++}`;
  await app.connectNumber(number, agent.url, { protocol: 'raw' });
  const { port } = app.sip.addresses.find((each) => each.transport === 'udp')!;
  const target = { host: '127.0.0.1', port, transport: 'udp' as const };
  const recording = await placeCall({ to: number, durationMs, target, markers: false });
  return { report: recording.report(), call: await app.finishedCall(number) };
}

const everything = [
  { event: 'hangup' },
  { event: 'hangup' },
  { event: 'transfer', to: '+15005550299' },
  { event: 'dtmf', digits: '1' },
  { event: 'hangup' },
];

it('hang-ups and a transfer all at once are one hang-up: one BYE, one end', async () => {
  const { report, call } = await callTo(
    { onText: (message, socket) => message.event === 'start' && say(socket, ...everything) },
    5000,
  );
  expect(report).toMatchObject({ answered: true, endedBy: 'far side' });
  expect(call).toMatchObject({ status: 'completed', hangup_cause: 'agent_hangup', hangup_source: 'agent' });
  expect(call.events.filter((event) => event.event_type === 'call.completed')).toHaveLength(1);
  const trace = JSON.stringify(await app.api('GET', `/v1/calls/${call.id}/trace`));
  expect(trace.match(/"message":"BYE sip:/g)).toHaveLength(1);
  expect(trace).not.toContain('REFER sip:');
});

it('what an agent asks of a call that is over is nothing', async () => {
  const stopped = (message: Record<string, unknown>, socket: WebSocket) => {
    if (message.event !== 'stop') return;
    socket.send(Buffer.alloc(3200, 0x20));
    say(socket, ...everything, { event: 'clear' }, { event: 'mark', name: 'late' });
  };
  const { report, call } = await callTo({ onText: stopped }, 700);
  expect(report).toMatchObject({ answered: true, endedBy: 'us' });
  expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'caller' });
  const types = call.events.map((event) => event.event_type);
  expect(types.filter((type) => type === 'call.completed')).toHaveLength(1);
  expect(types.filter((type) => type.startsWith('transfer.') || type === 'mark.reached')).toEqual([]);
  const trace = JSON.stringify(await app.api('GET', `/v1/calls/${call.id}/trace`));
  expect(trace.match(/"message":"BYE sip:/g)).toHaveLength(1);
});
