/**
 * Everything that our clients and our simulators say in a conversation is held against the types of the providers' own SDKs: each message
 * is written down as a literal of its type, and the compiler judges, fields that nobody knows included.
 */
import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AgentConversation, type Wish } from '../support/agent-conversation.js';

type Message = Record<string, unknown>;

/** How an SDK calls what goes over its socket. */
interface SdkTypes {
  declarations: string;
  wish: Wish;
}

const TOOLS = { tools: [{ name: 'hang_up' }, { name: 'transfer_call' }] };
const CONFIG = { instructions: 'Be kind.', voice: 'voice_1', language: 'en', ...TOOLS };
const EARLIER = {
  history: [
    { speaker: 'caller' as const, text: 'Hi.' },
    { speaker: 'agent' as const, text: 'Hello.' },
  ],
};

const SDK: Record<string, SdkTypes> = {
  openai: {
    declarations: `
      import type { RealtimeClientEvent, RealtimeServerEvent } from 'openai/resources/realtime/realtime';
      type Ours = RealtimeClientEvent;
      type Theirs = RealtimeServerEvent;`,
    wish: { config: CONFIG },
  },
  elevenlabs: {
    declarations: `
      import type * as sdk from '@elevenlabs/types';
      type Ours = sdk.UserAudio | sdk.PongClientToOrchestratorEvent | sdk.ConversationInitiationClientToOrchestratorEvent
        | sdk.UserMessageClientToOrchestratorEvent | sdk.ContextualUpdateClientToOrchestratorEvent
        | sdk.UserActivityClientToOrchestratorEvent
        | sdk.ClientToolResultClientToOrchestratorEvent;
      type Theirs = sdk.ConversationMetadata | sdk.AudioClientEvent | sdk.Interruption | sdk.AgentResponseClientEvent
        | sdk.AgentResponseCorrectionClientEvent | sdk.UserTranscriptionClientEvent | sdk.Ping
        | sdk.ClientToolCallClientEvent | sdk.AgentToolResponseClientEvent;`,
    wish: { config: { ...CONFIG, greeting: 'Hello.' } },
  },
  deepgram: {
    declarations: `
      import type { agent } from '@deepgram/sdk';
      type Ours = agent.AgentV1Settings | agent.AgentV1UpdatePrompt | agent.AgentV1InjectUserMessage | agent.AgentV1KeepAlive
        | agent.AgentV1SendFunctionCallResponse;
      type Theirs = agent.AgentV1Welcome | agent.AgentV1SettingsApplied | agent.AgentV1ConversationText
        | agent.AgentV1UserStartedSpeaking | agent.AgentV1AgentThinking | agent.AgentV1FunctionCallRequest
        | agent.AgentV1AgentStartedSpeaking | agent.AgentV1AgentAudioDone | agent.AgentV1Error;`,
    wish: { config: { ...CONFIG, greeting: 'Hello.', temperature: 0.5 } },
  },
  gemini: {
    // The SDK's enums are plain strings on the wire, and what it computes itself is not there.
    declarations: `
      import type { LiveClientMessage, LiveServerMessage } from '@google/genai';
      type Wire<T> = T extends string ? \`\${T}\` : T extends (infer U)[] ? Wire<U>[]
        : T extends object ? { [K in keyof T]: Wire<T[K]> } : T;
      type Ours = Wire<LiveClientMessage>;
      type Theirs = Wire<Omit<LiveServerMessage, 'text' | 'data'>>;`,
    wish: { config: { ...CONFIG, temperature: 0.5 } },
  },
  hume: {
    declarations: `
      import type { serialization } from 'hume';
      type Ours = serialization.empathicVoice.PublishEvent.Raw;
      type Theirs = serialization.empathicVoice.SubscribeEvent.Raw;`,
    wish: { config: { ...CONFIG, greeting: 'Hello.' } },
  },
};

const folder = path.resolve(`node_modules/.cache/provider-types-${process.pid}`);
const said: Record<string, { ours: Message[]; theirs: Message[] }> = {};
/** What the compiler has to say, a line each. */
let judgement: string[] = [];

