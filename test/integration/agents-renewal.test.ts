/** Sessions that end by their limit, with real sockets against the simulators; the limits are shortened. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { AgentConversation, type Wish } from '../support/agent-conversation.js';
import { watchResources } from '../support/agent-rig.js';

let resources: ReturnType<typeof watchResources>;
let c: AgentConversation;

beforeEach(() => {
  resources = watchResources();
});

afterEach(async () => {
  await c.end();
  await resources.expectNone();
});

const reconnected = () => c.events.filter(({ type }) => type === 'reconnected').length;
const ended = async () => (await Promise.race([c.socket.ended, Promise.resolve(null)]))?.by ?? 'runs';
const heardHz = (call = c.call) => call.events.flatMap((each) => (each.type === 'heard' ? [each.frequencyHz] : []));
const near = (hz: number) => expect.closeTo(hz, -1);

/** The protocols with another limit of their sessions. */
function limited(
  provider: string,
  sessionLimitMs: number,
  limits: Partial<NonNullable<Wish['options']>['limits']>,
): Wish {
  const protocol = { ...agentProtocols.get(provider)!, sessionLimitMs };
  return { options: { protocols: new Map([[provider, protocol]]), limits } };
}

/** It greets, and all of it is heard. */
async function greeted(provider: string, wish: Wish) {
  c = await AgentConversation.start(provider, wish);
  c.silence(40);
  await c.until(() => c.heard().length > 0, 'it greets');
}

async function nextSessionAnswers() {
  await c.until(() => reconnected() === 1, 'the next session stands');
  expect(c.simulator.calls).toHaveLength(2);
  c.silence(400);
  c.speak(700, 300);
  c.silence(600);
  const said = () => c.call.events.some(({ type }) => type === 'said');
  await c.until(() => heardHz().length > 0 && said(), 'the next session answers');
  expect(heardHz().at(-1)).toEqual(near(700));
  expect(await ended()).toBe('runs');
}

describe.each(['openai', 'azure_openai', 'xai', 'deepgram', 'hume', 'amazon_nova_sonic'])('%s', (provider) => {
  test('the next session takes over in the pause behind what was said, before the limit', async () => {
    const wish = limited(provider, 60_000, { renewBeforeMs: 59_900 });
    await greeted(provider, { ...wish, simulator: { greetingMs: 500 } });
    const greetedAt = performance.now();
    await c.until(() => performance.now() - greetedAt > 200, 'it is time to wait for a pause');
    expect(c.hooks.marks).toContain('\0pause');
    expect(c.simulator.calls).toHaveLength(1);
    c.playOut();
    await nextSessionAnswers();
  });

  test('without a pause, it takes over at the last moment', async () => {
    const wish = limited(provider, 60_000, { renewBeforeMs: 59_900, renewLatestMs: 59_400 });
    await greeted(provider, wish);
    await nextSessionAnswers();
  });

  test('a close at the limit is no hang-up, whatever it says', async () => {
    const wish = limited(provider, 300, { renewBeforeMs: 0, renewLatestMs: -10_000 });
    await greeted(provider, wish);
    const greetedAt = performance.now();
    await c.until(() => performance.now() - greetedAt > 320, 'time is up');
    c.call.wire.close(1000);
    await nextSessionAnswers();
  });

  test('what the caller says between two sessions is heard by the next one', async () => {
    const wish = limited(provider, 60_000, {});
    await greeted(provider, { ...wish, simulator: { sessionMs: 200 } });
    await c.until(() => c.simulator.calls[0]!.agent.ended, 'the session ends');
    c.speak(900, 300);
    c.silence(600);
    await c.until(() => heardHz().length > 0, 'the next session hears it');
    expect(heardHz()[0]).toEqual(near(900));
  });
});

