/** The providers' own client libraries hold a conversation with our simulators. */
import { DeepgramClient } from '@deepgram/sdk';
import { GoogleGenAI, type LiveServerMessage, Modality } from '@google/genai';
import { HumeClient, serialization } from 'hume';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import type { RealtimeServerEvent } from 'openai/resources/realtime/realtime';
import { afterEach, expect, test } from 'vitest';
import { tone } from '../../examples/tone-agent/sound.js';
import { readWav } from '../../media/audio/wav.js';
import { decodeAudio, encodeAudio } from '../../src/simulator/providers/codec.js';
import { providerProtocols } from '../../src/simulator/providers/registry.js';
import {
  type ProviderSimulator,
  type SimulatorOptions,
  simulateProvider,
} from '../../src/simulator/providers/serve.js';
import { selfSigned } from '../support/certificate.js';
import { probeTone } from '../support/tone-probe.js';

let simulator: ProviderSimulator;

afterEach(() => simulator.close());

async function simulate(provider: string, options: Partial<SimulatorOptions> = {}) {
  simulator = await simulateProvider(providerProtocols.get(provider)!, {
    port: 0,
    greetingMs: 3000,
    answerDelayMs: 0,
    ...options,
  });
  return simulator;
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const limitAt = performance.now() + 5000;
  while (!condition()) {
    if (performance.now() > limitAt) throw new Error(`Waited 5 s until ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The greeting is a tone of 440 Hz, and an answer one of 880 Hz. */
function expectTone(samples: Int16Array, hz: number, rateHz: number) {
  expect(samples.length).toBeGreaterThan(0);
  const at8k = samples.filter((_, i) => i % (rateHz / 8000) === 0).subarray(0, 3000);
  expect(probeTone(at8k, hz).amplitude).toBeGreaterThan(5000);
}

const joined = (parts: Int16Array[]) => Int16Array.from(parts.flatMap((part) => [...part]));

/** Speech and the quiet that ends it. */
function utterance(rateHz: number): Int16Array {
  return joined([tone(700, 200, rateHz), new Int16Array(rateHz / 2)]);
}

test('openai', async () => {
  const { port } = await simulate('openai', { tls: selfSigned() });
  const client = new OpenAI({ apiKey: 'sk-test', baseURL: `https://127.0.0.1:${port}/v1` });
  const options = { rejectUnauthorized: false };
  const session = await OpenAIRealtimeWS.create(client, { model: 'gpt-realtime', options });
  const events: RealtimeServerEvent[] = [];
  session.on('event', (event) => events.push(event));
  const types = () => events.map(({ type }) => type as string);
  const audio = () => {
    const deltas = events.filter((event) => event.type === 'response.output_audio.delta');
    return joined(deltas.map(({ delta }) => decodeAudio(Buffer.from(delta, 'base64'), 'ulaw')));
  };
  await until(() => types().includes('session.created'), 'the session is created');
  const format = { type: 'audio/pcmu' } as const;
  session.send({
    type: 'session.update',
    session: { type: 'realtime', audio: { input: { format }, output: { format } } },
  });
  session.send({ type: 'response.create' });
  await until(() => types().includes('response.done'), 'it greeted');
  expectTone(audio(), 440, 8000);
  events.length = 0;
  const append = encodeAudio(utterance(8000), 'ulaw').toString('base64');
  session.send({ type: 'input_audio_buffer.append', audio: append });
  await until(() => types().includes('response.done'), 'it answered');
  expect(types()).toEqual(
    expect.arrayContaining([
      'input_audio_buffer.speech_started',
      'input_audio_buffer.committed',
      'conversation.item.input_audio_transcription.completed',
      'response.output_audio_transcript.done',
    ]),
  );
  expectTone(audio().subarray(1600), 880, 8000); // behind what came late of the greeting
  session.close();
});

test('deepgram', async () => {
  const { port } = await simulate('deepgram');
  const agent = `ws://127.0.0.1:${port}`;
  const environment = { base: agent, production: agent, agent, agentRest: agent };
  const client = new DeepgramClient({ apiKey: 'dg-test', environment });
  const socket = await client.agent.v1.connect({ reconnectAttempts: 0 });
  const types: string[] = [];
  const audio: Blob[] = [];
  socket.on('message', (message: unknown) => {
    if (message instanceof Blob) audio.push(message);
    else types.push((message as { type: string }).type);
  });
  socket.connect();
  await socket.waitForOpen();
  await until(() => types.includes('Welcome'), 'it welcomes');
  const wire = { encoding: 'linear16', sample_rate: 16000 };
  socket.sendSettings({
    type: 'Settings',
    audio: { input: wire, output: { ...wire, container: 'none' } },
    agent: { greeting: 'Hello.' },
  });
  await until(() => types.includes('AgentAudioDone'), 'it greeted');
  const heard = async () => {
    const bytes = await Promise.all(audio.map((blob) => blob.arrayBuffer()));
    return decodeAudio(Buffer.concat(bytes.map((each) => Buffer.from(each))), 'l16');
  };
  expectTone(await heard(), 440, 16000);
  audio.length = 0;
  types.length = 0;
  socket.sendMedia(encodeAudio(utterance(16000), 'l16'));
  await until(() => types.includes('AgentAudioDone'), 'it answered');
  expect(types).toEqual(expect.arrayContaining(['UserStartedSpeaking', 'ConversationText', 'AgentStartedSpeaking']));
  expectTone(await heard(), 880, 16000);
  socket.close();
});

test('gemini', async () => {
  const { port } = await simulate('gemini');
  const client = new GoogleGenAI({ apiKey: 'ge-test', httpOptions: { baseUrl: `http://127.0.0.1:${port}` } });
  const messages: LiveServerMessage[] = [];
  const session = await client.live.connect({
    model: 'gemini-3.8-live',
    config: { responseModalities: [Modality.AUDIO], sessionResumption: {} },
    callbacks: { onmessage: (message) => messages.push(message) },
  });
  const done = () => messages.some(({ serverContent }) => serverContent?.turnComplete === true);
  const audio = () => {
    const parts = messages.flatMap(({ serverContent }) => serverContent?.modelTurn?.parts ?? []);
    return joined(parts.map(({ inlineData }) => decodeAudio(Buffer.from(inlineData?.data ?? '', 'base64'), 'l16')));
  };
  session.sendClientContent({ turns: 'Greet the caller.', turnComplete: true });
  await until(done, 'it greeted');
  expectTone(audio(), 440, 24000);
  expect(messages.some(({ sessionResumptionUpdate }) => sessionResumptionUpdate?.resumable)).toBe(true);
  messages.length = 0;
  const data = encodeAudio(utterance(16000), 'l16').toString('base64');
  session.sendRealtimeInput({ audio: { data, mimeType: 'audio/pcm;rate=16000' } });
  await until(() => messages.some(({ serverContent }) => serverContent?.generationComplete === true), 'it answered');
  expect(messages.some(({ serverContent }) => serverContent?.interrupted === true)).toBe(true);
  expect(messages.some(({ serverContent }) => serverContent?.inputTranscription !== undefined)).toBe(true);
  expectTone(audio(), 880, 24000);
  session.close();
});

test('hume', async () => {
  const { port } = await simulate('hume');
  const evi = `ws://127.0.0.1:${port}/v0/evi`;
  const client = new HumeClient({ apiKey: 'hu-test', environment: { base: evi, evi, tts: evi, stream: evi } });
  const socket = client.empathicVoice.chat.connect({ reconnectAttempts: 0 });
  const types: string[] = [];
  const audio: Int16Array[] = [];
  socket.on('message', (message) => {
    types.push(message.type);
    if (message.type === 'audio_output') audio.push(readWav(Buffer.from(message.data, 'base64')).channels[0]!);
  });
  await socket.tillSocketOpen();
  await until(() => types.includes('chat_metadata'), 'it says which chat this is');
  socket.sendSessionSettings({ audio: { encoding: 'linear16', sampleRate: 16000, channels: 1 } });
  const say = (samples: Int16Array) => socket.sendAudioInput({ data: encodeAudio(samples, 'l16').toString('base64') });
  say(new Int16Array(320));
  await until(() => types.includes('assistant_end'), 'it greeted');
  expectTone(joined(audio), 440, 48000);
  types.length = 0;
  audio.length = 0;
  say(utterance(16000));
  await until(() => types.includes('assistant_end'), 'it answered');
  expect(types).toEqual(expect.arrayContaining(['user_interruption', 'user_message', 'assistant_message']));
  expectTone(joined(audio).subarray(9600), 880, 48000); // behind what came late of the greeting
  // The client lets anything pass; its schemas do not.
  const { SubscribeEvent } = serialization.empathicVoice;
  for (const message of simulator.calls[0]!.sent) {
    const parsed = await SubscribeEvent.parse(message, { unrecognizedObjectKeys: 'fail' });
    expect(parsed.ok ? [] : parsed.errors).toEqual([]);
  }
  socket.close();
});

test('hume: the session that its client sets up in the address', async () => {
  const { port } = await simulate('hume');
  const evi = `ws://127.0.0.1:${port}/v0/evi`;
  const client = new HumeClient({ apiKey: 'hu-test', environment: { base: evi, evi, tts: evi, stream: evi } });
  const sessionSettings = { audio: { encoding: 'linear16' as const, sampleRate: 24000, channels: 1 } };
  const socket = client.empathicVoice.chat.connect({ reconnectAttempts: 0, sessionSettings });
  const types: string[] = [];
  socket.on('message', (message) => types.push(message.type));
  await socket.tillSocketOpen();
  socket.sendAudioInput({ data: encodeAudio(new Int16Array(480), 'l16').toString('base64') });
  await until(() => types.includes('assistant_end') || types.includes('error'), 'it greeted');
  expect(types).not.toContain('error');
  socket.close();
});
