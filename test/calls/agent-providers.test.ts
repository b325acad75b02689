import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import type { CapturedCall } from '../../src/simulator/phone/phone.js';
import { type PlaceCallOptions, placeCall } from '../../src/simulator/place-call.js';
import { lateHz } from '../../src/simulator/providers/agent.js';
import { providerProtocols } from '../../src/simulator/providers/registry.js';
import { type ProviderSimulator, type SimulatedCall, simulateProvider } from '../../src/simulator/providers/serve.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { probeTone } from '../support/tone-probe.js';

/** Stream protocols are `custom` endpoints, and have no transcript. */
const isStream = (name: string) => agentProtocols.get(name)?.selectedBy === 'protocol';

const secret = 'sk-never-in-a-record';
const greetingText = 'one two three four five six seven eight nine ten eleven twelve';
const greetingMs = 4000;
const barge = { fromMs: 1500, hz: 700, ms: 400 };

interface Outcome {
  recording: CapturedCall;
  record: CallRecord;
  call: SimulatedCall;
}

let app: TestApp;
let echo: ScriptedAgent;
const simulators: ProviderSimulator[] = [];
const outcomes = new Map<string, Outcome>();
const deaths = new Map<string, Outcome>();
let nextNumber = 19995552000;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
  echo = await startScriptedAgent({ onBinary: (bytes, socket) => socket.send(bytes) });
  await eachProvider(6, callProvider);
  await eachProvider(12, killProvider);
}, 180_000);

/**
 * For every provider, that many at once: more calls with sound would be late on a small machine. A call that fails leaves no outcome, so that
 * the tests of its provider fail.
 */
async function eachProvider(atOnce: number, run: (name: string) => Promise<void>): Promise<void> {
  const names = [...providerProtocols.keys()];
  const next = async (): Promise<void> => {
    for (let name = names.shift(); name !== undefined; name = names.shift())
      await run(name).catch((error: unknown) => console.error(`The call to ${name} failed:`, error));
  };
  await Promise.all(Array.from({ length: atOnce }, next));
}

afterAll(async () => {
  await Promise.all(simulators.map((simulator) => simulator.close()));
  await echo.close();
  await app.end();
});

async function simulated(name: string) {
  const dialect = providerProtocols.get(name)!;
  const simulator = await simulateProvider(dialect, { port: 0, greetingMs, greetingText });
  simulators.push(simulator);
  const custom = isStream(name);
  const fallback = await app.api<{ id: string }>('POST', '/v1/endpoints', {
    name: `fallback of ${name}`,
    type: 'agent',
    target: echo.url,
    provider_config: { protocol: 'raw' },
  });
  const endpoint = await app.api<{ id: string }>('POST', '/v1/endpoints', {
    name,
    type: 'agent',
    target: simulator.url,
    provider: custom ? 'custom' : name,
    provider_config: {
      ...agentProtocols.get(name)?.example,
      ...(!custom && { api_key: secret }),
      ...(custom && { protocol: name }),
    },
    fallback_endpoint_id: fallback.id,
  });
  const number = `+${nextNumber++}`;
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
  return { number, simulator };
}

function target() {
  const port = app.sip.addresses.find((each) => each.transport === 'udp')?.port ?? 0;
  return { host: '127.0.0.1', port, transport: 'udp' as const };
}

