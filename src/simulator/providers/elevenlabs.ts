/** ElevenLabs Agents: a signed URL over REST, then JSON with base64 audio in the formats of the agent. */
import { randomUUID } from 'node:crypto';
import { decodeAudio, encodeAudio, type WireEncoding } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

/** The audio format that an agent id names, as in `agent_pcm_16000`; any other agent uses μ-law. */
function formatOf(agentId: string | null): { name: string; encoding: WireEncoding; rateHz: number } {
  const rateHz = Number(/pcm_(\d+)$/.exec(agentId ?? '')?.[1]);
  return rateHz > 0
    ? { name: `pcm_${rateHz}`, encoding: 'l16', rateHz }
    : { name: 'ulaw_8000', encoding: 'ulaw', rateHz: 8000 };
}

export const elevenlabs: ProviderProtocol = {
  provider: 'elevenlabs',
  path: '/v1/convai/conversation',
  late: true,
  refuse: ({ url }) => (url.searchParams.has('agent_id') || url.searchParams.has('token') ? null : 400),
  rest({ method, url, headers, socketBase }) {
    if (method !== 'GET' || !/^\/v1\/convai\/conversation\/get[-_]signed[-_]url$/.test(url.pathname)) return null;
    if (headers['xi-api-key'] === undefined) return { status: 401, body: { detail: { status: 'unauthorized' } } };
    const agent = encodeURIComponent(url.searchParams.get('agent_id') ?? '');
    const signed_url = `${socketBase}${elevenlabs.path}?agent_id=${agent}&conversation_signature=${randomUUID()}`;
    return { status: 200, body: { signed_url } };
  },
  open(wire, agentInput, url) {
    const { name, encoding, rateHz } = formatOf(url.searchParams.get('agent_id'));
    let pings = 0;
    let calls = 0;
    let spoken = '';
    const ping = () => {
      pings += 1;
      wire.send({ type: 'ping', ping_event: { event_id: pings, ping_ms: 0 } });
    };
    return {
      message(data) {
        const message = typeof data === 'string' ? jsonOf(data) : null;
        if (message === null) return wire.close(1008, 'Invalid message');
        if (typeof message.user_audio_chunk === 'string') {
          return agentInput.hear(decodeAudio(Buffer.from(message.user_audio_chunk, 'base64'), encoding));
        }
        if (message.type === 'user_message') return agentInput.read(String(message.text));
        if (message.type !== 'conversation_initiation_client_data') return;
        wire.send({
          type: 'conversation_initiation_metadata',
          conversation_initiation_metadata_event: {
            conversation_id: `conv_${randomUUID()}`,
            agent_output_audio_format: name,
            user_input_audio_format: name,
          },
        });
        ping();
        const greeting = within(within(message, 'conversation_config_override'), 'agent').first_message;
        agentInput.begin({ listensHz: rateHz, speaksHz: rateHz });
        if (greeting !== '') agentInput.greet(typeof greeting === 'string' ? greeting : undefined);
      },
      interrupted(turn) {
        if (turn === null) return;
        wire.send({ type: 'interruption', interruption_event: { event_id: turn } });
        const corrected_agent_response = spoken.slice(0, spoken.length / 2);
        wire.send({
          type: 'agent_response_correction',
          agent_response_correction_event: {
            original_agent_response: spoken,
            corrected_agent_response,
            event_id: turn,
          },
        });
      },
      heard(text) {
        ping();
        wire.send({ type: 'user_transcript', user_transcription_event: { user_transcript: text, event_id: 0 } });
      },
      said(text, turn) {
        spoken = text;
        wire.send({ type: 'agent_response', agent_response_event: { agent_response: text, event_id: turn } });
      },
      audio: (samples, turn) =>
        wire.send({
          type: 'audio',
          audio_event: { audio_base_64: encodeAudio(samples, encoding).toString('base64'), event_id: turn },
        }),
      finished: () => {},
      hangUp: () => {
        calls += 1;
        const tool = { tool_name: 'end_call', tool_call_id: `tool_${calls}`, tool_type: 'system', event_id: calls };
        wire.send({ type: 'agent_tool_response', agent_tool_response: { ...tool, is_error: false, is_called: true } });
        wire.close(1000);
      },
      transfer(to) {
        calls += 1;
        const call = { tool_name: 'transfer_call', tool_call_id: `tool_${calls}`, parameters: { to }, event_id: calls };
        wire.send({ type: 'client_tool_call', client_tool_call: call });
      },
      expire: () => wire.close(1000, 'The conversation reached its maximum duration.'),
    };
  },
};
