/** Messages as providers send them, and a way to spoil one. Stream protocols that are like Twilio's have none here. */
type Message = { [field: string]: unknown };

const AUDIO = Buffer.alloc(320, 1).toString('base64');

/** Of services with OpenAI's protocol. */
const REALTIME: Message[] = [
  { type: 'session.created', session: { type: 'realtime' } },
  { type: 'session.updated', session: { type: 'realtime' } },
  { type: 'response.output_audio.delta', item_id: 'item_1', response_id: 'r', delta: AUDIO },
  { type: 'response.output_audio_transcript.delta', item_id: 'item_1', delta: 'Hello' },
  { type: 'response.output_audio_transcript.done', item_id: 'item_1', transcript: 'Hello' },
  { type: 'input_audio_buffer.speech_started', audio_start_ms: 10, item_id: 'item_2' },
  { type: 'conversation.item.input_audio_transcription.completed', item_id: 'item_2', transcript: 'Hi' },
  { type: 'response.function_call_arguments.done', call_id: 'c', name: 'hang_up', arguments: '{}' },
  { type: 'response.done', response: { status: 'completed' } },
  { type: 'error', error: { type: 'invalid_request_error', code: 'invalid_value', message: 'm' } },
];

export const PROVIDER_MESSAGES: Record<string, Message[]> = {
  openai: REALTIME,
  azure_openai: REALTIME,
  inworld: [...REALTIME, { type: 'ping' }],
  azure_voice_live: REALTIME.map((message) => ({
    ...message,
    type: String(message.type).replace('response.output_audio', 'response.audio'),
  })),
  assemblyai: [
    { type: 'session.ready', session_id: 'sess_1' },
    { type: 'input.speech.started' },
    { type: 'transcript.user', text: 'Hi', item_id: 'item_1' },
    { type: 'reply.started', reply_id: 'reply_1' },
    { type: 'reply.audio', data: AUDIO },
    { type: 'transcript.agent', text: 'Hello', reply_id: 'reply_1', item_id: 'item_2', interrupted: false },
    { type: 'tool.call', call_id: 'call_1', name: 'hang_up', arguments: {} },
    { type: 'reply.done', status: 'completed' },
    { type: 'session.error', code: 'invalid_format', message: 'm' },
    { type: 'session.ended' },
  ],
  amazon_nova_sonic: [
    { event: { completionStart: { sessionId: 's', promptName: 'prompt', completionId: 'c' } } },
    {
      event: {
        contentStart: {
          contentId: 'c1',
          type: 'TEXT',
          role: 'ASSISTANT',
          additionalModelFields: '{"generationStage":"SPECULATIVE"}',
        },
      },
    },
    { event: { textOutput: { contentId: 'c1', content: 'Hello' } } },
    { event: { contentEnd: { contentId: 'c1', type: 'TEXT', stopReason: 'PARTIAL_TURN' } } },
    { event: { contentStart: { contentId: 'c2', type: 'AUDIO', role: 'ASSISTANT' } } },
    { event: { audioOutput: { contentId: 'c2', content: AUDIO } } },
    { event: { contentEnd: { contentId: 'c2', type: 'AUDIO', stopReason: 'END_TURN' } } },
    { event: { contentStart: { contentId: 'c3', type: 'TOOL', role: 'TOOL' } } },
    { event: { toolUse: { contentId: 'c3', toolName: 'hang_up', toolUseId: 't', content: '{}' } } },
    { event: { contentEnd: { contentId: 'c3', type: 'TOOL', stopReason: 'TOOL_USE' } } },
    { event: { usageEvent: { totalTokens: 200 } } },
    { exception: 'validationException' },
  ],
  cartesia: [
    {
      type: 'session_ready',
      call_id: 'ac_1',
      agent_id: 'a',
      agent_version_id: 'av_1',
      audio: { input_format: 'mulaw_8000' },
    },
    { type: 'audio_output', audio: AUDIO },
    { type: 'audio_output_clear' },
    { type: 'dtmf_output', digit: '5' },
    { type: 'turn_started', turn: 1, role: 'user', start_time: 1 },
    { type: 'turn_output_text_delta', turn: 2, role: 'assistant', text: 'Hello' },
    { type: 'turn_ended', turn: 2, role: 'assistant', text: 'Hello', interrupted: false, tool_calls: [] },
    { type: 'turn_ended', turn: 1, role: 'user', text: 'Hi', interrupted: false, tool_calls: [] },
    { type: 'client_tool_call', tool_call_id: 't', tool_name: 'hang_up', parameters: {}, expects_response: true },
    { type: 'error', code: 'invalid_event', message: 'm', fatal: false },
  ],
  xai: [{ type: 'conversation.created', conversation: { id: 'c' } }, ...REALTIME],
  elevenlabs: [
    {
      type: 'conversation_initiation_metadata',
      conversation_initiation_metadata_event: {
        conversation_id: 'c',
        agent_output_audio_format: 'pcm_16000',
        user_input_audio_format: 'ulaw_8000',
      },
    },
    { type: 'audio', audio_event: { audio_base_64: AUDIO, event_id: 3 } },
    { type: 'interruption', interruption_event: { event_id: 1 } },
    { type: 'ping', ping_event: { event_id: 1, ping_ms: 20 } },
    { type: 'user_transcript', user_transcription_event: { user_transcript: 'Hi', event_id: 2 } },
    { type: 'agent_response', agent_response_event: { agent_response: 'Hello', event_id: 3 } },
    { type: 'client_tool_call', client_tool_call: { tool_name: 'hang_up', tool_call_id: 't', parameters: {} } },
    { type: 'error', error_event: { code: 1011, error_type: 'internal' } },
  ],
  deepgram: [
    { type: 'Welcome', request_id: 'r' },
    { type: 'SettingsApplied' },
    { type: 'UserStartedSpeaking' },
    { type: 'AgentStartedSpeaking', total_latency: 1 },
    { type: 'ConversationText', role: 'assistant', content: 'Hello' },
    { type: 'ConversationText', role: 'user', content: 'Hi' },
    { type: 'AgentAudioDone' },
    {
      type: 'FunctionCallRequest',
      functions: [{ id: 'f', name: 'hang_up', arguments: '{}', client_side: true }],
    },
    { type: 'Warning', code: 'PROMPT_TOO_LONG', description: 'd' },
    { type: 'Error', code: 'INTERNAL_SERVER_ERROR', description: 'd' },
  ],
  gemini: [
    { setupComplete: {} },
    { serverContent: { modelTurn: { parts: [{ inlineData: { mimeType: 'audio/pcm;rate=24000', data: AUDIO } }] } } },
    { serverContent: { interrupted: true } },
    { serverContent: { inputTranscription: { text: 'Hi' } } },
    { serverContent: { outputTranscription: { text: 'Hello' } } },
    { serverContent: { turnComplete: true } },
    { toolCall: { functionCalls: [{ id: 'f', name: 'hang_up', args: {} }] } },
    { sessionResumptionUpdate: { newHandle: 'h', resumable: true } },
    { goAway: { timeLeft: '30s' } },
    { usageMetadata: { totalTokenCount: 1 } },
  ],
  ultravox: [
    { type: 'call_started', callId: 'c' },
    { type: 'state', state: 'listening' },
    { type: 'transcript', role: 'agent', medium: 'voice', delta: 'Hel', ordinal: 1, final: false },
    { type: 'transcript', role: 'agent', medium: 'voice', text: 'Hello', ordinal: 1, final: true },
    { type: 'transcript', role: 'user', medium: 'voice', text: 'Hi', ordinal: 2, final: true },
    { type: 'playback_clear_buffer' },
    { type: 'client_tool_invocation', toolName: 'hang_up', invocationId: 'i', parameters: {} },
  ],
  hume: [
    { type: 'chat_metadata', chat_id: 'c', chat_group_id: 'g', request_id: 'r' },
    { type: 'audio_output', id: 'a', index: 0, data: AUDIO },
    { type: 'user_interruption', time: 1 },
    { type: 'user_message', message: { role: 'user', content: 'Hi' }, interim: false },
    { type: 'assistant_message', id: 'a', message: { role: 'assistant', content: 'Hello' } },
    { type: 'assistant_end' },
    { type: 'tool_call', name: 'hang_up', parameters: '{}', tool_call_id: 't', response_required: true },
    { type: 'error', code: 'E0101', slug: 'config_not_found', message: 'm' },
  ],
  vapi: [
    { type: 'user-interrupted', turnId: 't' },
    { type: 'speech-update', status: 'started', role: 'user' },
    { type: 'transcript', role: 'assistant', transcriptType: 'final', transcript: 'Hello' },
    { message: { type: 'transcript[transcriptType="final"]', role: 'user', transcript: 'Hi' } },
    { type: 'transfer-update', destination: { type: 'number', number: '+4930123456' } },
    { type: 'status-update', status: 'ended' },
    { type: 'hang' },
  ],
  jambonz: [
    { type: 'killAudio' },
    { type: 'mark', data: { name: 'm' } },
    { type: 'clearMarks' },
    {
      type: 'playAudio',
      data: { audioContentType: 'raw', sampleRate: 16000, audioContent: AUDIO, id: 'a', queuePlay: true },
    },
    { type: 'disconnect' },
  ],
  asterisk: [
    { command: 'MARK_MEDIA', correlation_id: 'm' },
    { command: 'STOP_MEDIA_BUFFERING', correlation_id: 'b' },
    { command: 'REPORT_QUEUE_DRAINED' },
    { command: 'FLUSH_MEDIA' },
    { command: 'HANGUP' },
  ],
  sinch: [{ command: 'answer' }, { command: 'clear' }, { command: 'heartbeat' }, { command: 'reject' }],
  genesys: [
    { version: '2', id: 's', type: 'opened', seq: 1, clientseq: 1, parameters: { startPaused: false, media: [] } },
    {
      version: '2',
      id: 's',
      type: 'event',
      seq: 2,
      clientseq: 1,
      parameters: { entities: [{ type: 'barge_in', data: {} }] },
    },
    { version: '2', id: 's', type: 'pause', seq: 3, clientseq: 1, parameters: {} },
    { version: '2', id: 's', type: 'resume', seq: 4, clientseq: 1, parameters: {} },
    { version: '2', id: 's', type: 'disconnect', seq: 5, clientseq: 1, parameters: { reason: 'completed' } },
  ],
  audiocodes: [
    { type: 'session.accepted', mediaFormat: 'raw/lpcm16' },
    { type: 'userStream.started' },
    { type: 'playStream.start', streamId: 'p', mediaFormat: 'raw/lpcm16_24' },
    { type: 'playStream.chunk', streamId: 'p', audioChunk: AUDIO },
    { type: 'activities', activities: [{ type: 'event', name: 'abortPrompts' }] },
    {
      type: 'activities',
      activities: [{ type: 'event', name: 'transfer', activityParams: { transferTarget: 'tel:+12025550199' } }],
    },
    { type: 'activities', activities: [{ type: 'event', name: 'hangup' }] },
    { type: 'session.error', reason: 'r' },
  ],
};

/** A copy with the value at one place, counted through the whole tree, replaced. */
export function spoilt(message: Message, place: number, value: unknown): unknown {
  const places: [Record<string, unknown>, string][] = [];
  const copy = structuredClone(message);
  const walk = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    for (const key of Object.keys(node)) {
      places.push([node as Record<string, unknown>, key]);
      walk((node as Record<string, unknown>)[key]);
    }
  };
  walk(copy);
  const [node, key] = places[place % places.length] ?? [copy, 'type'];
  node[key] = value;
  return copy;
}
