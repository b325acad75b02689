import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { tone as toneOf } from '../../media/audio/dsp/tone.js';
import { type CalleeHeard, openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { addTrunk, type OutboundWish, placeOutbound } from '../support/outbound.js';
import { type AgentScript, type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { millisecondsOfTone } from '../support/tone-probe.js';

let app: TestApp;
let carrier: SimulatedCarrier;
let heard: CalleeHeard[];
let nextNumber = 12025550300;
const agents: ScriptedAgent[] = [];
const trunks: string[] = [];

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_AGENT_CONNECT_TIMEOUT_SEC: '2' }, { t1: 100, t2: 400, t4: 500 });
  heard = [];
  carrier = await openSimulatedCarrier({ ringMs: 300, timersMs: { t1: 100 }, onHeard: (what) => heard.push(what) });
});
afterEach(async () => {
  for (const id of trunks.splice(0)) await app.api('DELETE', `/v1/trunks/${id}`);
});
afterAll(async () => {
  for (const agent of agents) await agent.close();
  await carrier.close();
  await app.end();
});

async function wishFor(script: AgentScript, change: Partial<OutboundWish> & { to: string }): Promise<OutboundWish> {
  const agent = await startScriptedAgent(script);
  agents.push(agent);
  const ids = await app.connectNumber(`+${nextNumber++}`, agent.url, { protocol: 'raw' });
  return { ...ids, ...change };
}

async function trunk(uris: string[], change: Record<string, unknown> = {}): Promise<void> {
  trunks.push(await addTrunk(app, uris, change));
}

const types = (call: { events: { event_type: string }[] }) => call.events.map((event) => event.event_type);

describe('a call that is answered', () => {
  it('carries a tone each way, and speaks only after the answer', async () => {
    await trunk([carrier.uri]);
    const tone = Buffer.from(toneOf({ frequencyHz: 1000, durationMs: 2000 }).buffer);
    const fromCallee: Buffer[] = [];
    let startedAt = '';
    const wish = await wishFor(
      {
        onText: (message, socket) => {
          if (message.event !== 'start') return;
          startedAt = new Date().toISOString();
          expect(message).toMatchObject({ direction: 'outbound', to: '+15005550202', from: '+12025550199' });
          socket.send(tone);
        },
        onBinary: (bytes) => fromCallee.push(bytes),
      },
      { to: '+15005550202' },
    );
    placeOutbound(app, wish);
    const call = await app.finishedCall('+15005550202');
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'callee' });
    expect(call.duration).toBe(2);
    expect(types(call)).toEqual(
      expect.arrayContaining(['call.routed', 'call.ringing', 'agent.connected', 'call.answered', 'media.started']),
    );
    expect(types(call).indexOf('agent.connected')).toBeLessThan(types(call).indexOf('call.answered'));
    expect(Date.parse(startedAt)).toBeGreaterThanOrEqual(Date.parse(call.answered_at ?? '') - 5);
    expect(call).toMatchObject({ sip_call_id: expect.any(String), direction: 'outbound' });
    const agentHeard = Buffer.concat(fromCallee);
    const samples = new Int16Array(agentHeard.buffer, agentHeard.byteOffset, agentHeard.length >> 1);
    expect(millisecondsOfTone(samples, 440)).toBeGreaterThan(500);
    expect(millisecondsOfTone(heard.at(-1)!.samples, 1000)).toBeGreaterThan(500);
  });

  it('hears early media, which is no answer', async () => {
    await trunk([carrier.uri]);
    const wish = await wishFor({}, { to: '+15005550183', maxDurationMs: 700 });
    placeOutbound(app, wish);
    const call = await app.finishedCall('+15005550183');
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'time_limit', hangup_source: 'system' });
    const order = ['call.early_media', 'call.answered', 'call.completed'].map((type) => types(call).indexOf(type));
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(order[0]).toBeGreaterThan(0);
  });

  it('is ended by its agent', async () => {
    await trunk([carrier.uri]);
    const onText: AgentScript['onText'] = (message, socket) => {
      if (message.event === 'start') socket.send(JSON.stringify({ event: 'hangup' }));
    };
    placeOutbound(app, await wishFor({ onText }, { to: '+12025557001' }));
    expect(await app.finishedCall('+12025557001')).toMatchObject({ status: 'completed', hangup_cause: 'agent_hangup' });
  });
});