/** A busy machine may refuse a call for overload; a carrier tries again, and so do we. */
async function insist(wish: PlaceCallOptions): Promise<CapturedCall> {
  for (let tries = 1; ; tries += 1) {
    const recording = await placeCall(wish);
    if (recording.report().sipStatus !== 503 || tries === 20) return recording;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

/** The agent greets for four seconds; the caller interrupts, is answered, presses 9, and the agent hangs up. */
async function callProvider(name: string): Promise<void> {
  const { number, simulator } = await simulated(name);
  const samples = new Int16Array(8000 * 12);
  const at = barge.fromMs * 8;
  for (let i = 0; i < barge.ms * 8; i++) samples[at + i] = 8000 * Math.sin((2 * Math.PI * barge.hz * i) / 8000);
  const recording = await insist({
    to: number,
    target: target(),
    durationMs: 9000,
    markers: false,
    speech: { kind: 'samples', samples },
    digits: '9',
    digitsAfterMs: 3500,
  });
  const { answered, failure } = recording.report();
  if (!answered) throw new Error(`The call to ${name} was not answered: ${failure}.`);
  outcomes.set(name, { recording, record: await app.finishedCall(number), call: simulator.calls[0]! });
}

/** The provider's process is killed in the middle of its greeting, and does not come back. */
async function killProvider(name: string): Promise<void> {
  const { number, simulator } = await simulated(name);
  const ending = insist({ to: number, target: target(), durationMs: 3000, markers: false });
  const greeted = () => expect(simulator.calls[0]?.events.length ?? 0).toBeGreaterThan(1);
  await vi.waitFor(greeted, { timeout: 8000, interval: 20 });
  await new Promise((resolve) => setTimeout(resolve, 200)); // some of it is heard
  for (const call of simulator.calls) call.wire.die();
  await simulator.close();
  const recording = await ending;
  deaths.set(name, { recording, record: await app.finishedCall(number), call: simulator.calls[0]! });
}

/** Is this tone in that part of what the caller heard? */
function hears(recording: CapturedCall, hz: number, from: number, to: number): boolean {
  const part = recording.samples().subarray(from, to);
  return part.length > 0 && probeTone(part, hz).amplitude > 1000;
}

const types = (record: CallRecord) => record.events.map((event) => event.event_type);

describe.each([...providerProtocols.keys()])('a call to a simulated %s', (name) => {
  // The second try of a test judges new calls.
  beforeEach(async ({ task }) => {
    if (!task.result?.retryCount) return;
    await Promise.all([callProvider(name), killProvider(name)]);
  });

  const outcome = () => {
    const found = outcomes.get(name);
    if (found === undefined) throw new Error(`The call to ${name} did not take place.`);
    return found;
  };
  const interruptedAt = () => {
    const { recording, call } = outcome();
    const event = call.events.find((each) => each.type === 'interrupted');
    return recording.placeAt(event?.type === 'interrupted' ? event.atMs : Number.NaN);
  };

  it('the caller hears the greeting, and the agent hears the caller', () => {
    const { recording, call } = outcome();
    const at = interruptedAt();
    expect(hears(recording, 440, at - 8000, at - 400)).toBe(true);
    const heard = call.events.find((each) => each.type === 'heard');
    expect(heard?.type === 'heard' && Math.abs(heard.frequencyHz - barge.hz)).toBeLessThan(5);
  });

  it('the caller interrupts: silence within a frame or two, and nothing that comes late is heard', () => {
    const { recording } = outcome();
    const at = interruptedAt();
    // Without a flush the rest of what was sent at the pace of speech is heard.
    const quietAfterMs = agentProtocols.get(name)?.capabilities.flush.length === 0 ? 150 : 60;
    expect(hears(recording, 440, at + 8 * quietAfterMs, at + 8 * 400)).toBe(false);
    expect(hears(recording, lateHz, at, at + 8 * 600)).toBe(false);
  });

  it('the caller hears the answer', () => {
    const { recording } = outcome();
    const at = interruptedAt();
    const answers = [...Array(20).keys()].some((i) => hears(recording, 880, at + 800 * i, at + 800 * (i + 1)));
    expect(answers).toBe(true);
  });

  it('the key reaches the agent, which hangs up', () => {
    const { record, call } = outcome();
    const isRead = call.events.some((each) => each.type === 'read' && each.text.includes('9'));
    if (agentProtocols.get(name)?.capabilities.keys.as === 'none') {
      expect([isRead, record.hangup_source]).toEqual([false, 'caller']);
      return;
    }
    expect(isRead).toBe(true);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'agent_hangup', hangup_source: 'agent' });
    expect(types(record)).not.toContain('agent.failed');
    expect(types(record)).not.toContain('agent.warning');
  });

  it('the transcript has what was heard, in order', () => {
    const lines = outcome().record.transcript?.split('\n') ?? [];
    if (isStream(name)) return void expect(lines).toEqual([]);
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^agent: one two.*…$/);
    expect(lines[0]).not.toContain('twelve');
    expect(lines[1]).toMatch(/^caller: A tone of (69\d|70\d) hertz\.$/);
    expect(lines[2]).toMatch(/^agent: You sang (69\d|70\d) hertz\.$/);
  });

  it('is killed: the fallback takes over and is heard', () => {
    const { recording, record } = deaths.get(name)!;
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    expect(types(record)).toEqual(expect.arrayContaining(['agent.failed', 'agent.failover']));
    const samples = recording.samples();
    expect(hears(recording, 440, samples.length - 8000, samples.length)).toBe(true); // its own voice
    expect(record.quality_metrics).toBeDefined();
  });
});

describe('what providers get', () => {
  it('OpenAI: how much of the greeting was heard', () => {
    const { call } = outcomes.get('openai')!;
    const truncate = call.received.find((message) => message.type === 'conversation.item.truncate');
    expect(truncate).toMatchObject({ item_id: 'item_1', content_index: 0 });
    expect(truncate?.audio_end_ms).toBeGreaterThan(1000);
    expect(truncate?.audio_end_ms).toBeLessThan(2500);
  });

  it('and what they count is summed in the record', () => {
    const { record } = outcomes.get('openai')!;
    const [used] = record.quality_metrics.tokens as Record<string, number>[];
    expect(used).toMatchObject({ provider: 'openai' });
    const answers = (used?.input ?? 0) / 200;
    expect(answers).toBeGreaterThanOrEqual(2); // the greeting, and an answer
    expect(used).toMatchObject({ input_audio: 80 * answers, cached: 64 * answers, output: 50 * answers });
  });

  it('no record of a call holds a secret', () => {
    const text = JSON.stringify([...outcomes.values(), ...deaths.values()].map(({ record }) => record));
    expect(text).not.toContain(secret);
    expect(text).not.toContain('conversation_signature');
  });
});
