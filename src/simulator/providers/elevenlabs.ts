/** ElevenLabs Agents: a signed URL over REST, then JSON with base64 audio in the formats that the agent is set to. */
import { randomUUID } from 'node:crypto';
import { decodeAudio, encodeAudio } from './codec.js';
import { type Dialect, jsonOf, within } from './dialect.js';

export const elevenlabs: Dialect = {
  provider: 'elevenlabs',
  path: '/v1/convai/conversation',
  late: true,
  refuse: ({ url }) => (url.searchParams.has('agent_id') || url.searchParams.has('token') ? null : 400),
  rest({ method, url, headers, socketBase }) {
    if (method !== 'GET' || url.pathname !== '/v1/convai/conversation/get-signed-url') return null;
    if (headers['xi-api-key'] === undefined) return { status: 401, body: { detail: { status: 'unauthorized' } } };
    const agent = encodeURIComponent(url.searchParams.get('agent_id') ?? '');
    const signed_url = `${socketBase}${elevenlabs.path}?agent_id=${agent}&conversation_signature=${randomUUID()}`;
    return { status: 200, body: { signed_url } };
  },
  open(wire, ears) {
    let pinged = 0;
    let calls = 0;
    return {
      message(data) {
        const message = typeof data === 'string' ? jsonOf(data) : null;
        if (message === null) return wire.close(1008, 'Invalid message');
        if (typeof message.user_audio_chunk === 'string') {
          return ears.hear(decodeAudio(Buffer.from(message.user_audio_chunk, 'base64'), 'ulaw'));
        }
        if (message.type === 'user_message') return ears.read(String(message.text));
        if (message.type !== 'conversation_initiation_client_data') return;
        wire.send({
          type: 'conversation_initiation_metadata',
          conversation_initiation_metadata_event: {
            conversation_id: `conv_${randomUUID()}`,
            agent_output_audio_format: 'ulaw_8000',
            user_input_audio_format: 'ulaw_8000',
          },
        });
        pinged += 1;
        wire.send({ type: 'ping', ping_event: { event_id: pinged, ping_ms: 0 } });
        const change = within(message, 'conversation_config_override');
        const greeting = within(change, 'agent').first_message;
        ears.begin({ listensHz: 8000, speaksHz: 8000, ...(typeof greeting === 'string' && { greeting }) });
      },
      interrupted: (turn) => {
        if (turn !== null) wire.send({ type: 'interruption', interruption_event: { event_id: turn } });
      },
      heard: (text) =>
        wire.send({ type: 'user_transcript', user_transcription_event: { user_transcript: text, event_id: 0 } }),
      said: (text, turn) =>
        wire.send({ type: 'agent_response', agent_response_event: { agent_response: text, event_id: turn } }),
      audio: (samples, turn) =>
        wire.send({
          type: 'audio',
          audio_event: { audio_base_64: encodeAudio(samples, 'ulaw').toString('base64'), event_id: turn },
        }),
      finished: () => {},
      hangUp: () => {
        calls += 1;
        const tool = { tool_name: 'end_call', tool_call_id: `tool_${calls}`, tool_type: 'system', event_id: calls };
        wire.send({ type: 'agent_tool_response', agent_tool_response: { ...tool, is_error: false, is_called: true } });
        wire.close(1000);
      },
    };
  },
};
