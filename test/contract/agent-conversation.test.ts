/** The table of docs/providers/README.md, cell by cell: what each provider's protocol does in a conversation, over real sockets. */
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { lateHz } from '../../src/simulator/providers/agent.js';
import { AgentConversation, NAMED, STREAMS, type Wish } from '../support/agent-conversation.js';
import { probeTone } from '../support/tone-probe.js';

interface Row {
  /** The signal that flushes the queue, as it stands in the message. */
  flush: string;
  /** The message that says how much was heard. */
  heard?: string;
  /** The field and value by which keys arrive. */
  keys: string;
  hangUp: 'function' | 'close' | 'signal';
  transfer?: 'function' | 'signal';
  keepAlive?: string;
}

const TABLE: Record<string, Row> = {
  openai: {
    flush: 'input_audio_buffer.speech_started',
    heard: 'conversation.item.truncate',
    keys: 'conversation.item.create',
    hangUp: 'function',
    transfer: 'function',
  },
  elevenlabs: {
    flush: 'interruption',
    keys: 'user_message',
    hangUp: 'close',
    transfer: 'function',
    keepAlive: 'user_activity',
  },
  deepgram: {
    flush: 'UserStartedSpeaking',
    keys: 'InjectUserMessage',
    hangUp: 'function',
    transfer: 'function',
    keepAlive: 'KeepAlive',
  },
  gemini: { flush: 'interrupted', keys: 'clientContent', hangUp: 'function', transfer: 'function' },
  ultravox: { flush: 'playback_clear_buffer', keys: 'user_text_message', hangUp: 'close', transfer: 'function' },
  hume: { flush: 'user_interruption', keys: 'user_input', hangUp: 'function', transfer: 'function' },
  vapi: { flush: 'user-interrupted', keys: 'add-message', hangUp: 'signal', transfer: 'signal' },
  twilio: { flush: 'clear', keys: 'dtmf', hangUp: 'close' },
  telnyx: { flush: 'clear', keys: 'dtmf', hangUp: 'close' },
  plivo: { flush: 'clearAudio', keys: 'dtmf', hangUp: 'close' },
  vonage: { flush: 'clear', keys: 'websocket:dtmf', hangUp: 'close' },
  raw: { flush: 'clear', keys: 'dtmf', hangUp: 'close', transfer: 'signal' },
};

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
const page = readFileSync('docs/providers/README.md', 'utf8');

describe.each(Object.entries(TABLE))('%s', (provider, row) => {
  test('has its row in the documentation, with these words', () => {
    const line = page.split('\n').find((each) => each.startsWith(`| \`${provider}\` | \``)) ?? '';
    for (const word of [row.flush, row.heard, row.keepAlive]) if (word !== undefined) expect(line).toContain(word);
    expect(line.split('|')[5]).toContain(STREAMS.includes(provider) ? row.keys : 'text');
    expect(line.split('|')[7]?.trim()).toBe(row.transfer ?? 'no');
  });

  test('an interruption flushes once, is told of what was heard, and nothing late is passed on', async () => {
    const of = await greeted(provider);
    of.speak(700, 200);
    await of.until(() => of.hooks.cleared > 0, 'the queue is flushed');
    of.silence(500);
    await of.until(() => of.hooks.heard().length > (of.hooks.clears[0] ?? 0), 'the answer comes');
    await of.until(() => of.call.events.filter(({ type }) => type === 'said').length === 2, 'it answered');
    expect(text(of.call.sent)).toContain(`"${row.flush}"`);
    const perSample = of.socket.replyFormat.encoding === 'l16' ? 2 : 1;
    const rateHz = of.socket.replyFormat.sampleRateHz;
    const behind = of.heard().subarray((of.hooks.clears.at(-1) ?? 0) / perSample);
    expect(probeTone(behind.subarray(0, rateHz / 5), lateHz, rateHz).amplitude).toBeLessThan(500);
    const told = of.call.received.filter(({ type }) => type === row.heard);
    if (row.heard !== undefined) expect(told).toMatchObject([{ audio_end_ms: 100, content_index: 0 }]);
  });

  test('keys arrive: natively, or together as text', async () => {
    const of = await greeted(provider);
    of.press('12');
    const read = () => of.call.events.flatMap((each) => (each.type === 'read' ? [each.text] : []));
    const whole = (each: string) => each.includes('pressed 12');
    if (STREAMS.includes(provider)) await of.until(() => read().join() === '1,2', 'each is read');
    else await of.until(() => read().some(whole), 'they are read');
    expect(text(of.call.received)).toContain(`"${row.keys}"`);
  });

  test('its hang-up ends the call when its last words were heard', async () => {
    const of = await greeted(provider);
    of.press('9');
    if (row.hangUp === 'close') {
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
    of.press('8');
    const transfers = () => of.events.filter(({ type }) => type === 'transfer');
    if (row.transfer === undefined) {
      await of.until(() => of.call.events.some(({ type }) => type === 'read'), 'the key is read');
      expect(transfers()).toEqual([]);
      return;
    }
    await of.until(() => transfers().length > 0, 'the transfer is asked for');
    expect(transfers()).toEqual([{ type: 'transfer', to: '+12025550199' }]);
    if (row.transfer === 'function')
      await of.until(() => text(of.call.received).includes('The transfer has begun.'), 'the function is answered');
  });

  test('on hold it hears silence, and afterwards the caller again', async () => {
    const of = await greeted(provider);
    of.socket.command({ kind: 'hold', on: true });
    of.speak(900, 300);
    of.silence(500);
    of.socket.command({ kind: 'hold', on: false });
    of.speak(700, 300);
    of.silence(500);
    await of.until(() => heardHz(of).length > 0, 'it hears');
    expect(heardHz(of)).toEqual([expect.closeTo(700, -1)]);
    expect(of.socket.counters().framesSent).toBe((40 + 800 + 800) / 20);
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
    const messages = of.call.received.filter(({ type }) => type === row.keepAlive);
    if (row.keepAlive !== undefined) expect(messages.length).toBeGreaterThan(0);
    expect(await Promise.race([of.socket.ended, Promise.resolve('runs')])).toBe('runs');
  });
});
