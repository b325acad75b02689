/** The transcript holds what was heard, in the order in which it was said, however a conversation ends; for every provider that writes one. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { CapturedCall } from '../../src/simulator/phone/phone.js';
import { type PlaceCallOptions, placeCall } from '../../src/simulator/place-call.js';
import { providerProtocols } from '../../src/simulator/providers/registry.js';
import {
  type ProviderSimulator,
  type SimulatorOptions,
  simulateProvider,
} from '../../src/simulator/providers/serve.js';
import { NAMED, PROVIDER_CONFIG } from '../support/agent-conversation.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { probeTone } from '../support/tone-probe.js';

const words = 'one two three four five six seven eight nine ten eleven twelve'.split(' ');
/** A third of a second for each word. */
const greetingMs = 4000;
const greetingHz = 440;

let app: TestApp;
let fallback: ScriptedAgent;
const simulators: ProviderSimulator[] = [];
let nextNumber = 19995557000;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
  fallback = await startScriptedAgent();
}, 60_000);

afterAll(async () => {
  await Promise.all(simulators.map((simulator) => simulator.close()));
  await fallback.close();
  await app.end();
});

interface Outcome {
  recording: CapturedCall;
  record: CallRecord;
  number: string;
}

/** A call to a simulated provider with a fallback behind it; `during` runs while the greeting is heard. */
async function call(
  provider: string,
  wish: Partial<PlaceCallOptions>,
  how: Partial<SimulatorOptions> = {},
  during: (simulator: ProviderSimulator) => Promise<void> = async () => {},
): Promise<Outcome> {
  const options = { port: 0, greetingMs, greetingText: words.join(' '), ...how };
  const simulator = await simulateProvider(providerProtocols.get(provider)!, options);
  simulators.push(simulator);
  const create = (body: object) => app.api<{ id: string }>('POST', '/v1/endpoints', { type: 'agent', ...body });
  const after = await create({
    name: `fallback of ${provider}`,
    target: fallback.url,
    provider_config: { protocol: 'raw' },
  });
  const tools = [{ name: 'hang_up' }, { name: 'transfer_call' }];
  const endpoint = await create({
    name: provider,
    target: simulator.url,
    provider,
    provider_config: { ...PROVIDER_CONFIG[provider], tools },
    fallback_endpoint_id: after.id,
  });
  const number = `+${nextNumber++}`;
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
  const port = app.sip.addresses.find((each) => each.transport === 'udp')?.port ?? 0;
  const target = { host: '127.0.0.1', port, transport: 'udp' as const };
  const silence = { kind: 'samples' as const, samples: new Int16Array(8000 * 8) };
  const ending = placeCall({ to: number, target, markers: false, durationMs: 8000, speech: silence, ...wish });
  await during(simulator);
  const recording = await ending;
  expect(recording.report().answered, `${provider} answered`).toBe(true);
  return { recording, record: await app.finishedCall(number), number };
}

/** How much of the greeting the caller heard. */
function heardMs(recording: CapturedCall): number {
  const samples = recording.samples();
  let blocks = 0;
  for (let at = 0; at + 160 <= samples.length; at += 160)
    if (probeTone(samples.subarray(at, at + 160), greetingHz).amplitude > 1000) blocks += 1;
  return blocks * 20;
}

const lines = (record: CallRecord) => record.transcript?.split('\n') ?? [];

/** The words of the first line are those that were heard, give or take one. */
function expectWhatWasHeard(line: string | undefined, recording: CapturedCall): void {
  const heard = heardMs(recording);
  expect(heard).toBeGreaterThan(600);
  expect(heard).toBeLessThan(greetingMs - 500);
  const told = (line ?? '')
    .replace(/^agent: /, '')
    .replace(/…$/, '')
    .split(' ');
  expect(told).toEqual(words.slice(0, told.length));
  expect(line).toMatch(/^agent: one .*…$/);
  expect(Math.abs(told.length - (heard / greetingMs) * words.length)).toBeLessThanOrEqual(1.5);
}

