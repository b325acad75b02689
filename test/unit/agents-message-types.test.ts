/** Every message that a provider's own types know is read, or left unread on purpose: the compiler finds the one that is new. */
import { readFileSync } from 'node:fs';
import type { LiveServerMessage } from '@google/genai';
import type { Hume } from 'hume';
import { describe, expect, test } from 'vitest';

type Known<T extends string> = Record<T, 'read' | 'unread'>;

const deepgram: Record<string, 'read' | 'unread'> = {
  Welcome: 'read',
  SettingsApplied: 'read',
  ConversationText: 'read',
  UserStartedSpeaking: 'read',
  AgentThinking: 'read',
  AgentStartedSpeaking: 'read',
  AgentAudioDone: 'read',
  FunctionCallRequest: 'read',
  FunctionCallCancelled: 'read',
  InjectionRefused: 'read',
  Error: 'read',
  Warning: 'read',
  // What we changed is confirmed, what we know is repeated, and our own clock measures latency.
  FunctionCallResponse: 'unread',
  History: 'unread',
  LatencyReport: 'unread',
  ListenUpdated: 'unread',
  PromptUpdated: 'unread',
  SpeakUpdated: 'unread',
  ThinkUpdated: 'unread',
};

const hume: Known<NonNullable<Hume.empathicVoice.SubscribeEvent['type']>> = {
  assistant_end: 'read',
  assistant_message: 'read',
  audio_output: 'read',
  chat_metadata: 'read',
  error: 'read',
  tool_call: 'read',
  user_interruption: 'read',
  user_message: 'read',
  assistant_prosody: 'unread',
  session_settings: 'unread',
  tool_error: 'unread',
  tool_response: 'unread',
};

const gemini: Known<Exclude<keyof LiveServerMessage, 'text' | 'data'>> = {
  setupComplete: 'read',
  serverContent: 'read',
  toolCall: 'read',
  goAway: 'read',
  sessionResumptionUpdate: 'read',
  toolCallCancellation: 'unread',
  usageMetadata: 'unread',
  voiceActivity: 'unread',
  voiceActivityDetectionSignal: 'unread',
};

describe.each([
  ['deepgram', deepgram, (name: string) => `case '${name}':`],
  ['hume', hume, (name: string) => `case '${name}':`],
  ['gemini', gemini, (name: string) => `fields.${name}`],
] as const)('%s', (provider, types, words) => {
  const source = readFileSync(`media/agents/providers/${provider}.ts`, 'utf8');
  test.each(Object.entries(types))('%s is %s', (name, how) => {
    expect(source.includes(words(name))).toBe(how === 'read');
  });
});
