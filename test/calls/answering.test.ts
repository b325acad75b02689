/** Who answered outbound calls, and what follows: nothing is said before. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { addTrunk } from '../support/outbound.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';

let app: TestApp;
let carrier: SimulatedCarrier;
let engine: Receiver;
const agents: ScriptedAgent[] = [];
/** What the transcription server understands, one utterance after the other. */
let words: string[] = [];
let nextNumber = 12025550700;

beforeAll(async () => {
  engine = await startReceiver((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ text: words.shift() ?? '' }));
  });
  app = await startTestApp({ TRUNKLINE_TRANSCRIPTION_URL: engine.url }, { t1: 100, t2: 400, t4: 500 });
  carrier = await openSimulatedCarrier({ ringMs: 200, timersMs: { t1: 100 } });
  await addTrunk(app, [carrier.uri]);
});
afterAll(async () => {
  for (const agent of agents) await agent.close();
  await carrier.close();
  await app.end();
  await engine.close();
});

/** Calls a number; the agent hangs up half a second after it began. */
async function call(to: string, heard: string[], wish: object, config: object = {}) {
  words = [...heard];
  let startedMs: number | null = null;
  let custom: unknown = null;
  const agent = await startScriptedAgent({
    onText: (message, socket) => {
      if (message.event !== 'start') return;
      startedMs = Date.now();
      custom = message.custom;
      setTimeout(() => socket.send(JSON.stringify({ event: 'hangup' })), 500);
    },
  });
  agents.push(agent);
  const from = `+${nextNumber++}`;
  const { endpointId } = await app.connectNumber(from, agent.url, { protocol: 'raw', ...config });
  const { id } = await app.api<{ id: string }>('POST', '/v1/outbound-calls', {
    ...{ to_number: to, from_number: from, endpoint_id: endpointId, max_duration: 20 },
    ...wish,
  });
  const read = () => app.api<Awaited<ReturnType<TestApp['finishedCall']>>>('GET', `/v1/calls/${id}`);
  await expect.poll(async () => (await read()).status, { timeout: 25_000 }).toBe('completed');
  const record = await read();
  const of = (type: string) =>
    record.events.filter((event) => event.event_type === type).map((event) => event.event_data);
  const afterMs = startedMs === null ? null : startedMs - Date.parse(record.answered_at ?? '');
  return { record, of, afterMs, custom, connects: agent.attempts };
}

const person = '+15005550150';
const voicemail = '+15005550160';

describe('an agent that waits', () => {
  it('begins when a person has answered, and is told so; it was connected before', async () => {
    const { of, afterMs, custom, connects } = await call(person, ['hello'], {
      wait_for_detection: true,
      machine_detection: 'detect',
    });
    expect(of('amd.completed')).toMatchObject([{ result: 'human', answered_by: 'human', action: 'talk' }]);
    expect(afterMs).toBeGreaterThan(1500);
    expect([custom, connects]).toEqual([{ answered_by: 'human' }, 1]);
  }, 30_000);

  it('leaves its message after the beep', async () => {
    const { of, afterMs, custom } = await call(voicemail, [], { on_machine: 'leave_message' });
    const [verdict] = of('amd.completed') as [{ message_end_ms: number }];
    expect(verdict).toMatchObject({ result: 'machine', message_end: 'beep', action: 'leave_message' });
    expect(afterMs).toBeGreaterThanOrEqual(verdict.message_end_ms);
    expect(custom).toEqual({ answered_by: 'machine_end_beep' });
  }, 30_000);

  it('presses a key for a screening assistant, and then talks with whom it let through', async () => {
    const screening = 'Before I try to connect you, say your name and the reason for your call.';
    const { of, custom } = await call(voicemail, [screening], { on_screening: 'press', press_keys: '5' });
    const [first, second] = of('amd.completed');
    expect(first).toMatchObject({ result: 'screening', reason: 'words', language: 'en', action: 'press' });
    expect(of('dtmf.sent')).toEqual([{ digits: '5', source: 'agent' }]);
    expect(second).toMatchObject({ action: 'talk' });
    expect(custom).toMatchObject({ answered_by: second?.answered_by });
  }, 30_000);

  it('says nothing to what the endpoint wants to be hung up on', async () => {
    const { record, of, afterMs } = await call(
      voicemail,
      ['The number you have dialed is not in service.'],
      {},
      {
        ...{ machine_detection: 'detect', wait_for_detection: true, on_operator: 'hang_up' },
      },
    );
    expect(of('amd.completed')).toMatchObject([{ result: 'operator', action: 'hang_up' }]);
    expect(record.hangup_source).toBe('system');
    expect(afterMs).toBeNull();
  }, 30_000);
});

describe('the API', () => {
  it('refuses reactions without detection, and unknown ones', async () => {
    const wish = { to_number: person, from_number: '+12025550700', endpoint_id: app.first?.organizationId };
    for (const more of [
      { machine_detection: 'off', on_screening: 'press' },
      { machine_detection: 'off', wait_for_detection: true },
      { on_machine: 'shout' },
      { on_fax: 'press' },
      { press_keys: 'x' },
    ])
      await app.api('POST', '/v1/outbound-calls', { ...wish, ...more }, 400);
  });
});