function finals(record: CallRecord): unknown[] {
  return record.events.filter((each) => each.event_type === 'transcript.final').map((each) => each.event_data);
}

async function greeted(simulator: ProviderSimulator, heardForMs = 1500): Promise<void> {
  const said = () => expect(simulator.calls[0]?.events.some(({ type }) => type === 'said')).toBe(true);
  await vi.waitFor(said, { timeout: 8000, interval: 10 });
  await new Promise((resolve) => setTimeout(resolve, heardForMs)); // so much of it is heard
}

// Calls mostly wait, and each has a number and a simulator of its own.
describe.concurrent.each(NAMED)('%s', (provider) => {
  it('the caller hangs up in the middle of a sentence', async () => {
    const { recording, record } = await call(provider, { durationMs: 1800 });
    expect(lines(record)).toHaveLength(1);
    expectWhatWasHeard(lines(record)[0], recording);
    expect(finals(record)).toEqual([{ speaker: 'agent', text: lines(record)[0]?.slice('agent: '.length) }]);
    expect(record.hangup_source).toBe('caller');
  });

  it('the agent breaks off in the middle of a sentence: neither the record nor the next agent gets the rest', async () => {
    const { recording, record } = await call(provider, { durationMs: 6000 }, {}, async (simulator) => {
      await greeted(simulator);
      for (const each of simulator.calls) each.wire.die();
      await simulator.close();
    });
    expect(lines(record)).toHaveLength(1);
    expectWhatWasHeard(lines(record)[0], recording);
    const start = fallback.messages.find(({ event, call_id }) => event === 'start' && call_id === record.id);
    expect(start?.history).toEqual([{ speaker: 'agent', text: lines(record)[0]?.slice('agent: '.length) }]);
  });

  it('the agent hangs up: its last words are heard, and told, to the end', async () => {
    const { recording, record } = await call(provider, {}, { greetingMs: 1500 }, async (simulator) => {
      await greeted(simulator, 500);
      simulator.calls[0]?.wire.close(1000);
    });
    // A service whose sessions are resumed is asked again, and has hung up when the caller does.
    const greetings = lines(record).filter((line) => line === `agent: ${words.join(' ')}`);
    expect(greetings).toHaveLength(1);
    expect(heardMs(recording)).toBeGreaterThan(1400);
    expect(record.hangup_source).toBe('agent');
  });

  it('the agent has hung up, and the caller does not wait for its last words', async () => {
    const { recording, record } = await call(provider, { durationMs: 1800 }, {}, async (simulator) => {
      await greeted(simulator, 500);
      simulator.calls[0]?.wire.close(1000);
    });
    expect(lines(record)).toHaveLength(1);
    expectWhatWasHeard(lines(record)[0], recording);
  });

  it('the agent transfers the caller in the middle of a sentence', async () => {
    const { record } = await call(provider, { durationMs: 3500 }, {}, async (simulator) => {
      await greeted(simulator);
      simulator.calls[0]?.agent.read('8');
    });
    expect(record.events.map(({ event_type }) => event_type)).toContain('transfer.started');
    expect(lines(record)[0]).toMatch(/^agent: one two three/);
  });

  it('the caller is written down after the answer was heard, and stands before it', async () => {
    const samples = new Int16Array(8000 * 8);
    for (let i = 0; i < 8 * 400; i++) samples[8 * 1200 + i] = 8000 * Math.sin((2 * Math.PI * 700 * i) / 8000);
    const { record } = await call(
      provider,
      { durationMs: 6500, speech: { kind: 'samples', samples } },
      { greetingMs: 400, greetingText: 'Hello.', answerDelayMs: 100, transcriptionDelayMs: 1200 },
    );
    expect(lines(record)).toEqual([
      'agent: Hello.',
      expect.stringMatching(/^caller: A tone of (69\d|70\d) hertz\.$/),
      expect.stringMatching(/^agent: You sang (69\d|70\d) hertz\.$/),
    ]);
  });
});
