/** The capabilities that each provider's descriptor claims: what its protocol does in a conversation, over real sockets. */
import { afterEach, describe, expect, test } from 'vitest';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import type { TokenUsage } from '../../media/agents/token-usage.js';
import { lateHz } from '../../src/simulator/providers/agent.js';
import { AgentConversation, NAMED, type Wish } from '../support/agent-conversation.js';
import { probeTone } from '../support/tone-probe.js';

let c: AgentConversation | undefined;
afterEach(async () => {
  await c?.end();
  c = undefined;
});

async function greeted(provider: string, wish: Wish = {}): Promise<AgentConversation> {
  const tools: Wish['config'] = NAMED.includes(provider)
    ? { tools: [{ name: 'hang_up' }, { name: 'transfer_call' }] }
    : {};
  const of = await AgentConversation.start(provider, {
    config: tools,
    simulator: { greetingMs: 2000 },
    options: { limits: { digitPauseMs: 10, pingIntervalMs: 20 } },
    ...wish,
  });
  c = of;
  of.silence(40);
  await of.until(() => of.heard().length > 0, 'it greets');
  return of;
}

const heardHz = (of: AgentConversation) =>
  of.call.events.flatMap((each) => (each.type === 'heard' ? [each.frequencyHz] : []));
const text = (messages: unknown[]) => JSON.stringify(messages);

describe.each([...agentProtocols.values()])('$provider', ({ provider, capabilities }) => {
  const { flush, heard, keys, hangUp, transfer, keepAlive, tokens } = capabilities;
  /** Sent on its own by a named provider's client; stream protocols answer the agent's marks. */
  const reports = keys.as === 'text' ? heard : undefined;
  /** The agent reads these keys; where keys do not arrive, it decides so by itself. */
  const tell = (of: AgentConversation, digits: string) =>
    keys.as === 'none' ? of.call.agent.read(digits) : of.press(digits);

  test('an interruption flushes once, reports what was heard, and late audio is dropped', async () => {
    const of = await greeted(provider);
    of.speak(700, 200);
    if (flush.length === 0) {
      of.silence(500);
      await of.until(() => of.call.events.filter(({ type }) => type === 'said').length === 2, 'it answered');
      expect(of.hooks.cleared).toBe(0);
      return;
    }
    await of.until(() => of.hooks.cleared > 0, 'the queue is flushed');
    of.silence(500);
    await of.until(() => of.hooks.heard().length > (of.hooks.clears[0] ?? 0), 'the answer comes');
    await of.until(() => of.call.events.filter(({ type }) => type === 'said').length === 2, 'it answered');
    expect(text(of.call.sent)).toContain(`"${flush[0]}"`);
    const perSample = of.socket.replyFormat.encoding === 'l16' ? 2 : 1;
    const rateHz = of.socket.replyFormat.sampleRateHz;
    const behind = of.heard().subarray((of.hooks.clears.at(-1) ?? 0) / perSample);
    expect(probeTone(behind.subarray(0, rateHz / 5), lateHz, rateHz).amplitude).toBeLessThan(500);
    const told = of.call.received.filter(({ type }) => type === reports);
    if (reports !== undefined) expect(told).toMatchObject([{ audio_end_ms: 100, content_index: 0 }]);
  });

  test('the tokens of an answer are counted, where it tells them', async () => {
    const of = await greeted(provider);
    await of.until(() => of.call.events.some(({ type }) => type === 'said'), 'it has greeted');
    const used = () => of.events.filter((event) => event.type === 'usage');
    if (tokens === undefined) return expect(used()).toEqual([]);
    await of.until(() => used().length > 0, 'tokens are counted');
    expect(text(of.call.sent)).toContain(`"${tokens}"`);
    const [event] = used() as { provider?: string; tokens: TokenUsage }[];
    expect(event?.provider).toBe(provider);
    const { input = 0, inputText = 0, inputAudio = 0, output = 0 } = event?.tokens ?? {};
    expect(input).toBe(200);
    expect(inputText + inputAudio).toBe(input);
    expect(output).toBeGreaterThanOrEqual(50);
  });

  test('keys arrive: natively, or together as text', async () => {
    const of = await greeted(provider);
    of.press('12');
    const read = () => of.call.events.flatMap((each) => (each.type === 'read' ? [each.text] : []));
    const whole = (each: string) => each.includes('pressed 12');
    if (keys.as === 'none') {
      of.speak(700, 200);
      of.silence(500);
      await of.until(() => heardHz(of).length > 0, 'what follows is heard');
      expect(read()).toEqual([]);
      return;
    }
    if (keys.as === 'key') await of.until(() => read().join() === '1,2', 'each is read');
    else await of.until(() => read().some(whole), 'they are read');
    expect(text(of.call.received)).toContain(`"${keys.message}"`);
  });

  test('its hang-up ends the call when its last words were heard', async () => {
    const of = await greeted(provider);
    tell(of, '9');
    if (hangUp.by === 'close') {
      expect(await of.socket.ended).toMatchObject({ by: 'hangup', closeCode: 1000 });
      return;
    }
    await of.until(() => of.hooks.marks.some((name) => name.includes('goodbye')), 'it says goodbye');
    expect(of.events.map(({ type }) => type)).not.toContain('hangup');
    of.playOut();
    expect(of.events.map(({ type }) => type)).toContain('hangup');
  });

  test('its transfer is carried out, where it can ask for one', async () => {
    const of = await greeted(provider);
    tell(of, '8');
    const transfers = () => of.events.filter(({ type }) => type === 'transfer');
    if (transfer === undefined) {
      await of.until(() => of.call.events.some(({ type }) => type === 'read'), 'the key is read');
      expect(transfers()).toEqual([]);
      return;
    }
    await of.until(() => transfers().length > 0, 'the transfer is asked for');
    expect(transfers()).toEqual([{ type: 'transfer', to: '+12025550199' }]);
    if (transfer === 'function')
      await of.until(() => text(of.call.received).includes('The transfer has begun.'), 'the function is answered');
  });

  test('on hold it hears silence, and afterwards the caller again', async () => {
    const of = await greeted(provider);
    const { framesSent } = of.socket.counters();
    of.socket.command({ kind: 'hold', on: true });
    of.speak(900, 300);
    of.silence(500);
    of.socket.command({ kind: 'hold', on: false });
    of.speak(700, 300);
    of.silence(500);
    await of.until(() => heardHz(of).length > 0, 'it hears');
    expect(heardHz(of)).toEqual([expect.closeTo(700, -1)]);
    expect(of.socket.counters().framesSent).toBe(framesSent + (800 + 800) / 20);
  });

  test('is kept alive while nothing else is sent', async () => {
    const of = await greeted(provider);
    const realNow = performance.now.bind(performance);
    performance.now = () => realNow() + 16_000;
    try {
      await new Promise((resolve) => setTimeout(resolve, 60)); // real time: a few pings
    } finally {
      performance.now = realNow;
    }
    const messages = of.call.received.filter(({ type }) => type === keepAlive);
    if (keepAlive !== undefined) expect(messages.length).toBeGreaterThan(0);
    expect(await Promise.race([of.socket.ended, Promise.resolve('runs')])).toBe('runs');
  });
});
