/** Cartesia Line: `session_create` begins the call, and the agent greets at once. */
import { randomUUID } from 'node:crypto';
import { decodeAudio, encodeAudio, type WireEncoding } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

const FORMAT = /^(mulaw|pcm)_(8000|16000|24000|44100)$/;

export const cartesia: ProviderProtocol = {
  provider: 'cartesia',
  path: '/v1/agents/websocket',
  late: false,
  refuse: ({ url, headers }) => {
    if (headers['x-api-key'] === undefined && !url.searchParams.has('access_token')) return 401;
    return url.searchParams.has('cartesia_version') ? null : 400;
  },
  open(wire, agentInput, url) {
    let encoding: WireEncoding | null = null;
    let calls = 0;
    let turns = 0;
    const times = { start_time: 0, end_time: 0 };
    const texts = new Map<number, string>();
    const error = (code: string, message: string, fatal: boolean) => wire.send({ type: 'error', code, message, fatal });
    return {
      message(data) {
        const message = typeof data === 'string' ? jsonOf(data) : null;
        if (message === null) return error('invalid_event', 'Expected a JSON object in a text message.', false);
        if (encoding === null && message.type !== 'session_create') {
          error('invalid_event', 'session_create must be the first event.', true);
          return wire.close(1008);
        }
        switch (message.type) {
          case 'session_create': {
            const { input_format = 'pcm_24000', output_delivery = 'speaking_pace' } = within(message, 'audio');
            const [, codec, rate] = FORMAT.exec(String(input_format)) ?? [];
            if (codec === undefined) return error('invalid_event', 'input_format is unknown.', true);
            encoding = codec === 'mulaw' ? 'ulaw' : 'l16';
            const ids = {
              call_id: `ac_${randomUUID()}`,
              agent_id: url.pathname.split('/').at(-1),
              agent_version_id: 'av_1',
            };
            wire.send({ type: 'session_ready', ...ids, audio: { input_format, output_delivery } });
            agentInput.begin({ listensHz: Number(rate), speaksHz: Number(rate) });
            return agentInput.greet();
          }
          case 'audio_input':
            return agentInput.hear(decodeAudio(Buffer.from(String(message.audio), 'base64'), encoding ?? 'l16'));
          case 'dtmf_input':
            return agentInput.read(String(message.digit));
          case 'client_tool_result':
            return;
          default:
            return error('invalid_event', 'Unknown event type.', false);
        }
      },
      interrupted(turn) {
        if (turn !== null) wire.send({ type: 'audio_output_clear' });
        turns += 1;
        wire.send({ type: 'turn_started', turn: turns, role: 'user', start_time: 0 });
      },
      heard: (text) =>
        wire.send({
          type: 'turn_ended',
          turn: turns,
          role: 'user',
          text,
          interrupted: false,
          ...times,
          tool_calls: [],
        }),
      said(text, turn) {
        turns += 1;
        texts.set(turn, text);
        wire.send({ type: 'turn_started', turn: turns, role: 'assistant', start_time: 0 });
        wire.send({ type: 'turn_output_text_delta', turn: turns, role: 'assistant', text });
      },
      audio: (samples) =>
        wire.send({ type: 'audio_output', audio: encodeAudio(samples, encoding ?? 'l16').toString('base64') }),
      finished(turn) {
        const text = texts.get(turn) ?? '';
        texts.delete(turn);
        const ended = { turn: turns, role: 'assistant', text, interrupted: false, ...times, tool_calls: [] };
        wire.send({ type: 'turn_ended', ...ended });
      },
      hangUp: () => wire.close(1000),
      transfer(to) {
        calls += 1;
        const call = { tool_call_id: `call_${calls}`, tool_name: 'transfer_call', parameters: { to } };
        wire.send({ type: 'client_tool_call', ...call, expects_response: true });
      },
      expire: () => wire.close(1000),
    };
  },
};