beforeAll(async () => {
  await Promise.all(
    Object.entries(SDK).map(async ([provider, { wish }]) => {
      said[provider] = await converse(provider, wish);
    }),
  );
  await mkdir(folder, { recursive: true });
  const files = Object.entries(SDK).map(async ([provider, { declarations }]) => {
    const { ours, theirs } = said[provider]!;
    const literals = [
      ...ours.map((each, i) => `export const ours${i}: Ours = ${JSON.stringify(each)};`),
      ...theirs.map((each, i) => `export const theirs${i}: Theirs = ${JSON.stringify(each)};`),
    ];
    // A message that no type could be wrong about would prove nothing.
    const control = `// @ts-expect-error\nexport const wrong: Ours | Theirs = { type: 'no.such.message' };`;
    await writeFile(path.join(folder, `${provider}.ts`), [declarations, ...literals, control, ''].join('\n'));
  });
  await Promise.all(files);
  await writeFile(
    path.join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        target: 'ES2022',
        lib: ['ES2023', 'DOM'],
        module: 'NodeNext',
        types: ['node'],
        strict: true,
        noEmit: true,
        skipLibCheck: true,
      },
      files: Object.keys(SDK).map((provider) => `${provider}.ts`),
    }),
  );
  const tsc = path.resolve('node_modules/typescript/bin/tsc');
  const run = promisify(execFile)(process.execPath, [tsc, '-p', folder, '--pretty', 'false'], { timeout: 50_000 });
  const output = await run.then(({ stdout }) => stdout).catch((error: { stdout?: string }) => error.stdout ?? '');
  judgement = output.split('\n').filter((line) => line !== '');
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** Everything there is to say, once: greeting, interruption, answer, keys, transfer, hang-up; each message of a shape once. */
async function converse(provider: string, wish: Wish) {
  const c = await AgentConversation.start(provider, {
    ...wish,
    options: { limits: { digitPauseMs: 10 } },
    simulator: { greetingMs: 3000 },
  });
  try {
    c.silence(40);
    await c.until(() => c.heard().length > 0, 'it greets');
    c.speak(700, 200);
    await c.until(() => c.hooks.cleared > 0, 'it is interrupted');
    c.silence(500);
    await c.until(() => c.call.events.filter(({ type }) => type === 'said').length === 2, 'it answers');
    c.press('8#');
    await c.until(() => c.events.some(({ type }) => type === 'transfer'), 'it transfers');
    c.press('9#');
    await c.until(() => c.call.received.some(isLastAnswer) || c.call.agent.ended, 'it hangs up');
    const second = await AgentConversation.start(provider, { ...wish, target: { call: { ...c.facts, ...EARLIER } } });
    second.silence(40);
    await second.until(() => second.call.events.length > 0 && second.call.received.length > 0, 'it began');
    const ours = [...c.call.received, ...second.call.received];
    const theirs = [...c.call.sent];
    await second.end();
    return { ours: shapes(ours), theirs: shapes(theirs) };
  } finally {
    await c.end();
  }
}

const isLastAnswer = (message: Message) => /The call ends as soon/.test(JSON.stringify(message));

/** One of each shape, with audio made short. */
function shapes(messages: Message[]): Message[] {
  const byShape = new Map<string, Message>();
  for (const message of messages) {
    const short = JSON.parse(JSON.stringify(message), (_, value) =>
      typeof value === 'string' && value.length > 200 ? value.slice(0, 200) : value,
    ) as Message;
    const shape = JSON.stringify(short, (_, value) => (typeof value === 'number' ? 0 : value));
    const known = [...byShape.keys()].some((each) => each === shape);
    const kind = `${String(short.type)} ${JSON.stringify(keysOf(short))}`;
    if (!known && !byShape.has(kind)) byShape.set(kind, short);
  }
  return [...byShape.values()];
}

function keysOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(keysOf);
  if (typeof value !== 'object' || value === null) return typeof value;
  return Object.entries(value).map(([key, inner]) => [key, keysOf(inner)]);
}

describe.each(Object.keys(SDK))('%s', (provider) => {
  test('every message of ours and of the simulator is of a type of the SDK', () => {
    const own = judgement.filter((line) => line.includes(`${provider}.ts`));
    expect(own).toEqual([]);
  });

  test('and there were enough of them', () => {
    const { ours, theirs } = said[provider]!;
    expect(ours.length).toBeGreaterThanOrEqual(4);
    expect(theirs.length).toBeGreaterThanOrEqual(6);
  });
});

test('the compiler judged nothing but these files', () => {
  expect(judgement.filter((line) => !/(^|\/)(openai|elevenlabs|deepgram|gemini|hume)\.ts|^\s/.test(line))).toEqual([]);
});