it('tells the agent of the metadata of the call', async () => {
  await trunk([carrier.uri]);
  const started: Record<string, unknown>[] = [];
  const agent = await startScriptedAgent({
    onText: (message, socket) => {
      if (message.event !== 'start') return;
      started.push(message);
      socket.send(JSON.stringify({ event: 'hangup' }));
    },
  });
  agents.push(agent);
  const number = `+${nextNumber++}`;
  const variables = {
    order: '{{call.metadata.order_id}}',
    items: '{{call.metadata.items}}',
    none: '{{call.metadata.x}}',
  };
  const { endpointId } = await app.connectNumber(number, agent.url, { protocol: 'raw', variables });
  const metadata = { order_id: 'A-77', items: [1, 2] };
  const wish = { to_number: '+12025557012', from_number: number, endpoint_id: endpointId, metadata };
  await app.api('POST', '/v1/outbound-calls', wish, 201);
  await app.finishedCall('+12025557012');
  expect(started).toMatchObject([{ custom: { order: 'A-77', items: '[1,2]', none: '' } }]);
});

it('is asked for by the API, and its record is the answer', async () => {
  await trunk([carrier.uri]);
  const { endpointId } = await wishFor({}, { to: '' });
  const from = `+${nextNumber - 1}`;
  const wish = { to_number: '+12025557010', from_number: from, endpoint_id: endpointId, max_duration: 60 };
  const { id } = await app.api<{ id: string }>('POST', '/v1/outbound-calls', wish, 201);
  await expect.poll(async () => types(await app.api('GET', `/v1/calls/${id}`))).toContain('call.answered');
  await app.api('POST', `/v1/calls/${id}/hangup`);
  expect(await app.finishedCall('+12025557010')).toMatchObject({ id, status: 'completed', hangup_source: 'api' });
});

describe('a call that nobody answers', () => {
  it.each([
    ['486', 'busy', 'user_busy', 'callee'],
    ['603', 'busy', 'call_rejected', 'callee'],
    ['480', 'no_answer', 'no_answer', 'callee'],
    ['404', 'failed', 'not_found', 'callee'],
    ['488', 'failed', 'incompatible_media', 'callee'],
    ['503', 'failed', 'carrier_unreachable', 'callee'],
  ])('%s: %s, %s', async (code, status, cause, source) => {
    await trunk([carrier.uri]);
    const to = `+15005550${code}`;
    placeOutbound(app, await wishFor({}, { to }));
    const call = await app.finishedCall(to);
    expect(call).toMatchObject({ status, hangup_cause: cause, hangup_source: source, duration: 0, answered_at: null });
    expect(call.events.at(-1)?.event_data.sip_status).toBe(Number(code));
  });

  it('rings until the limit, then is cancelled', async () => {
    await trunk([carrier.uri]);
    placeOutbound(app, await wishFor({}, { to: '+15005550100', ringTimeoutMs: 600 }));
    expect(await app.finishedCall('+15005550100')).toMatchObject({
      ...{ status: 'no_answer', hangup_cause: 'no_answer', hangup_source: 'system', answered_at: null },
    });
  });

  it('is hung up by the API while it rings', async () => {
    await trunk([carrier.uri]);
    const to = '+15005550100';
    const id = placeOutbound(app, { ...(await wishFor({}, { to })), from: '+12025550198' });
    await expect
      .poll(async () => types(await app.api('GET', `/v1/calls/${id}`)), { timeout: 5000 })
      .toContain('call.ringing');
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await expect
      .poll(async () => await app.api('GET', `/v1/calls/${id}`))
      .toMatchObject({ status: 'no_answer', hangup_cause: 'originator_cancel', hangup_source: 'api' });
  });

  it('ends when its agent cannot be reached, before anybody answers', async () => {
    await trunk([carrier.uri]);
    const wish = await wishFor({ upgrade: 'refuse' }, { to: '+12025557002' });
    placeOutbound(app, wish);
    expect(await app.finishedCall('+12025557002')).toMatchObject({
      ...{ status: 'failed', hangup_cause: 'agent_unreachable', answered_at: null },
    });
  });
});