describe('a session that the provider ends', () => {
  test.each(['openai', 'azure_openai', 'xai', 'deepgram', 'gemini', 'hume', 'assemblyai'])(
    '%s: the conversation goes on',
    async (provider) => {
      await greeted(provider, { simulator: { sessionMs: 200, greetingMs: 300 } });
      await c.until(() => c.call.sent.some((message) => 'goAway' in message) || reconnected() === 1, 'it is announced');
      if (provider === 'gemini') {
        await c.until(() => c.hooks.marks.includes('\0pause'), 'the pause is looked for');
        c.playOut();
      }
      await nextSessionAnswers();
    },
  );

  test('openai: the next session gets the transcript and the pending answer', async () => {
    await greeted('openai', { simulator: { sessionMs: 400, answerDelayMs: 10_000 } });
    c.speak(700, 200);
    c.silence(500);
    await c.until(() => reconnected() === 1, 'the next session stands');
    await c.until(() => c.call.received.some(({ type }) => type === 'response.create'), 'an answer is asked for');
    const items = c.call.received.filter(({ type }) => type === 'conversation.item.create');
    expect(items.map(({ item }) => (item as { role: string }).role)).toEqual(['assistant', 'user']);
  });

  test('assemblyai: the next session has the conversation so far in its prompt', async () => {
    await greeted('assemblyai', { simulator: { sessionMs: 400, greetingMs: 200 } });
    c.playOut();
    await c.until(() => reconnected() === 1, 'the next session stands');
    const prompt = (at: number) =>
      (c.simulator.calls[at]!.received[0]!.session as { system_prompt?: string }).system_prompt ?? '';
    expect(prompt(0)).not.toContain('The call so far');
    expect(prompt(1)).toMatch(/The call so far:\nagent: ./i);
  });

  test('gemini: resumes by its handle, and without one that is taken begins anew', async () => {
    await greeted('gemini', { simulator: { sessionMs: 60_000 } });
    const setup = (at: number) =>
      c.simulator.calls[at]!.received[0]!.setup as { sessionResumption: { handle?: string } };
    c.call.wire.close(1011);
    await c.until(() => reconnected() === 1, 'the next session stands');
    expect(setup(0).sessionResumption.handle).toBeUndefined();
    expect(setup(1).sessionResumption.handle).toEqual(expect.any(String));
    c.simulator.forget();
    c.call.wire.close(1011);
    await c.until(() => reconnected() === 2, 'another one stands');
    expect(c.simulator.calls).toHaveLength(4);
    expect(setup(2).sessionResumption.handle).toEqual(expect.any(String));
    expect(setup(3).sessionResumption.handle).toBeUndefined();
    await c.until(() => c.call.received.some((message) => 'clientContent' in message), 'it is told what was said');
  });

  test('hume: resumes its group', async () => {
    await greeted('hume', { simulator: { sessionMs: 100 } });
    await c.until(() => reconnected() === 1, 'the next session stands');
    expect(c.call.url.searchParams.get('resumed_chat_group_id')).toBe(c.simulator.calls[0]!.sent[0]!.chat_group_id);
  });

  test.each(['elevenlabs', 'ultravox', 'vapi'])('%s cannot resume: it has hung up', async (provider) => {
    await greeted(provider, { simulator: { sessionMs: 100 } });
    expect((await c.socket.ended).by).toBe('hangup');
    expect(reconnected()).toBe(0);
  });
});

test('a service that goes away for good is tried a few times, and then it failed', async () => {
  await greeted('gemini', { options: { limits: { renewPauseMs: 10 } } });
  const { call } = c;
  await Promise.all([c.simulator.close(), c.socket.ended]);
  expect(call.events.length).toBeGreaterThan(0);
  expect((await c.socket.ended).by).toBe('failed');
});

test('a silent agent is kept alive by what its provider asks for', async () => {
  c = await AgentConversation.open('deepgram', { options: { limits: { pingIntervalMs: 1000 } } });
  await c.socket.ready;
  const realNow = performance.now.bind(performance);
  performance.now = () => realNow() + 10_000;
  try {
    await c.until(() => c.call.received.some(({ type }) => type === 'KeepAlive'), 'it is kept alive').catch(() => {});
  } finally {
    performance.now = realNow;
  }
  expect(c.call.received.map(({ type }) => type)).toContain('KeepAlive');
});
