/** Every message that a provider's own types know is read, or left unread on purpose: the compiler finds the one that is new. */
import { readFileSync } from 'node:fs';
import type { ConversationConfigOverrideConversationClientEventsItem as ElevenLabsEvent } from '@elevenlabs/types';
import type { LiveServerMessage } from '@google/genai';
import type { Hume } from 'hume';
import type { RealtimeServerEvent } from 'openai/resources/realtime/realtime';
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
  usageMetadata: 'read',
  voiceActivity: 'unread',
  voiceActivityDetectionSignal: 'unread',
};

const openai: Known<RealtimeServerEvent['type']> = {
  'conversation.item.input_audio_transcription.completed': 'read',
  'conversation.item.input_audio_transcription.delta': 'read',
  'conversation.item.input_audio_transcription.failed': 'read',
  // xAI's first event in earlier versions; the two share a class.
  'conversation.created': 'read',
  error: 'read',
  'input_audio_buffer.speech_started': 'read',
  'response.done': 'read',
  'response.function_call_arguments.done': 'read',
  'response.output_audio.delta': 'read',
  'response.output_audio_transcript.delta': 'read',
  'response.output_audio_transcript.done': 'read',
  'session.created': 'read',
  'session.updated': 'read',
  // Confirmations of what we sent, parts of what arrives whole, and texts and tools that we do not ask for.
  'conversation.item.added': 'unread',
  'conversation.item.created': 'unread',
  'conversation.item.deleted': 'unread',
  'conversation.item.done': 'unread',
  'conversation.item.input_audio_transcription.segment': 'unread',
  'conversation.item.retrieved': 'unread',
  'conversation.item.truncated': 'unread',
  'input_audio_buffer.cleared': 'unread',
  'input_audio_buffer.committed': 'unread',
  'input_audio_buffer.dtmf_event_received': 'unread',
  'input_audio_buffer.speech_stopped': 'unread',
  'input_audio_buffer.timeout_triggered': 'unread',
  'mcp_list_tools.completed': 'unread',
  'mcp_list_tools.failed': 'unread',
  'mcp_list_tools.in_progress': 'unread',
  'output_audio_buffer.cleared': 'unread',
  'output_audio_buffer.started': 'unread',
  'output_audio_buffer.stopped': 'unread',
  'rate_limits.updated': 'unread',
  'response.content_part.added': 'unread',
  'response.content_part.done': 'unread',
  'response.created': 'unread',
  'response.function_call_arguments.delta': 'unread',
  'response.mcp_call.completed': 'unread',
  'response.mcp_call.failed': 'unread',
  'response.mcp_call.in_progress': 'unread',
  'response.mcp_call_arguments.delta': 'unread',
  'response.mcp_call_arguments.done': 'unread',
  'response.output_audio.done': 'unread',
  'response.output_item.added': 'unread',
  'response.output_item.done': 'unread',
  'response.output_text.delta': 'unread',
  'response.output_text.done': 'unread',
};

const elevenlabs: Known<ElevenLabsEvent | 'error'> = {
  agent_response: 'read',
  agent_response_correction: 'read',
  audio: 'read',
  client_tool_call: 'read',
  conversation_initiation_metadata: 'read',
  error: 'read',
  interruption: 'read',
  ping: 'read',
  user_transcript: 'read',
  // What is only guessed so far, what concerns a chat on a screen, and tools that their servers call.
  agent_chat_response_part: 'unread',
  agent_reasoning_response_part: 'unread',
  agent_tool_request: 'unread',
  agent_tool_response: 'unread',
  agent_tool_response_full_payload: 'unread',
  agent_typing: 'unread',
  asr_initiation_metadata: 'unread',
  context_usage: 'unread',
  external_agent_connected: 'unread',
  external_agent_disconnected: 'unread',
  guardrail_triggered: 'unread',
  internal_tentative_agent_response: 'unread',
  internal_turn_probability: 'unread',
  mcp_connection_status: 'unread',
  mcp_tool_call: 'unread',
  rich_content: 'unread',
  tentative_user_transcript: 'unread',
  vad_score: 'unread',
};

describe.each([
  ['openai', openai, (name: string) => `case '${name}':`],
  ['elevenlabs', elevenlabs, (name: string) => `case '${name}':`],
  ['deepgram', deepgram, (name: string) => `case '${name}':`],
  ['hume', hume, (name: string) => `case '${name}':`],
  ['gemini', gemini, (name: string) => `fields.${name}`],
] as const)('%s', (provider, types, words) => {
  const source = readFileSync(`media/agents/providers/hosted/${provider}.ts`, 'utf8');
  test.each(Object.entries(types))('%s is %s', (name, how) => {
    expect(source.includes(words(name))).toBe(how === 'read');
  });
});