describe('the way out', () => {
  it('a dead gateway, then one that lives; a trunk that is full is left out', async () => {
    await trunk([carrier.uri], { name: 'full', max_calls: 1 });
    await trunk(['sip:127.0.0.1:9;transport=tcp', carrier.uri], { name: 'second' });
    const first = placeOutbound(app, await wishFor({}, { to: '+12025557003' }));
    await expect.poll(async () => types(await app.api('GET', `/v1/calls/${first}`))).toContain('call.answered');
    const second = placeOutbound(app, await wishFor({}, { to: '+12025557004' }));
    await expect
      .poll(async () => types(await app.api('GET', `/v1/calls/${second}`)), { timeout: 8000 })
      .toContain('call.answered');
    const events = (
      await app.api<{ events: { event_type: string; event_data: object }[] }>('GET', `/v1/calls/${second}`)
    ).events;
    expect(events.find((event) => event.event_type === 'trunk.failed')?.event_data).toMatchObject({
      ...{ trunk: 'full', reason: 'full' },
    });
    expect(events.filter((event) => event.event_type === 'trunk.failed').at(-1)?.event_data).toMatchObject({
      ...{ trunk: 'second', reason: 'unreachable' },
    });
    for (const id of [first, second]) await app.api('POST', `/v1/calls/${id}/hangup`);
    await app.finishedCall('+12025557004');
  });

  it('without a trunk there is none; a test call needs none', async () => {
    const { organizationId } = app.first as { organizationId: string };
    expect(app.outbound.refusal(organizationId, 'live', '+12025550123')).toBe('no_trunk');
    expect(app.outbound.refusal(organizationId, 'test', '+12025550123')).toBeNull();
    const id = placeOutbound(app, { ...(await wishFor({}, { to: '+15005550486' })), mode: 'test' });
    await expect
      .poll(async () => (await app.store.records.detail({ organizationId, mode: 'test' }, id))?.status, {
        timeout: 5000,
      })
      .toBe('busy');
  });
});

describe('answering machine detection', () => {
  it.each([
    ['a person', '+15005550150', 'detect', { result: 'human', reason: 'short_greeting' }],
    ['a voicemail', '+15005550160', 'detect_message_end', { result: 'machine', message_end: 'beep', beep_hz: 1000 }],
  ] as const)(
    '%s: told beside the conversation, which waits for nothing',
    async (_, to, machineDetection, expected) => {
      await trunk([carrier.uri]);
      let startedMs = Number.POSITIVE_INFINITY;
      const wish = await wishFor(
        {
          onText: (message) => {
            if (message.event === 'start') startedMs = Date.now();
          },
        },
        { to, machineDetection, maxDurationMs: 6300 },
      );
      placeOutbound(app, wish);
      const call = await app.finishedCall(to, 12_000);
      const [verdict] = call.events.filter((event) => event.event_type === 'amd.completed');
      expect(verdict?.event_data).toMatchObject(expected);
      expect(startedMs - Date.parse(call.answered_at ?? '')).toBeLessThan(1000);
      expect(types(call).filter((type) => type === 'amd.completed')).toHaveLength(1);
    },
    20_000,
  );

  it('ends a call that is not for machines as soon as one is detected', async () => {
    await trunk([carrier.uri]);
    const wish = await wishFor({}, { to: '+15005550160', machineDetection: 'detect', onMachine: 'hang_up' });
    const id = placeOutbound(app, wish);
    const record = () => app.api<CallRecord>('GET', `/v1/calls/${id}`);
    await expect.poll(async () => (await record()).status, { timeout: 12_000 }).toBe('completed');
    const call = await record();
    expect(call).toMatchObject({ hangup_cause: 'normal_clearing', hangup_source: 'system' });
    expect(call.duration).toBeLessThan(6);
    expect(call.events.at(-1)?.event_data.detail).toBe('A machine answered.');
  }, 20_000);

  it('is unknown when the call is over before', async () => {
    await trunk([carrier.uri]);
    const wish = await wishFor({}, { to: '+15005550150', machineDetection: 'detect', maxDurationMs: 300 });
    placeOutbound(app, { ...wish, to: '+15005550201' });
    const call = await app.finishedCall('+15005550201');
    const verdict = call.events.find((event) => event.event_type === 'amd.completed');
    expect(verdict?.event_data).toMatchObject({ result: 'unknown', reason: 'call_ended' });
    expect(types(call).at(-1)).not.toBe('amd.completed');
  });
});
